"""What an audit found: the table and the verdict, worked out from the shards, kept in result.json.

Shards are read one at a time, once for every metric and operator: at any moment the scores of one metric
under one operator are in memory, whatever the number of metrics, words and files.
A finished folder opens without torch, the model or the shards.
"""

from __future__ import annotations

import csv
import io
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from heedful.auditing.answer import AuditVerdict, answer
from heedful.auditing.folder import RunFolder, to_json
from heedful.auditing.tables import from_parquet
from heedful.errors import HeedfulError
from heedful.evidence.summary import summarise, verdicts
from heedful.evidence.verdict import Verdict
from heedful.evidence.weigh import Score
from heedful.store import parse
from heedful.types import Evidence

TOLD = 100  # errors in the result; the shards have them all
RESULT = "result.json"
KEPT = (  # fields of an Audit that stand in it as they are
    "rows", "texts", "labelled", "right", "unknown", "cost", "failed", "silent", "better", "errors",
)  # fmt: skip


@dataclass(frozen=True, repr=False)
class Audit:
    """The result of `heedful.audit`."""

    folder: Path
    table: list[Evidence]
    verdict: AuditVerdict
    rows: int  # read
    texts: int  # weighed; the others are in `errors`
    cost: Mapping[str, int]  # asked, run, naive: see heedful.auditing.weighing
    labelled: int = 0  # texts whose label the model knows
    right: int = 0  # of these, the model's prediction is the label
    unknown: int = 0  # texts with a label that names none of the model's
    errors: Sequence[Mapping[str, Any]] = ()  # the first of them: row, method, reason
    failed: Mapping[str, int] = field(default_factory=dict)  # method -> texts on which it alone failed
    silent: Sequence[str] = ()  # metrics that were asked for and had no value on any text
    better: Mapping[str, str] = field(default_factory=dict)  # metric -> "high" or "low"
    made: Mapping[str, Any] = field(default_factory=dict)  # the manifest: settings, model, source, versions

    def __repr__(self) -> str:
        return f"<heedful.Audit of {self.texts} texts in {str(self.folder)!r}: {self.verdict.headline}>"

    def __str__(self) -> str:
        from heedful.view.audit_terminal import as_text

        return as_text(self)

    def spread(self, metric: str, method: str) -> float:
        """Largest less smallest skill over operators: how much of the number is the removal itself."""
        skills = [e.skill for e in self.table if (e.metric, e.method) == (metric, method)]
        return max(skills) - min(skills) if len(skills) > 1 else float("nan")

    def to_csv(self) -> str:
        """One line a metric, operator and method."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        names = [
            "metric",
            "better",
            "operator",
            "method",
            "n",
            "value",
            "control",
            "best",
            "skill",
            "low",
            "high",
            "chance_low",
            "chance_high",
        ]
        writer.writerow([*names, "spread", "circular"])
        for e in self.table:
            numbers = [e.value, e.control, e.best, e.skill, *e.interval, *e.chance]
            numbers.append(self.spread(e.metric, e.method))
            shown = ["" if math.isnan(number) else repr(number) for number in numbers]
            writer.writerow(
                [e.metric, self.better[e.metric], e.operator, e.method, e.n, *shown, str(e.circular).lower()]
            )
        return out.getvalue()

    def to_dict(self) -> dict[str, Any]:
        found: dict[str, Any] = {name: getattr(self.verdict, name) for name in ("headline", "heed", "often")}
        found |= {name: getattr(self, name) for name in KEPT}
        found["table"] = [{**asdict(e), "spread": self.spread(e.metric, e.method)} for e in self.table]
        found["verdicts"] = [{**asdict(v), "said": str(v)} for v in self.verdict]
        return {name: plain(value) for name, value in found.items()}

    def to_html(self, path: str | Path) -> Path:
        """Write a self-contained page."""
        from heedful.view.audit_page import page

        target = Path(path)
        target.write_text(page(self), encoding="utf-8")
        return target

    def _repr_html_(self) -> str:
        from heedful.view.audit_page import fragment

        return fragment(self)


def plain(value: Any) -> Any:
    """As JSON has it; a NaN is null."""
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


def _record(kind: Any, data: Mapping[str, Any]) -> Any:
    """The inverse of `plain(asdict(...))`: null is NaN where a number must be, lists are tuples."""
    given: dict[str, Any] = {}
    for each in fields(kind):
        if each.name not in data:
            continue  # of a version that did not have it
        value, wanted = data[each.name], str(each.type)
        if "float" in wanted and "None" not in wanted:
            value = tuple(map(_float, value)) if isinstance(value, list) else _float(value)
        given[each.name] = tuple(value) if isinstance(value, list) else value
    return kind(**given)


def _float(value: Any) -> float:
    return float("nan") if value is None else float(value)


def load(folder: str | Path) -> Audit:
    """Open the folder of a finished audit."""
    run = RunFolder(Path(folder))
    made = run.manifest()
    if "files" not in made:
        raise HeedfulError(
            f"the audit in {folder} is not finished", fix="Start it again with the same arguments: it goes on"
        )
    data = parse(run.read(RESULT), run.path / RESULT)
    table = [_record(Evidence, item) for item in data["table"]]
    judged = tuple(_record(Verdict, item) for item in data["verdicts"])
    return Audit(
        run.path,
        table,
        answer(judged, data["texts"]),
        **{name: data[name] for name in KEPT if name in data},
        made=made,
    )


def collect(run: RunFolder) -> Audit:
    """The result of a folder whose shards are all there."""
    made, numbers = run.manifest(), run.numbers()
    counts: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    pairs: dict[tuple[str, str], None] = {}
    errors: list[dict[str, Any]] = []
    for number in numbers:
        counts["rows"] += run.facts(number)["rows"]
        for text in from_parquet(run.file(number, "texts.parquet")).to_pylist():
            counts["texts"] += 1
            counts["labelled"] += text["right"] is not None
            counts["right"] += bool(text["right"])
            counts["unknown"] += text["label"] is not None and text["right"] is None
            counts.update({name: text[name] for name in ("asked", "run", "naive")})
        found = from_parquet(run.file(number, "errors.parquet")).to_pylist()
        failed.update(error["method"] for error in found if error["method"])
        errors += found[: TOLD - len(errors)]
        keys = from_parquet(run.file(number, "scores.parquet"), ["metric", "operator"]).to_pydict()
        pairs |= dict.fromkeys(zip(keys["metric"], keys["operator"], strict=True))
    if not counts["texts"]:
        first = f"row {errors[0]['row']}: {errors[0]['reason']}" if errors else "there are none"
        raise HeedfulError(f"none of {counts['rows']} rows could be weighed", first)
    if not pairs:
        asked = ", ".join(made["settings"]["metrics"])
        raise HeedfulError("no metric had a value on any text", f"asked for: {asked}")
    table, judged = _weighed(run, list(pairs), made["settings"])
    cost = {name: counts[name] for name in ("asked", "run", "naive")}
    from heedful import registry

    better = {metric: registry.get_metric(metric).better for metric, _ in pairs}
    valued = {e.metric for e in table if not math.isnan(e.value)}
    silent = [metric for metric in made["settings"]["metrics"] if metric not in valued]
    told = answer(judged, counts["texts"])
    return Audit(
        run.path, table, told, counts["rows"], counts["texts"], cost, counts["labelled"], counts["right"],
        counts["unknown"], errors, dict(sorted(failed.items())), silent, better, made,
    )  # fmt: skip


def _weighed(
    run: RunFolder, pairs: Sequence[tuple[str, str]], settings: Mapping[str, Any]
) -> tuple[list[Evidence], list[Verdict]]:
    table: list[Evidence] = []
    judged: list[Verdict] = []
    rank = {name: place for place, name in enumerate((*settings["metrics"], *settings["operators"]))}
    for metric, operator in sorted(pairs, key=lambda pair: (rank[pair[0]], rank.get(pair[1], 0))):
        texts = list(_texts(run, metric, operator))
        table += summarise(texts, seed=settings["seed"])
        judged += verdicts(texts, seed=settings["seed"])
    return table, judged


def _texts(run: RunFolder, metric: str, operator: str) -> Iterator[list[Score]]:
    """Scores text by text."""
    names = [each.name for each in fields(Score)]
    for number in run.numbers():
        content = run.file(number, "scores.parquet")
        rows = from_parquet(content, ["row", *names], {"metric": metric, "operator": operator}).to_pylist()
        texts: dict[int, list[Score]] = {}
        for row in rows:
            texts.setdefault(row.pop("row"), []).append(Score(**row))
        yield from texts.values()


def contents(found: Audit) -> dict[str, bytes]:
    """The files that stand beside the shards of a finished run."""
    from heedful.view.audit_page import page

    return {
        RESULT: to_json(found.to_dict()),
        "table.csv": found.to_csv().encode(),
        "report.html": page(found).encode(),
    }
