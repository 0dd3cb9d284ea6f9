"""One text: explained by every method, weighed by every metric, rows shared. One shard: its tables as bytes.

asked   model inputs that the methods and metrics asked for
run     those that were really run: each once per text, whoever asks
naive   what tools that share nothing would run: every method its own rows; every metric, for every method
        and operator, f(x), f(nothing), the method's rows and those of its own random orders; no tool but
        this one looks for the best order, so those rows are in `asked` and `run` alone
"""

from __future__ import annotations

import hashlib
import json
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from heedful.audits.external_scores import aligned
from heedful.audits.row_previews import few_previews
from heedful.audits.schemas import KINDS, to_parquet
from heedful.audits.settings import AuditSettings
from heedful.comparisons.execute import execute
from heedful.comparisons.planning import plan
from heedful.comparisons.result import Comparison
from heedful.core import registry
from heedful.core.arrays import Floats
from heedful.core.attribution import Attribution, UnitScore
from heedful.core.defaults import CONTROL, CONTROLS
from heedful.core.errors import HeedfulError
from heedful.core.input import Input
from heedful.core.model import Model
from heedful.engine.processes import spread
from heedful.engine.session import Session
from heedful.io.datasets import DataRow
from heedful.io.json_codec import json_bytes
from heedful.io.labels import is_missing, label_index, label_indices
from heedful.io.previews import preview_of
from heedful.io.rationales import marks_of, marks_of_mask
from heedful.metrics.score import Score, ScoreInputs, ceilings, score_explanations
from heedful.modalities.encode import long_of_many
from heedful.modalities.kinds import KINDS as KINDS_OF_INPUT
from heedful.modalities.swap_words import swap_words

Tables = dict[str, list[tuple[Any, ...]]]
Tell = Callable[[int], None]  # so many rows more are done
SCORED = ("metric", "operator", "fit", "method", "value", "control", "low", "high", "best", "circular")


@dataclass(frozen=True)
class Shard:
    """Consecutive rows that are worked on together; `number` counts from 0."""

    number: int
    rows: tuple[DataRow, ...]

    @property
    def sum(self) -> str:
        """SHA-256 of what came in, to tell other rows from the same."""
        results = [
            [
                row.number,
                row.digest or row.text,
                row.label,
                row.rationale,
                row.broken,
                *([repr(row.given)] if row.given else []),
            ]
            for row in self.rows
        ]
        return hashlib.sha256(json.dumps(results, default=repr).encode()).hexdigest()


def weigh_shards(
    model: Model, shards: Iterable[Shard], settings: AuditSettings, tell: Tell | None = None, workers: int = 1
) -> Generator[tuple[int, dict[str, bytes]]]:
    """Number and files of each shard: name -> content. They depend on model, shard and settings alone.

    The processes take rows, not shards: none waits for the others at the end of a shard.
    """
    begun: deque[Shard] = deque()

    def rows() -> Iterator[DataRow]:
        for shard in shards:
            begun.append(shard)
            yield from shard.rows

    def work(row: DataRow) -> Tables:
        with swap_words(settings.swap):
            return weigh_row(model, row, settings)

    results: list[Tables] = []
    for result in spread(work, rows(), workers):
        results.append(result)
        if tell is not None:
            tell(1)
        if len(results) == len(begun[0].rows):
            shard = begun.popleft()
            yield shard.number, _files(shard, results)
            results = []


def weigh_shard(model: Model, shard: Shard, settings: AuditSettings) -> dict[str, bytes]:
    """File name -> content."""
    return next(weigh_shards(model, [shard], settings))[1]


def _files(shard: Shard, results: Sequence[Tables]) -> dict[str, bytes]:
    tables: Tables = {name: [line for result in results for line in result.get(name, ())] for name in KINDS}
    tables["texts"] = few_previews(tables["texts"], shard.number == 0)
    files = {f"{name}.parquet": to_parquet(name, rows) for name, rows in tables.items()}
    sums = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    facts: dict[str, Any] = {"shard": shard.number, "first": shard.rows[0].number, "rows": len(shard.rows)}
    copies = sum(row.copy_of is not None for row in shard.rows)
    facts |= {"weighed": len(tables["texts"]), "copies": copies, "source": shard.sum, "files": sums}
    return files | {"shard.json": json_bytes(facts)}


