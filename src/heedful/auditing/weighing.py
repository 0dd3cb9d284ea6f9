"""One text: explained by every method, weighed by every metric, rows shared. One shard: its tables as bytes.

asked   model inputs that the methods and metrics asked for
run     those that were really run: each once a text, whoever asks
naive   what tools that share nothing would run: every method its own rows; every metric, for every method
        and operator, f(x), f(nothing), the method's rows and those of its own random orders; no tool but
        this one looks for the best order, so those rows are in `asked` and `run` alone
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from heedful import registry
from heedful.auditing.settings import Settings
from heedful.auditing.source import Row
from heedful.auditing.tables import KINDS, to_parquet
from heedful.errors import HeedfulError
from heedful.evidence.weigh import ceilings, weigh
from heedful.models.base import Model
from heedful.planning import plan
from heedful.run import Run, carry_out
from heedful.types import CONTROL, Comparison, Encoded
from heedful.view.columns import pieces

Tables = dict[str, list[tuple[Any, ...]]]
Tell = Callable[[int], None]  # so many rows more are done


@dataclass(frozen=True)
class Shard:
    """Consecutive rows that are worked on together; `number` counts from 0."""

    number: int
    rows: tuple[Row, ...]

    @property
    def sum(self) -> str:
        """SHA-256 of what came in, to tell other rows from the same."""
        said = [[row.number, row.text, row.label, row.rationale, row.broken] for row in self.rows]
        return hashlib.sha256(json.dumps(said, default=repr).encode()).hexdigest()


def weigh_shard(model: Model, shard: Shard, settings: Settings, tell: Tell | None = None) -> dict[str, bytes]:
    """File name -> content. Nothing but the arguments matters."""
    tables: Tables = {name: [] for name in KINDS}
    for row in shard.rows:
        for name, found in weigh_row(model, row, settings).items():
            tables[name] += found
        if tell is not None:
            tell(1)
    files = {f"{name}.parquet": to_parquet(name, rows) for name, rows in tables.items()}
    sums = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    facts: dict[str, Any] = {"shard": shard.number, "first": shard.rows[0].number, "rows": len(shard.rows)}
    facts |= {"weighed": len(tables["texts"]), "source": shard.sum, "files": sums}
    return files | {"shard.json": (json.dumps(facts, indent=1) + "\n").encode()}


def weigh_row(model: Model, row: Row, settings: Settings) -> Tables:
    """The row's part of each table. Whatever is wrong with one row is told in `errors`, and stays there."""
    if why := row.broken or _unfit(row.text):
        return {"errors": [(row.number, "", why)]}
    try:
        return _weigh_text(model, row, settings)
    except HeedfulError as error:
        return {"errors": [(row.number, "", str(error))]}
    except Exception as error:  # a model may fail on one text in ways of its own: the others go on
        return {"errors": [(row.number, "", f"{type(error).__name__}: {error}"[:1000])]}


def _unfit(text: Any) -> str:
    if text is None:
        return "there is no text (null)"
    if not isinstance(text, str):
        return f"this is not text, but {type(text).__name__}: {text!r}"[:200]
    if not text.strip():
        return "the text is empty"
    try:
        text.encode()
    except UnicodeEncodeError:
        return "the text is not valid UTF-8"
    return ""


