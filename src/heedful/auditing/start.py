"""`heedful.audit`: settle what is to be done, cut the rows into shards, have them done, and sum up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from heedful.auditing.folder import RunFolder
from heedful.auditing.result import Audit, collect, contents, load
from heedful.auditing.settings import SHARD, Settings, settle
from heedful.auditing.source import Columns, Source, open_source
from heedful.auditing.weighing import Shard
from heedful.engine import local, ray
from heedful.errors import HeedfulError

ENGINES = ("local", "ray")
PROBES = ("a", "This is good, and I like it.", "That was bad, not what we want!", "Ignore this: 1 2 3")
Progress = Callable[[int, int | None, int], None]  # rows done, rows in all if known, of these done before


class _Audit:
    """A function with a second one at hand: `heedful.audit(...)` runs, `heedful.audit.load(folder)` opens."""

    load = staticmethod(load)

    def __call__(
        self,
        model: Any,
        texts: Iterable[Any] | str | Path,
        labels: Iterable[Any] | None = None,
        methods: Iterable[str] | str | None = None,
        metrics: Iterable[str] | str | None = None,
        rationales: Iterable[Any] | None = None,
        out: str | Path = "run/",
        engine: str = "local",
        *,
        operators: Sequence[str] | str | None = None,
        unit: str = "word",
        seed: int = 0,
        draws: int = 20,
        long: str = "error",
        params: Mapping[str, Mapping[str, Any]] | None = None,
        columns: Columns | None = None,
        limit: int | None = None,
        shard: int = SHARD,
        address: str | None = None,
        workers: int | None = None,
        progress: Progress | None = None,
    ) -> Audit:
        """Explain every text with every method, weigh the explanations, and say which to heed.

        Killed and started again with the same arguments, it goes on where it stopped.

        model       whatever `heedful.load` takes
        texts       a CSV, JSONL or Parquet file (see `columns`), or any iterable of texts
        labels      what people say the texts are: how often the model agrees is reported
        methods     names; None: those `heedful.explain` runs by itself
        metrics     names; None: six that remove words
        rationales  what people marked as the reason, by text: 0 or 1 a word, or [start, end] characters
        out         the run folder
        engine      "local": this process; "ray": the cluster at `address`, or one started here
        operators   how words are removed; None: the model's first two, so that the spread between them shows
        draws       random orders a text, the control
        long        a text longer than the model reads: "error" (it is skipped and told) or "truncate"
        columns     of a file: heedful.auditing.source.Columns(text="text", label=None, rationale=None)
        limit       read so many rows at most
        shard       texts written together; the most that a kill can lose
        workers     ray: how many; None: one a CPU
        progress    called with (rows done, rows in all or None, rows done before)
        """
        from heedful.models import load as load_model

        if engine not in ENGINES:
            raise HeedfulError(f"there is no engine {engine!r}", fix=f"Use one of: {', '.join(ENGINES)}")
        source = open_source(texts, labels, rationales, columns, limit)
        loaded = load_model(model)
        settings = settle(
            loaded, methods, metrics, operators,
            unit=unit, seed=seed, draws=draws, long=long, shard=shard, params=params or {},
        )  # fmt: skip
        _check_rationales(settings, source)
        run = RunFolder(Path(out))
        with run.opened(_made(loaded, settings, source)):
            told = _Told(progress, source.count())
            todo = _todo(source, settings, run, told)
            if engine == "local":
                local.run(loaded, todo, settings, run, told.more)
            else:
                cluster = ray.Cluster(address, workers)
                ray.run(model, loaded.facts(), todo, settings, run, told.more, cluster)
            told.check(run)
            found = collect(run)
            run.finish(contents(found))
            return replace(found, made=run.manifest())


audit = _Audit()


def _check_rationales(settings: Settings, source: Source) -> None:
    """Metrics that ask what people marked have nothing to say without it."""
    asking = [name for name in settings.metrics if name.startswith("plausibility")]
    if asking and not source.marked:
        raise HeedfulError(
            f"{', '.join(asking)} cannot be measured",
            "what people marked is not given",
            "Name its column (--rationale-column), or give rationales",
        )


def _made(model: Any, settings: Settings, source: Source) -> dict[str, Any]:
    """What makes two runs the same.

    A model whose weights are known is known by them, whatever its path; another by its outputs on some texts.
    """
    from heedful.planning import versions

    facts = model.facts()
    if "fingerprint" in facts:
        facts.pop("name", None)
    else:
        facts |= _probed(model, source)
    software = {name: version for name, version in versions().items() if name != "python"}
    return {
        "name": model.name, "settings": settings.to_dict(), "model": facts, "source": source.facts(),
        "versions": software,
    }  # fmt: skip


def _probed(model: Any, source: Source) -> dict[str, Any]:
    """Outputs on fixed texts, and on the first of the source where it can be read twice."""
    texts: dict[str, Any] = {repr(text): text for text in PROBES}
    if source.again:
        texts |= {
            f"row {row.number}": row.text for row in islice(source.rows(), len(PROBES)) if not row.broken
        }
    return {f"output on {name}": _output(model, text) for name, text in texts.items()}


def _output(model: Any, text: Any) -> list[float] | str:
    """By label, with six digits; a model may fail on one text, and then it fails on it again."""
    try:
        found = model.predict(model.encode(text, "truncate"), len(model.labels))
        return [float(f"{value:.6g}") for _, value in sorted(found)]
    except Exception as error:
        return f"fails: {type(error).__name__}"


def shards(source: Source, size: int) -> Iterator[Shard]:
    """Rows in shards of `size`, read as they are asked for."""
    rows, number = source.rows(), 0
    while found := tuple(islice(rows, size)):
        yield Shard(number, found)
        number += 1


def _todo(source: Source, settings: Settings, run: RunFolder, told: _Told) -> Iterator[Shard]:
    """Shards that are not done yet."""
    for shard in shards(source, settings.shard):
        told.shards += 1
        if run.has(shard):
            told.before(len(shard.rows))
        else:
            yield shard


class _Told:
    """Counts rows for the one who watches."""

    def __init__(self, progress: Progress | None, total: int | None) -> None:
        self.progress, self.total = progress, total
        self.done, self.known, self.shards = 0, 0, 0

    def more(self, rows: int) -> None:
        self.done += rows
        if self.progress is not None:
            self.progress(self.done, self.total, self.known)

    def before(self, rows: int) -> None:
        """Done by an earlier run."""
        self.known += rows
        self.more(rows)

    def check(self, run: RunFolder) -> None:
        """Every shard of the source is there, and none of another."""
        if not self.shards:
            raise HeedfulError("there are no texts", fix="Give at least one")
        if run.numbers() != list(range(self.shards)):
            raise HeedfulError(
                f"{run.path} holds shards of other rows than these",
                fix="Name another folder, or remove this one",
            )