def weigh_shard_remotely(
    model: Model, shard: Shard, settings: AuditSettings
) -> tuple[int, int, dict[str, bytes]]:
    """The same with its number and how many rows it has: what a worker sends back."""
    return shard.number, len(shard.rows), weigh_shard(model, shard, settings)


def weigh_row(model: Model, row: DataRow, settings: AuditSettings) -> Tables:
    """The row's part of each table. Whatever is wrong with one row is told in `errors`, and stays there."""
    kind = KINDS_OF_INPUT[model.modality]
    if why := row.broken or kind.unfit(row.text):
        return {"errors": [(row.number, "", why)]}
    if row.copy_of is not None:
        same = f"the same {kind.noun} as row {row.copy_of}: copies count once"
        return {"errors": [(row.number, "", same)]}
    try:
        return _weigh_text(model, row, settings)
    except HeedfulError as error:
        return {"errors": [(row.number, "", str(error))]}
    except Exception as error:  # a model may fail on one text in ways of its own: the others go on
        return {"errors": [(row.number, "", f"{type(error).__name__}: {error}"[:1000])]}


def _weigh_text(model: Model, row: DataRow, settings: AuditSettings) -> Tables:
    seed = settings.seed_of(row.number)
    run: Any = Session(model)  # each row of model input is run once, whoever asks
    before = run.spent
    groups, comparison, skipped = _explained(run, row, settings, seed)
    mask = None if row.mask is None else model.truth_mask(row.text, row.mask)
    marks = _marks(row, mask, comparison.x, settings.unit)
    items = next(iter(groups.values()))
    if all(item.method in CONTROLS for item in items):
        raise HeedfulError(f"no method has scores for this {comparison.x.noun}", "; ".join(skipped.values()))
    units = len(comparison.x.units(settings.unit))
    if not units:
        raise HeedfulError(f"the {comparison.x.noun} has no {comparison.words.parts}")
    rest = run.spent
    searched = _searched(run, items[0], settings)
    looked = (run.spent - rest).forwards
    known: dict[str, Any] = {"rationale": marks, "mask": mask, "searched": searched}
    inputs = ScoreInputs(**known, smoothed=True, given=settings.given)
    scores = _scored(run, groups, settings, seed, inputs)
    spent = run.spent - before
    orders = len(searched.get(settings.operators[0], ()))
    naive = spent.forwards - looked + _more_if_naive(settings, units, len(items), orders)
    label, right = _judged(row.label, comparison, model.labels)
    results = (
        row.number,
        seed,
        comparison.target.name,
        items[0].output,
        _predicted(comparison),
        label,
        right,
    )
    preview = preview_of(comparison.x, settings.unit, settings.keep) or None
    every = [(fit, item) for fit, result in groups.items() for item in result]
    return {
        "scores": [(row.number, *(getattr(s, name) for name in SCORED)) for s in scores],
        "orders": _orders(row.number, scores),
        "methods": [
            (row.number, i.method, fit, _inputs(i, settings), _fitted(i.fitted_by)) for fit, i in every
        ],
        "attributions": [
            (row.number, item.method, fit, index, word.text, *_place(word), word.score, word.stderr)
            for fit, item in every
            for index, word in enumerate(item.units(settings.unit))
        ],
        "texts": [(*results, units, spent.forwards, spent.unique, naive, _name(row), preview)],
        "errors": [(row.number, method, why) for method, why in skipped.items()],
    }


def _name(row: DataRow) -> str | None:
    """The file of a row that names one."""
    return str(row.text) if row.digest and isinstance(row.text, str | Path) else None


def _marks(row: DataRow, mask: Any, x: Input, unit: str) -> tuple[bool, ...] | None:
    """By unit: the reason that people marked, or where the thing is."""
    if row.rationale is not None:
        return marks_of(row.rationale, x, unit)
    return None if mask is None else marks_of_mask(mask, x.units(unit))


def _place(unit: UnitScore) -> tuple[int | None, int | None]:
    """Characters; a box has none, and the label of its unit says where it is."""
    return (unit.start, unit.end) if len(unit.region) == 2 else (None, None)