def _weigh_text(model: Model, row: Row, settings: Settings) -> Tables:
    seed = settings.seed_of(row.number)
    run: Any = Run(model)  # each row of model input is run once, whoever asks
    before = run.spent
    made = plan(
        model, row.text, settings.methods, None, settings.unit, seed,
        long=settings.long, params=settings.params, timed=False,
    )  # fmt: skip
    # a method that fails on this text is left out of it, and the others go on
    comparison = carry_out(replace(made, named=False), keep_partial=False, run=run)
    items = [item for item in comparison.attributions if item.method != CONTROL]
    marks = None if row.rationale is None else marked(row.rationale, comparison.x, settings.unit)
    rest = run.spent
    searched = {op: ceilings(run, items[0], op, settings.unit, settings.metrics) for op in settings.operators}
    looked = (run.spent - rest).forwards
    scores = weigh(
        run, items, settings.metrics, settings.operators,
        unit=settings.unit, draws=settings.draws, seed=seed, rationale=marks, searched=searched,
    )  # fmt: skip
    spent, units = run.spent - before, len(comparison.x.units(settings.unit))
    orders = len(searched[settings.operators[0]])
    naive = spent.forwards - looked + _more_if_naive(settings, units, len(items), orders)
    label, right = _judged(row.label, comparison, model.labels)
    told = (row.number, seed, comparison.target.name, items[0].output, _predicted(comparison), label, right)
    return {
        "scores": [
            (
                row.number,
                s.metric,
                s.operator,
                s.method,
                s.value,
                s.control,
                s.low,
                s.high,
                s.best,
                s.circular,
            )
            for s in scores
        ],
        "attributions": [
            (row.number, item.method, index, word.text, word.start, word.end, word.score, word.stderr)
            for item in items
            for index, word in enumerate(pieces(item, settings.unit))
        ],
        "texts": [(*told, units, spent.forwards, spent.unique, naive)],
        "errors": [(row.number, method, why) for method, why in comparison.refused.items()],
    }


def _more_if_naive(settings: Settings, units: int, methods: int, searched: int) -> int:
    """Rows of metrics that remove, if nothing were shared, less the rows that `weigh` asks for."""
    chosen = [registry.get_metric(name) for name in settings.metrics]
    plans = [
        m.run(np.arange(units, dtype=float), np.random.default_rng(0)) for m in chosen if m.asks == "rows"
    ]
    lengths = [len(found.keep) for found in plans]
    if not lengths:
        return 0
    alone = sum(methods * (2 + length * (1 + settings.draws)) for length in lengths)
    shared = 2 + sum(lengths) * (methods + settings.draws + searched)
    return len(settings.operators) * (alone - shared)


def _predicted(comparison: Comparison) -> str:
    return str(comparison.model["prediction"][0][0])


def _judged(label: Any, comparison: Comparison, labels: Sequence[str]) -> tuple[str | None, bool | None]:
    """The label as given, and whether the model agrees; None where it names none of the model's labels."""
    if label is None or (isinstance(label, float) and math.isnan(label)):
        return None, None
    names = {str(index): name for index, name in enumerate(labels)} | {name.lower(): name for name in labels}
    given = str(label).strip().lower()
    known = names.get(given) or names.get(_whole(label))
    return str(label), None if known is None else known == _predicted(comparison)


def _whole(label: Any) -> str:
    """1, 1.0, "1.0" and True are label 1; what is no whole number is itself."""
    try:
        number = float(label)
    except (TypeError, ValueError, OverflowError):
        return ""
    return str(int(number)) if number.is_integer() else ""


def marked(rationale: Any, x: Encoded, unit: str) -> list[bool]:
    """What people marked, by unit.

    One mark (true, false, 1, 0) a unit or a word between spaces, or a list of [start, end] characters; a unit
    is marked when any of its characters is.
    """
    spans = [(min(x.offsets[p][0] for p in ps), max(x.offsets[p][1] for p in ps)) for ps in x.units(unit)]
    given = list(rationale) if isinstance(rationale, Sequence | np.ndarray) else []
    if given and all(isinstance(mark, int | np.integer | np.bool_) and mark in (0, 1) for mark in given):
        if len(given) == len(spans):
            return [bool(mark) for mark in given]
        words = _between_spaces(x.text)
        if len(given) != len(words):
            raise HeedfulError(
                f"the rationale has {len(given)} marks",
                f"the text has {len(spans)} {unit}s, and {len(words)} words between spaces",
            )
        given = [span for span, mark in zip(words, given, strict=True) if mark]
    if not isinstance(rationale, Sequence | np.ndarray) or not all(map(_is_span, given)):
        raise HeedfulError(
            "the rationale cannot be read", fix="Give one 0 or 1 a word, or [start, end] spans"
        )
    return [any(start < end_of and begin < end for begin, end_of in given) for start, end in spans]


def _is_span(mark: Any) -> bool:
    return isinstance(mark, Sequence) and len(mark) == 2 and all(isinstance(at, int) for at in mark)


def _between_spaces(text: str) -> list[tuple[int, int]]:
    found, at = [], 0
    for word in text.split():
        start = text.index(word, at)
        at = start + len(word)
        found.append((start, at))
    return found
