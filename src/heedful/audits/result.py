"""What an audit found: the table and the verdict, worked out from the shards, kept in result.json.

Shards are read one at a time, once for every metric and operator and once for the verdict, which needs the
values of its metrics and of all random orders together: 8 bytes each.
A finished folder opens without torch or the model. The shards are compared with their checksums, and a folder
with a damaged shard is refused. The numbers of result.json are computed again from the shards, and a folder
whose numbers are others is refused. Of a large audit, `heedful report` and `Audit.check` do this.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from heedful.audits.audit_run import AuditRun, check_every_shard
from heedful.audits.schemas import rows_of
from heedful.audits.shown_rows import ShownRow, examples_of, mistakes_of
from heedful.core import registry
from heedful.core.advice import Advice
from heedful.core.command_line import stored_line
from heedful.core.errors import HeedfulError
from heedful.core.evidence import Evidence
from heedful.core.exports import frame_of, plot_of
from heedful.core.result import StoredResult
from heedful.core.result_kinds import result_kind
from heedful.io.csv_text import csv_text
from heedful.io.json_codec import from_jsonable, to_jsonable
from heedful.io.run_folder import OpenRun, damaged, refusing_damage
from heedful.io.sharded_run import alike
from heedful.metrics.random_orders import Pools, joined
from heedful.metrics.score import Score
from heedful.metrics.smoothing import SmoothedControl, smoothed_controls, without_smoothed
from heedful.metrics.summary import pools_of, summarise
from heedful.metrics.verdict import MethodFacts, judge, judging_operators
from heedful.metrics.verdict_types import Verdict
from heedful.modalities.kinds import words_for

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

MAX_ERRORS = 100  # errors in the result; the shards have them all
# rows of shards, up to which the numbers of an audit are computed again: about 10 microseconds each
ROWS_IN_A_PAGE = 300_000  # when the server shows it
ROWS_ON_OPENING = 3_000_000  # when it is opened; 2,000 texts with all metrics have fewer
ROWS_WHEN_ASKED = 30_000_000  # by `heedful report` and `heedful explain --audit`
MAX_UNKNOWN_LABELS = 3  # labels in the result that name none of the model's; the shards have them all
SHOWN = ("mistakes", "examples")  # single rows that a report shows
COPIED_FIELDS = (  # fields of an Audit that its document has as they are
    "rows",
    "texts",
    "copies",
    "labelled",
    "right",
    "unknown",
    "unknown_labels",
    "cost",
    "failed",
    "silent",
    "better",
    "errors",
    "smoothed",
)


@result_kind("audit", version=1)
@dataclass(frozen=True, repr=False)
class Audit(StoredResult):
    """The result of `heedful.audit`: a verdict, and the evidence for it.

    Parameters
    ----------
    folder
        The run folder. `None` if nothing was written.
    table
        The evidence: one entry per metric, removal operator and method.
    verdict
        Which method to use.
    rows
        Number of rows that were read.
    texts
        Number of texts that were used. The other texts are in `errors`.
    cost
        Numbers of model inputs: "asked" (requested), "run" (really run) and "naive" (needed if methods and
        metrics shared no inputs).
    copies
        Number of rows with the same text as an earlier row. Each text counts once.
    labelled
        Number of texts with a label that the model knows.
    right
        Number of labelled texts that the model predicts correctly.
    unknown
        Number of texts with a label that the model does not know.
    unknown_labels
        The first texts with an unknown label: row and label.
    mistakes
        The first texts whose label the model did not predict, with scores of the recommended method.
    examples
        Of pictures, if there are no mistakes: a few rows, with scores of the recommended method.
    smoothed
        For metrics that may reward smooth scores (ROAD): what smoothing alone does, by method.
    errors
        The first errors: row, method and reason.
    failed
        For each method: the number of texts on which it failed.
    silent
        Metrics that had no value on any text.
    better
        For each metric: whether "high" or "low" values are good.
    made
        How the run was made: settings, model, source, versions.
    verified
        Whether the numbers were computed from the shards, here and now. If False, they are those that the
        file states.

    Examples
    --------
    >>> import heedful
    >>> texts = ["The food was great", "The service was bad"]
    >>> audit = heedful.audit("zoo:sentiment", texts, methods=["occlusion"], metrics=["comprehensiveness"])
    >>> audit.texts
    2
    >>> audit.table[0].method
    'occlusion'
    """

    kind: ClassVar[str] = "audit"

    folder: Path | None  # None: nothing was kept
    table: list[Evidence]
    verdict: Verdict
    rows: int  # read
    texts: int  # weighed; the others are in `errors`
    cost: Mapping[str, int]  # asked, run, naive: see heedful.audits.shard
    copies: int = 0  # rows with the text of another, which count once
    labelled: int = 0  # texts whose label the model knows
    right: int = 0  # of these, the model's prediction is the label
    unknown: int = 0  # texts with a label that names none of the model's
    unknown_labels: Sequence[Mapping[str, Any]] = ()  # the first of these: row, label
    mistakes: tuple[ShownRow, ...] = ()  # the first texts whose label was not predicted
    examples: tuple[ShownRow, ...] = ()  # rows with a preview, where there are no mistakes
    smoothed: tuple[SmoothedControl, ...] = ()  # of metrics that may reward smooth scores
    errors: Sequence[Mapping[str, Any]] = ()  # the first of them: row, method, reason
    failed: Mapping[str, int] = field(default_factory=dict)  # method -> texts on which it alone failed
    silent: Sequence[str] = ()  # metrics that were asked for and had no value on any text
    better: Mapping[str, str] = field(default_factory=dict)  # metric -> "high" or "low"
    made: Mapping[str, Any] = field(default_factory=dict)  # settings, model, source, versions
    verified: bool = True

    @property
    def command(self) -> str | None:
        """The command line that repeats this audit. `None` if the audit was made in Python."""
        return stored_line(self.made.get("command"))

    def advice(self) -> Advice:
        """The recommendation, for `heedful.explain(..., audit=...)`."""
        model = dict(self.made.get("model") or {})
        return Advice(
            self.verdict.use,
            self.verdict.headline,
            "" if self.folder is None else str(self.folder),
            str(model.get("fingerprint") or ""),
            str(self.made.get("name") or ""),
            self.verified,
        )

    def __repr__(self) -> str:
        where = f" in {str(self.folder)!r}" if self.folder else ""
        return f"<heedful.Audit of {self.verdict.words.counted(self.texts)}{where}: {self.verdict.headline}>"

    def spread(self, metric: str, method: str) -> float:
        """Largest minus smallest skill over the removal operators: how much the skill depends on the
        operator."""
        skills = [e.skill for e in self.table if (e.metric, e.method) == (metric, method)]
        return max(skills) - min(skills) if len(skills) > 1 else float("nan")

    def to_csv(self) -> str:
        """One line per metric, operator and method."""
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
        rows = []
        for e in self.table:
            numbers = [e.value, e.control, e.best, e.skill, *e.interval, *e.chance]
            numbers.append(self.spread(e.metric, e.method))
            named = [e.metric, self.better[e.metric], e.operator, e.method, e.n]
            rows.append([*named, *numbers, str(e.circular).lower()])
        return csv_text([*names, "spread", "circular"], rows)

    def to_frame(self) -> DataFrame:
        """A pandas table, one row per metric, operator and method."""
        return frame_of(self)

    def plot(self, metrics: Sequence[str] | None = None) -> Figure:
        """A matplotlib figure: the skill of every method with its 95 % interval, and a line for random
        orders.

        `metrics` are the metrics to show. If `None`, the metrics that the verdict uses.
        """
        return plot_of(self, metrics=metrics)

    def to_dict(self) -> dict[str, Any]:
        """Everything as a dictionary, ready for JSON."""
        results: dict[str, Any] = {"headline": self.verdict.headline, "use": self.verdict.use}
        told = {"said": self.verdict.sentences, "not_shown_better": self.verdict.not_shown_better}
        results |= {"verdict": {**to_jsonable(self.verdict), **told}}
        results |= {name: getattr(self, name) for name in COPIED_FIELDS}
        results |= {name: _without_previews(getattr(self, name)) for name in SHOWN}
        results["table"] = [{**to_jsonable(e), "spread": self.spread(e.metric, e.method)} for e in self.table]
        results |= {"command": self.command} if self.command else {}
        return dict(to_jsonable(results))

    def run_title(self) -> str:
        return str(self.made.get("name") or "")

    def stored(self) -> dict[str, Any]:
        rows = {name: to_jsonable(getattr(self, name)) for name in SHOWN}
        return self.to_dict() | rows | {"made": to_jsonable(self.made)}

    def views(self) -> dict[str, bytes]:
        # who keeps only paths of pictures gets no copy of them in the report of the folder
        whole = dict(self.made.get("settings") or {}).get("keep", "png") == "png"
        bare = (_without_previews(self.mistakes), _without_previews(self.examples))
        shown = self if whole else replace(self, mistakes=bare[0], examples=bare[1])
        return {"table.csv": self.to_csv().encode(), "report.html": shown.page().encode()}

    @classmethod
    def from_stored(cls, data: dict[str, Any], run: OpenRun) -> Audit:
        """Make an audit from the data of `stored` and the files of the run folder."""
        stated = from_jsonable(cls, {**data, "folder": run.folder, "verified": False})
        if not {"made", "shards"} & run.manifest.keys():  # written by `save`
            return stated
        whole = check_every_shard(run)
        most = ROWS_ON_OPENING if run.most is None else ROWS_IN_A_PAGE
        return stated.check() if whole and stated._costs_at_most(most) else stated

    def checked(self) -> Audit:
        """The same audit. If opening it did not compute its numbers again, this does, except for audits that
        are very large."""
        sharded = self.folder is not None and (self.folder / "shards").is_dir()
        if self.verified or not sharded or not self._costs_at_most(ROWS_WHEN_ASKED):
            return self
        return self.check()

    @property
    def _pairs(self) -> int:
        return len({(e.metric, e.operator) for e in self.table})

    def _costs_at_most(self, most: int) -> bool:
        """Whether computing the numbers again reads no more than `most` rows of the shards."""
        assert self.folder is not None
        with refusing_damage(self.folder / "shards"):
            return AuditRun(self.folder).rows_to_read(self._pairs, most) <= most

    def check(self) -> Audit:
        """Compute the numbers again from the shards of the run folder.

        A folder whose numbers are not those of its shards gives an error. So does an audit without shards.
        """
        if self.folder is None or not (self.folder / "shards").is_dir():
            raise HeedfulError("this audit has no shards", "so its numbers cannot be computed again")
        with refusing_damage(self.folder / "shards"):
            again = collect(AuditRun(self.folder), self._pairs)
        if not alike(self.stored(), again.stored()):
            raise damaged(self.folder, "the numbers of its result are not those of its shards")
        return again


def _without_previews(rows: Sequence[ShownRow]) -> tuple[ShownRow, ...]:
    return tuple(replace(row, preview="", unit_scores=()) for row in rows)


def collect(run: AuditRun, most_pairs: int | None = None) -> Audit:
    """The result of a folder whose shards are all there; ValueError if they have more pairs of metric and
    operator than `most_pairs`, since they are read once for each."""
    made, numbers = run.manifest()["made"], run.numbers()
    words = words_for(dict(made.get("model") or {}).get("modality", "text"), made["settings"]["unit"])
    counts: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    pairs: dict[tuple[str, str], None] = {}
    errors: list[dict[str, Any]] = []
    strange: list[tuple[int, str]] = []
    for number in numbers:
        facts = run.facts(number)
        counts.update({"rows": facts["rows"], "copies": facts["copies"]})
        for text in rows_of(run.file(number, "texts.parquet")):
            counts["texts"] += 1
            counts["labelled"] += text["right"] is not None
            counts["right"] += bool(text["right"])
            if text["label"] is not None and text["right"] is None:
                counts["unknown"] += 1
                strange = sorted([*strange, (text["row"], text["label"])])[:MAX_UNKNOWN_LABELS]
            counts.update({name: text[name] for name in ("asked", "run", "naive")})
        for error in rows_of(run.file(number, "errors.parquet")):
            failed.update(filter(None, [error["method"]]))
            errors += [error] if len(errors) < MAX_ERRORS else []
        for key in rows_of(run.file(number, "scores.parquet"), ["metric", "operator"]):
            pairs[key["metric"], key["operator"]] = None
        if most_pairs is not None and len(pairs) > most_pairs:
            raise ValueError(f"its shards have more than {most_pairs} pairs of metric and operator")
    if not counts["texts"]:
        first = f"row {errors[0]['row']}: {errors[0]['reason']}" if errors else "there are none"
        raise HeedfulError(f"none of {words.counted(counts['rows'])} could be audited", first)
    if not pairs:
        requested = ", ".join(made["settings"]["metrics"])
        raise HeedfulError(f"no metric had a value on any {words.noun}", f"the metrics were: {requested}")
    cost = {name: counts[name] for name in ("asked", "run", "naive")}
    table, smoothed = _table(run, list(pairs), made["settings"])
    better = {metric: registry.better_and_family(metric)[0] for metric, _ in pairs}
    valued = {e.metric for e in table if not math.isnan(e.value)}
    silent = [metric for metric in made["settings"]["metrics"] if metric not in valued]
    verdict = replace(verdict_of(run, made["settings"]), words=words)
    labels = dict(made.get("model", {})).get("labels") or ()
    mistakes = mistakes_of(run, verdict.use, labels)
    return Audit(
        folder=run.path,
        table=table,
        verdict=verdict,
        rows=counts["rows"],
        texts=counts["texts"],
        copies=counts["copies"],
        cost=cost,
        labelled=counts["labelled"],
        right=counts["right"],
        unknown=counts["unknown"],
        mistakes=mistakes,
        smoothed=tuple(smoothed),
        examples=() if mistakes else examples_of(run, verdict.use, labels),
        errors=errors,
        failed=dict(sorted(failed.items())),
        silent=silent,
        better=better,
        made=made,
        unknown_labels=[{"row": row, "label": label} for row, label in strange],
    )


def _table(
    run: AuditRun, pairs: Sequence[tuple[str, str]], settings: Mapping[str, Any]
) -> tuple[list[Evidence], list[SmoothedControl]]:
    table: list[Evidence] = []
    smoothed: list[SmoothedControl] = []
    rank = {name: place for place, name in enumerate((*settings["metrics"], *settings["operators"]))}
    for metric, operator in sorted(pairs, key=lambda pair: (rank[pair[0]], rank.get(pair[1], 0))):
        texts = [scores for number in run.numbers() for scores in scores_of(run, number, metric, operator)]
        table += summarise([without_smoothed(scores) for scores in texts], seed=settings["seed"])
        smoothed += smoothed_controls(texts, seed=settings["seed"])
    return table, smoothed


def scores_of(run: AuditRun, number: int, metric: str = "", operator: str = "") -> list[list[Score]]:
    """Scores of a shard, text by text, of one metric under one operator; of all, with their random orders."""
    only = {"metric": metric, "operator": operator} if metric else None
    names = [each.name for each in fields(Score) if each.name != "orders"]
    orders: dict[tuple[Any, ...], list[float]] = {}  # in the order in which they were drawn
    if not metric:
        for one in rows_of(run.file(number, "orders.parquet")):
            key = (one["row"], one["metric"], one["operator"], one["fit"], one["method"])
            orders.setdefault(key, []).append(one["value"])
    texts: dict[int, list[Score]] = {}
    for one in rows_of(run.file(number, "scores.parquet"), ["row", *names], only):
        row = one.pop("row")
        place = (row, one["metric"], one["operator"], one["fit"])
        drawn = orders.get((*place, one["method"])) or orders.get((*place, ""), [])
        texts.setdefault(row, []).append(Score(**one, orders=tuple(drawn)))
    return list(texts.values())


def verdict_of(run: AuditRun, settings: Mapping[str, Any]) -> Verdict:
    """From the shards alone: it can be computed again."""
    texts = VerdictInputs(settings)
    for number in run.numbers():
        texts.add(run, number)
    pools, facts = texts.pools()
    return judge(pools, facts, seed=settings["seed"], always=settings["until_decided"])


class VerdictInputs:
    """What a verdict needs of the shards, as they are added: values, costs, and what fitted each method.

    About 2 kilobytes per text with 13 methods, 4 metrics of the verdict, 2 operators and 20 random orders.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.operators: Sequence[str] = settings["operators"]
        self.names: list[str] = [*settings["methods"], *settings["given"], *settings.get("controls", ())]
        self.parts: list[Pools] = []
        self.inputs: dict[str, list[int | None]] = {}
        self.fitted: dict[str, dict[str, set[str] | None]] = {}  # method -> operator in turn -> operators

    def add(self, run: AuditRun, number: int) -> None:
        if len(part := pools_of(scores_of(run, number), self.names, self.operators)):
            self.parts.append(part)
        for one in rows_of(run.file(number, "methods.parquet")):
            self.inputs.setdefault(one["method"], []).append(one["inputs"])
            turns = self.fitted.setdefault(one["method"], {})
            known = turns.setdefault(one["fit"], set())
            if one["fitted_by"] is None or known is None:
                turns[one["fit"]] = None
            else:
                known.update(filter(None, one["fitted_by"].split(",")))

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    def pools(self) -> tuple[Pools, MethodFacts]:
        """Values under the operators that may judge, and the facts of the methods."""
        turns = {name: list(result.values()) for name, result in self.fitted.items()}
        always = {name: _joined(each, set.intersection) for name, each in turns.items()}
        operators, left_out = judging_operators(self.operators, always)
        names = [name for name in self.names if name not in left_out]
        means = {
            name: math.nan if None in result else sum(filter(None, result)) / len(result)
            for name, result in self.inputs.items()
        }
        ever = {name: _joined(each, set.union) for name, each in turns.items()}
        return joined(self.parts, self.names).only(names, operators), MethodFacts(means, ever, left_out)


def _joined(turns: Sequence[set[str] | None], how: Any) -> tuple[str, ...] | None:
    known = [turn for turn in turns if turn is not None]
    return tuple(sorted(how(*known))) if len(known) == len(turns) else None
