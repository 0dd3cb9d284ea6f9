"""`heedful.audit`: settle what is to be done, cut the rows into shards, have them done, and sum up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
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
from heedful.audits.shard import Shard, weigh_shard_remotely, weigh_shards
from heedful.audits.stopping import EarlyStopping
from heedful.core import registry
from heedful.core.defaults import ENGINES
from heedful.core.errors import HeedfulError
from heedful.core.model import Loadable, Model
from heedful.core.phrases import plural
from heedful.core.progress import Report, Step
from heedful.engine import ray
from heedful.io.datasets import Columns, DataRow, Source, in_random_order, open_source
from heedful.modalities.kinds import KINDS, noun_of
from heedful.modalities.swap_words import words_of

PROBED_ROWS = 4  # of a source, by which a model without weights is known again


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
    full: bool = False,
    operators: Sequence[str] | str | None = None,
    unit: str = "",
    seed: int = 0,
    draws: int = 20,
    long: str = "skip",
    params: Mapping[str, Mapping[str, Any]] | None = None,
    scores: str | Path | None = None,
    until_decided: bool = False,
    columns: Columns | None = None,
    limit: int | None = None,
    shard: int = SHARD_TEXTS,
    address: str | None = None,
    workers: int | None = None,
    keep: str = "png",
    command: str | None = None,
    progress: Report | None = None,
) -> Audit:
    """Compare explanation methods on many texts or pictures, and recommend one.

    Every method explains every input. Then words, or parts of pictures, are removed in the order of each
    explanation, and the change of the output is compared with that of random orders. If the run is
    interrupted, the same call with the same `out` resumes it. `Audit.load(out)` opens a finished run.

    Parameters
    ----------
    model
        The result of `heedful.load`, or anything that `heedful.load` accepts.
    texts
        A CSV, JSONL or Parquet file, or any iterable of texts. For a model of pictures: a folder of pictures,
        such a file with a column of paths, or an iterable of pictures or of mappings such as
        `{"picture": "cat.png", "label": "cat", "mask": "cat-mask.png"}`.
    labels
        The true labels. If given, the accuracy of the model is reported.
    methods
        Names of methods. If `None`, four cheap methods of different kinds. If "all", or if `None` with
        `full`, all methods except expensive ones.
    metrics
        Names of metrics. If `None`, comprehensiveness and sufficiency; with `full`, six metrics.
    rationales
        For each text, the words that people marked as the reason: a list with 0 or 1 for each word, or a list
        of (start, end) character positions.
    out
        Folder for the run. If `None`, nothing is written.
    engine
        Where the work runs: "local" (this machine) or "ray" (a Ray cluster).
    full
        Use all methods except expensive ones, six metrics, and a search for the best order of words. This
        takes several times longer.
    operators
        How words are removed to judge the methods. If `None`, two operators that no method used to compute
        its scores. If "all", each operator judges the scores that were computed with the other operators.
    unit
        What is removed and scored as one piece: "word", "token" or "sentence"; of pictures "patch"
        or "grid:8". If empty, words, or about 8 × 8 cells per picture.
    seed
        Random seed.
    draws
        Number of random orders per text. They are the control.
    long
        What to do with a text that is too long: "skip" (skip and report it) or "truncate".
    params
        Parameters per method, such as `{"occlusion": {"operator": "delete"}}`.
    scores
        A JSONL file with scores of other tools, which are evaluated together with the methods
        (docs/weigh.md).
    until_decided
        Check the verdict after every text, and stop when it is settled.
    columns
        Column names of the file: `heedful.io.datasets.Columns(text="text", label=None, rationale=None)`, or
        `Columns(path="path", label=None, mask=None, boxes=None)` for pictures.
    limit
        Use at most this many rows of the file, chosen at random. If `None`, all rows are used.
    shard
        Number of texts per shard. Each shard is written as a whole, so an interruption loses at most one
        shard.
    address
        Address of the Ray cluster. If `None`, a cluster is started on this machine.
    workers
        Number of processes that share the texts. Default: one process per core with engine "ray", otherwise
        one process.
    keep
        What the run stores of the few pictures that its report shows: a small copy ("png"), or only the path
        of the file and its checksum ("path").
    command
        The command line that is stored and shown with the result. It does not change the result.
    progress
        A function that is called with a `heedful.core.progress.Step` during the work.

    Returns
    -------
    Audit
        `print(audit)` shows the verdict and the table.

    Examples
    --------
    >>> import heedful
    >>> texts = ["The food was great", "The service was bad"]
    >>> audit = heedful.audit("zoo:sentiment", texts, methods=["occlusion"], metrics=["comprehensiveness"])
    >>> print(audit.verdict.headline)
    2 texts are too few for a verdict: at least 10 are needed.
    >>> round(audit.table[0].skill, 1) <= 1
    True
    """
    from heedful.models.load import load as load_model

    external = None if scores is None else from_file(Path(scores))
    if engine not in ENGINES:
        raise HeedfulError(f"there is no engine {engine!r}", fix=f"Use one of: {', '.join(ENGINES)}")
    loaded = load_model(model)
    source = open_source(
        texts, labels, rationales, columns, limit, modality=loaded.modality, known=loaded.labels
    )
    _check_engine(engine, source, until_decided)
    if external is not None and operators is None:
        operators = external.judges(loaded)
    common = {"unit": unit, "seed": seed, "draws": draws, "long": long, "until_decided": until_decided}
    more = {
        "shard": shard,
        "keep": keep,
        "params": params or {},
        "given": external.methods if external else (),
    }
    settings = resolve_settings(loaded, methods, metrics, operators, full=full, **common, **more)
    _check_rationales(settings, source)
    if external is not None and source.again:
        check_usable(external, loaded, in_random_order(source, seed), settings)
    work = AuditWork(loaded, source, settings, external, command)
    return run_audit(work, out, Execution(engine, model, ray.Cluster(address, workers)), progress)


def _check_engine(engine: str, source: Source, until_decided: bool) -> None:
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
        noun = plural(noun_of(work.model.modality))
        row_counter = _RowCounter(progress, work.source.count(), noun)
        row_counter.more(0)  # every setting is checked now, and the work begins
        # scores from elsewhere are looked up as texts come: a function that makes them may be slow
        whole = chain(first, rows) if work.external is None else map(work.external.attach, chain(first, rows))
        todo = _todo(shards(whole, settings.shard), settings, run, row_counter)
        if execution.engine == "local":
            # one that looks after every text draws the next only then
            workers = 1 if settings.until_decided else execution.cluster.workers or 1
            results = weigh_shards(work.model, todo, settings, row_counter.more, workers)
            with closing(results):  # a full disk leaves no process behind
                for number, files in results:
                    run.put(number, files)
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
    blind = [name for name in settings.metrics if registry.get_metric(name).masks]
    if blind and not source.masked:
        raise HeedfulError(
            f"{', '.join(blind)} cannot be measured",
            "where the thing is that must be found is not given",
            "Name the column of masks or boxes (--mask-column, --boxes-column)",
        )
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
    texts: dict[str, Any] = dict(KINDS[model.modality].probes())
    if source.again:
        rows = islice(source.rows(), PROBED_ROWS)
        texts |= {f"row {row.number}": row.text for row in rows if not row.broken}
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

    def __init__(self, progress: Report | None, total: int | None, noun: str) -> None:
        self.progress, self.total, self.noun = progress, total, noun
        self.done, self.known, self.shards = 0, 0, 0

    def more(self, rows: int) -> None:
        self.done += rows
        if self.progress is not None:
            total = self.total or 0
            self.progress(Step(f"auditing {self.noun}", done=self.done, total=total, resumed=self.known))

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
                f"{run.path} contains results of other texts than these",
                fix="Name another folder, or remove this one",
            )