def _explained(
    run: Any, row: DataRow, settings: AuditSettings, seed: int
) -> tuple[dict[str, list[Attribution]], Comparison, dict[str, str]]:
    """Operator that fitted -> attributions ("": operators take no turns); a comparison; method -> why not."""
    groups: dict[str, list[Attribution]] = {}
    skipped: dict[str, str] = {}
    target = next((given.target for given in row.given.values() if _named_target(given)), settings.target)
    for fit in settings.rounds:
        made = plan(
            run.model,
            row.text,
            settings.runs,
            target,
            settings.unit,
            seed,
            long=long_of_many(settings.long),
            params=settings.params_for(fit),
            evidence=False,  # the audit has its own
            timed=False,
        )
        # a method that fails on this text is left out of it, and the others go on
        comparison = execute(replace(made, named=False), run, keep_partial=False, internals=False)
        skipped |= comparison.skipped
        results = [item for item in comparison.attributions if item.method != CONTROL]
        groups[fit if settings.turns else ""] = results
    given, why = aligned(row.given, comparison, settings.unit, run.model.labels)
    return {fit: [*results, *given] for fit, results in groups.items()}, comparison, skipped | why


def _named_target(given: Any) -> bool:
    return getattr(given, "target", None) is not None


def _searched(run: Any, item: Attribution, settings: AuditSettings) -> dict[str, list[Floats]]:
    """The best orders, by operator; a quick audit does not search for them: they cost more than the rest."""
    if not settings.search:
        return {}
    return {op: ceilings(run, item, op, settings.unit, settings.metrics) for op in settings.operators}


def _scored(
    run: Any,
    groups: Mapping[str, Sequence[Attribution]],
    settings: AuditSettings,
    seed: int,
    known: ScoreInputs,
) -> list[Score]:
    """Every metric; where operators take turns, no operator judges what it fitted."""
    result: list[Score] = []
    for place, (fit, items) in enumerate(groups.items()):
        results = [
            name for name in settings.metrics if not place or registry.get_metric(name).kind == "removal"
        ]
        scores = score_explanations(
            run,
            items,
            results,
            [op for op in settings.operators if op != fit],
            unit=settings.unit,
            draws=settings.draws,
            seed=seed,
            known=known,
        )
        result += [replace(score, fit=fit) for score in scores]
    return result


def _orders(row: int, scores: Sequence[Score]) -> list[tuple[Any, ...]]:
    """Values of the random orders; those that all methods share stand once."""
    shared: dict[tuple[str, ...], tuple[float, ...]] = {}
    for s in scores:
        own = registry.get_metric(s.metric).shuffled
        shared.setdefault((s.metric, s.operator, s.fit, s.method if own else ""), s.orders)
    return [(row, *key, place, v) for key, values in shared.items() for place, v in enumerate(values)]


def _inputs(item: Attribution, settings: AuditSettings) -> int | None:
    """Model inputs that the method asked for; of scores from elsewhere it is not known."""
    return None if item.method in settings.given else item.cost.forwards


def _fitted(operators: tuple[str, ...] | None) -> str | None:
    """Joined by commas; None: not known."""
    return None if operators is None else ",".join(operators)


def _more_if_naive(settings: AuditSettings, units: int, methods: int, searched: int) -> int:
    """Rows of metrics that remove, if nothing were shared, less the rows that `weigh` asks for."""
    chosen = [registry.get_metric(name) for name in settings.metrics]
    plans = [
        m.run(np.arange(units, dtype=float), np.random.default_rng(0)) for m in chosen if m.kind == "removal"
    ]
    lengths = [len(each.keep) for each in plans]
    if not lengths:
        return 0
    alone = sum(methods * (2 + length * (1 + settings.draws)) for length in lengths)
    shared = 2 + sum(lengths) * (methods + settings.draws + searched)
    return len(settings.operators) * (alone - shared)


def _predicted(comparison: Comparison) -> str:
    return str(comparison.model["prediction"][0][0])


def _judged(label: Any, comparison: Comparison, labels: Sequence[str]) -> tuple[str | None, bool | None]:
    """The label as given, and whether the model agrees; None where it names none of the model's labels.

    A model with several labels agrees when the one it puts first is among those given.
    """
    if is_missing(label):
        return None, None
    if len(labels) < 2:  # a value, not a choice
        return str(label), None
    read = label_indices if comparison.model["kind"] == "multi-label" else lambda *one: (label_index(*one),)
    try:
        return str(label), _predicted(comparison) in [labels[i] for i in read(label, labels)]
    except HeedfulError:
        return str(label), None
