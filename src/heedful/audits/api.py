"""`heedful.audit`: settle what is to be done, cut the rows into shards, have them done, and sum up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from heedful.audits.audit_run import AuditRun
from heedful.audits.external_scores import ExternalScores, check_usable, from_file
from heedful.audits.result import Audit, collect
from heedful.audits.settings import SHARD_TEXTS, SWAP_ROWS, AuditSettings, resolve_settings
from heedful.audits.shard import Shard, weigh_shard, weigh_shard_remotely
from heedful.audits.stopping import EarlyStopping
from heedful.core import registry
from heedful.core.defaults import ENGINES
from heedful.core.errors import HeedfulError
from heedful.core.model import Loadable, Model
from heedful.core.progress import Report, Step
from heedful.engine import ray
from heedful.io.datasets import Columns, DataRow, Source, in_random_order, open_source
from heedful.modalities.swap_words import words_of

PROBES = ("a", "This is good, and I like it.", "That was bad, not what we want!", "Ignore this: 1 2 3")


def audit(
    model: Loadable,
    texts: Iterable[Any] | str | Path,
    labels: Iterable[Any] | None = None,
    methods: Iterable[str] | str | None = None,
    metrics: Iterable[str] | str | None = None,
    rationales: Iterable[Any] | None = None,
    out: str | Path | None = None,
    engine: str = "local",
    *,
    operators: Sequence[str] | str | None = None,
    unit: str = "word",
    seed: int = 0,
    draws: int = 20,
    long: str = "error",
    params: Mapping[str, Mapping[str, Any]] | None = None,
    scores: str | Path | None = None,
    until_decided: bool = False,
    columns: Columns | None = None,
    limit: int | None = None,
    shard: int = SHARD_TEXTS,
    address: str | None = None,
    workers: int | None = None,
    command: str | None = None,
    progress: Report | None = None,
) -> Audit:
    """Explain every text with every method, weigh the explanations, and say which to use.

    Killed and started again with the same arguments and the same `out`, it goes on where it stopped.
    `Audit.load(out)` opens it again.

    model       whatever `heedful.load` takes
    texts       a CSV, JSONL or Parquet file (see `columns`), or any iterable of texts
    labels      what people say the texts are: how often the model agrees is reported
    methods     names; None: those `heedful.explain` runs by itself
    metrics     names; None: six that remove words
    rationales  what people marked as the reason, by text: 0 or 1 per word, or [start, end] characters
    out         the run folder, from which a stopped audit goes on; None: nothing is kept
    engine      "local": this process; "ray": the cluster at `address`, or one started here
    operators   how words are removed to judge the methods; None: two that fitted none of them; "all":
                each judges what the others fitted
    draws       random orders per text, the control
    long        a text longer than the model reads: "error" (it is skipped and told) or "truncate"
    columns     of a file: heedful.io.datasets.Columns(text="text", label=None, rationale=None)
    scores      a JSONL file of scores made elsewhere, weighed beside the methods (see docs/weigh.md)
    until_decided   look after every text, and stop as soon as the verdict is settled
    limit       so many rows at most, drawn at random from all (from a generator: the first)
    shard       texts written together; the most that a kill can lose
    workers     ray: how many; None: one per CPU
    command     what was typed for this audit, kept with it and shown; nothing depends on it
    progress    called with a heedful.core.progress.Step as rows are done
    """
    from heedful.models.load import load as load_model

    source = open_source(texts, labels, rationales, columns, limit)
    _check_engine(engine, source, until_decided)
    external = None if scores is None else from_file(Path(scores))
    loaded = load_model(model)
    if external is not None and operators is None:
        operators = external.judges(loaded)
    common = {"unit": unit, "seed": seed, "draws": draws, "long": long, "until_decided": until_decided}
    more = {"shard": shard, "params": params or {}, "given": external.methods if external else ()}
    settings = resolve_settings(loaded, methods, metrics, operators, **common, **more)
    _check_rationales(settings, source)
    if external is not None and source.again:
        check_usable(external, loaded, in_random_order(source, seed), settings)
    work = AuditWork(loaded, source, settings, external, command)
    return run_audit(work, out, Execution(engine, model, ray.Cluster(address, workers)), progress)


def _check_engine(engine: str, source: Source, until_decided: bool) -> None:
    if engine not in ENGINES:
        raise HeedfulError(f"there is no engine {engine!r}", fix=f"Use one of: {', '.join(ENGINES)}")
    if until_decided and engine != "local":
        raise HeedfulError(
            "until_decided looks after every text, one by one",
            f"engine {engine!r} does not",
            'Use engine="local"',
        )
    if until_decided and not source.again:
        raise HeedfulError(
            "until_decided needs texts in random order",
            "a generator gives them in its own",
            "Give a list or a file",
        )


@dataclass(frozen=True)
class AuditWork:
    """What is audited."""

    model: Model
    source: Source
    settings: AuditSettings
    external: ExternalScores | None = None  # scores from elsewhere
    command: str | None = None  # what was typed for it


@dataclass(frozen=True)
class Execution:
    """Which engine does it; `model` is what a worker of the cluster loads."""

    engine: str = "local"
    model: Loadable = None
    cluster: ray.Cluster = field(default_factory=ray.Cluster)


def run_audit(
    work: AuditWork, out: str | Path | None, execution: Execution, progress: Report | None = None
) -> Audit:
    """Cut the rows into shards, have them done, and sum up. Without `out` nothing is kept."""
    if out is not None:
        return _run_in(AuditRun(Path(out)), work, execution, progress)
    with TemporaryDirectory() as folder:
        return replace(_run_in(AuditRun(Path(folder)), work, execution, progress), folder=None)


def _run_in(run: AuditRun, work: AuditWork, execution: Execution, progress: Report | None) -> Audit:
    rows = in_random_order(work.source, work.settings.seed)
    first = list(islice(rows, SWAP_ROWS)) if _swaps(work.settings) else []
    words = words_of([row.text for row in first if isinstance(row.text, str)], seed=work.settings.seed)
    settings = replace(work.settings, swap=words if first else ())
    with run.opened(_made(work, settings), work.model.name):
        row_counter = _RowCounter(progress, work.source.count())
        # scores from elsewhere are looked up as texts come: a function that makes them may be slow
        whole = chain(first, rows) if work.external is None else map(work.external.attach, chain(first, rows))
        todo = _todo(shards(whole, settings.shard), settings, run, row_counter)
        if execution.engine == "local":
            for shard in todo:
                run.put(shard.number, weigh_shard(work.model, shard, settings, row_counter.more))
        else:
            judged = partial(weigh_shard_remotely, settings=settings)
            facts = work.model.facts()
            for number, count, files in ray.results(judged, execution.model, facts, todo, execution.cluster):
                run.put(number, files)
                row_counter.more(count)
        row_counter.check(run)
        result = collect(run)
        run.finish(result, run.listed())
        return result


def _swaps(settings: AuditSettings) -> bool:
    return "swap" in settings.operators or "swap" in settings.fits


def _check_rationales(settings: AuditSettings, source: Source) -> None:
    """Metrics that ask what people marked have nothing to say without it."""
    asking = [name for name in settings.metrics if registry.get_metric(name).rationales]
    if asking and not source.marked:
        raise HeedfulError(
            f"{', '.join(asking)} cannot be measured",
            "what people marked is not given",
            "Name its column (--rationale-column), or give rationales",
        )


def _made(work: AuditWork, settings: AuditSettings) -> dict[str, Any]:
    """What makes two runs the same.

    A model whose weights are known is known by them, whatever its path; another by its outputs on some texts.
    """
    from heedful.core.versions import versions

    facts = work.model.facts()
    if "fingerprint" in facts:
        facts.pop("name", None)
    else:
        facts |= _probed(work.model, work.source)
    software = {name: version for name, version in versions().items() if name != "python"}
    return {
        "name": work.model.name,
        "settings": settings.to_dict(),
        "model": facts,
        "source": work.source.facts() | (work.external.facts() if work.external else {}),
        "versions": software,
        **({"command": work.command} if work.command else {}),
    }


def _probed(model: Model, source: Source) -> dict[str, Any]:
    """Outputs on fixed texts, and on the first of the source where it can be read twice."""
    texts: dict[str, Any] = {repr(text): text for text in PROBES}
    if source.again:
        texts |= {
            f"row {row.number}": row.text for row in islice(source.rows(), len(PROBES)) if not row.broken
        }
    return {f"output on {name}": _output(model, text) for name, text in texts.items()}


def _output(model: Model, text: Any) -> list[float] | str:
    """By label, with six digits; a model may fail on one text, and then it fails on it again."""
    try:
        result = model.predict(model.encode(text, "truncate"), len(model.labels))
        return [float(f"{value:.6g}") for _, value in sorted(result)]
    except Exception as error:
        return f"fails: {type(error).__name__}"


def shards(rows: Iterable[DataRow], size: int) -> Iterator[Shard]:
    """Rows in shards of `size`, read as they are asked for."""
    left, number = iter(rows), 0
    while result := tuple(islice(left, size)):
        yield Shard(number, result)
        number += 1


def _todo(
    every: Iterable[Shard], settings: AuditSettings, run: AuditRun, row_counter: _RowCounter
) -> Iterator[Shard]:
    """Shards that are not done yet; none after the verdict is settled, where that is asked for."""
    stopping = EarlyStopping(settings, row_counter.total) if settings.until_decided else None
    for shard in every:
        row_counter.shards += 1
        if run.has(shard):
            row_counter.before(len(shard.rows))
        else:
            yield shard
        if stopping is not None:
            stopping.add(run, shard.number)
            if stopping.done:
                return


class _RowCounter:
    """Counts rows for the one who watches."""

    def __init__(self, progress: Report | None, total: int | None) -> None:
        self.progress, self.total = progress, total
        self.done, self.known, self.shards = 0, 0, 0

    def more(self, rows: int) -> None:
        self.done += rows
        if self.progress is not None:
            total = self.total or 0
            self.progress(Step("weighing explanations", done=self.done, total=total, resumed=self.known))

    def before(self, rows: int) -> None:
        """Done by an earlier run."""
        self.known += rows
        self.more(rows)

    def check(self, run: AuditRun) -> None:
        """Every shard of the source is there, and none of another."""
        if not self.shards:
            raise HeedfulError("there are no texts", fix="Give at least one")
        if run.numbers() != list(range(self.shards)):
            raise HeedfulError(
                f"{run.path} holds shards of other rows than these",
                fix="Name another folder, or remove this one",
            )
