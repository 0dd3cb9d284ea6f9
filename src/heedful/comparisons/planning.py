"""`plan`: what `explain` is about to do, and about what it will cost. Nothing is run but the prediction.

    rows      every method tells the fewest and the most it asks for, in `registry.explainer(rows=...)`
    seconds   likely rows x the time a row takes; a pass with gradients counts as three forwards

Where the fewest and the most differ, their geometric mean is taken for likely. A row's time is that of the
prediction, which is needed anyway; should that foretell a long run, of a few rows in one batch, which are
quicker than one alone. What is not the model's (maximum flows, fits) is not counted.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from heedful.comparisons.single_text import (
    DRAWS,
    METRICS,
    TEST_OPERATIONS,
    THIRD,
    draws_needed,
    rows_of,
    rows_per_order,
)
from heedful.core import registry
from heedful.core.defaults import ALL, CONTROL
from heedful.core.errors import HeedfulError
from heedful.core.input import Input
from heedful.core.model import Loadable, Model
from heedful.core.phrases import EXPENSIVE
from heedful.core.registry import Explainer, Rows
from heedful.core.result import NotebookRepr
from heedful.core.target import Target
from heedful.core.versions import versions
from heedful.core.whole_numbers import check_seed
from heedful.modalities.kinds import KINDS, Piece, checked_unit, pieces_of, spelled, words_for
from heedful.modalities.operators import checked_operator
from heedful.models.load import load
from heedful.models.targets import as_mapping

GRADED = 3.0  # forwards that a forward and backward take


LONG, TIMED = 10.0, 16  # seconds from which on a run is timed better, and the rows that are run for it


LEAST_DRAWS = 19  # random orders: with fewer, not even one method can be tested at 5 %


@dataclass(frozen=True, repr=False)
class Plan(NotebookRepr):
    """The methods, the text in pieces, the target, and what each method may ask for."""

    model: Model
    x: Input
    pieces: list[Piece]
    target: Target
    chosen: list[Explainer]  # in the order they are shown
    skipped: Mapping[str, str]
    own: Mapping[str, Mapping[str, Any]]  # method -> its parameters
    named: bool  # the methods were asked for by name
    prediction: list[tuple[str, float]]
    settings: Mapping[str, Any]
    seconds_per_row: float
    seconds_taken: float  # by the planning
    metrics: tuple[str, ...] = ()  # by which the methods are weighed

    def __repr__(self) -> str:
        return f"<heedful.Plan of {len(self.chosen)} methods: up to {self.most_rows:,} model inputs>"

    def rows_of(self, method: str, piece: int) -> Rows:
        return registry.get(method).rows(self.pieces[piece][0], self.target, self.own[method])

    @cached_property
    def rows(self) -> dict[str, Rows]:
        """method -> (fewest, most) model inputs, if it ran alone."""
        results = {}
        for entry in self.chosen:
            each = [self.rows_of(entry.name, piece) for piece in range(len(self.pieces))]
            results[entry.name] = sum(low for low, _ in each), sum(high for _, high in each)
        return results

    @property
    def order(self) -> list[Explainer]:
        """Cheap methods first, those that can do with fewer rows last: they share what a budget leaves."""
        return sorted(self.chosen, key=lambda e: (self.flexible(e), self.rows[e.name][1]))

    def flexible(self, entry: Explainer) -> bool:
        low, high = self.rows[entry.name]
        return low < high

    @property
    def most_rows(self) -> int:
        """Of all methods together."""
        rows = self._together({e.name: float(self.rows[e.name][1]) for e in self.chosen}) + self.weighing
        return int(rows if self.budget is None else min(rows, self.budget))

    @property
    def likely_rows(self) -> float:
        """Of all methods together, without the evidence: between the fewest and the most of each."""
        return self._together({name: math.sqrt(least * most) for name, (least, most) in self.rows.items()})

    @cached_property
    def weighing(self) -> int:
        """Most rows that weighing asks for."""
        units = len(self.x.units(self.settings["unit"]))
        return rows_of(units, len(self.chosen) - 1, self.metrics, self.draws) if self.metrics and units else 0

    @cached_property
    def draws(self) -> int:
        """Random orders of the evidence: as many as a test of all methods takes, where that is cheap."""
        if (chosen := self.settings.get("draws")) is not None:
            return int(chosen)
        units, methods = len(self.x.units(self.settings["unit"])), len(self.chosen) - 1
        if not self.metrics or not units:
            return DRAWS
        own = self._together({e.name: float(self.rows[e.name][0]) for e in self.chosen})
        needed = draws_needed(methods)
        inputs = needed * rows_per_order(units, self.metrics)
        operations = 2.0 * inputs * self.x.read_length * (self.model.size or math.inf)
        return max(DRAWS, needed) if inputs <= THIRD * own or operations <= TEST_OPERATIONS else DRAWS

    @property
    def seconds(self) -> float:
        """About what all methods together take."""
        value = self._together({e.name: self.seconds_of(e) for e in self.chosen})
        value += self.weighing * self.seconds_per_row
        return value if self.budget is None else min(value, GRADED * self.budget * self.seconds_per_row)

    def seconds_of(self, entry: Explainer) -> float:
        least, most = self.rows[entry.name]
        return (
            (GRADED if "gradients" in entry.needs else 1.0) * math.sqrt(least * most) * self.seconds_per_row
        )

    def _together(self, each: Mapping[str, float]) -> float:
        """A sum, to which those that read the trace alone add but once: it is one pass for all of them."""
        apart = sum(each[e.name] for e in self.chosen if e.counts is not None)
        return apart + max((each[e.name] for e in self.chosen if e.counts is None), default=0.0)

    @property
    def predicted(self) -> dict[str, Any]:
        """The prediction as facts of the result, and the written text it was taken after, if any."""
        written = self.model.written(self.target)
        facts: dict[str, Any] = {"prediction": [list(pair) for pair in self.prediction]}
        return facts if written is None else {**facts, "prediction_after": written.raw}

    @property
    def budget(self) -> int | None:
        number: int | None = self.settings["budget"]
        return number

    def to_dict(self) -> dict[str, Any]:
        methods = [
            {
                "method": e.name,
                "least": self.rows[e.name][0],
                "most": self.rows[e.name][1],
                "seconds": self.seconds_of(e),
            }
            for e in self.order
        ]
        together = {"rows": self.most_rows, "seconds": self.seconds, "seconds_per_row": self.seconds_per_row}
        together |= {"weighing": self.weighing}
        return {**together, "parts": len(self.pieces), "methods": methods, "skipped": dict(self.skipped)}


def plan(
    model: Loadable,
    text: Any,
    methods: Iterable[str] | str | None = None,
    target: Any = None,
    unit: str = "",
    seed: int = 0,
    budget: int | None = None,
    *,
    long: str = "error",
    params: Mapping[str, Mapping[str, Any]] | None = None,
    evidence: bool | Iterable[str] = True,
    draws: int | None = None,
    timed: bool = True,
) -> Plan:
    """Estimate the cost of `heedful.explain` before you run it.

    It has most parameters of `heedful.explain`, and the additional parameter `timed`.

    Parameters
    ----------
    model
        The result of `heedful.load`, or anything that `heedful.load` accepts.
    text
        A text, a pair of texts, or a list of chat messages.
    methods
        Names of methods. If `None`, the seven default methods (`heedful.core.defaults`). If "all", every
        method that the model supports, except expensive methods.
    target
        What to explain. If `None`, the prediction.
    unit
        What is removed and scored as one piece: "word", "token" or "sentence".
    seed
        Random seed.
    budget
        The largest number of model inputs that all methods together may use. If `None`, there is no limit.
    long
        What to do with a text that is too long: "error", "truncate" or "window".
    params
        Parameters per method, such as `{"occlusion": {"operator": "delete"}}`.
    evidence
        Whether the methods are tested on this text, as in `heedful.explain`.
    draws
        Number of random orders to compare the methods with. If `None`, the number depends on the cost.
    timed
        Run a few model inputs to estimate the time of a long run. If False, only the model inputs are
        counted.

    Returns
    -------
    Plan
        Number of model inputs and seconds per method. `print(plan)` shows a table.

    Examples
    --------
    >>> import heedful
    >>> plan = heedful.plan("zoo:sentiment", "The food was great", methods=["occlusion", "grad-l2"])
    >>> plan
    <heedful.Plan of 3 methods: up to 176 model inputs>
    """
    started = time.perf_counter()
    _check_numbers(seed, budget)
    model, params = load(model), _read_params(params)
    chosen, skipped = _choose(model, methods)
    metrics = _metrics(model, evidence)
    _check_params(model, chosen, params, named=methods not in (ALL, [ALL]))
    if model.modality in KINDS:
        checked_unit(model.modality, unit)  # before the input is read
    x = model.encode(text, long)
    unit = x.units(unit).name  # refuses an unknown unit before any work
    pieces = pieces_of(x, model.window)
    encoded = [piece for piece, _ in pieces]
    wanted = _target(model, encoded, target)
    before = time.perf_counter()  # the forward of the target has warmed the model up
    prediction = _predict(model, encoded, wanted.given)
    a_row = (time.perf_counter() - before) / len(pieces)
    settings: dict[str, Any] = {"seed": seed, "unit": unit, "long": long, "budget": budget}
    settings |= {} if draws is None else {"draws": _checked_draws(draws)}
    settings |= {"versions": versions(), "params": {name: dict(given) for name, given in params.items()}}
    settings |= {"methods": _named(methods, chosen)}
    settings |= {"evidence": list(metrics), **_spelled(text, target), **spelled(x, text)}
    own = {entry.name: _own_params(entry, unit, seed, params) for entry in chosen}
    took = time.perf_counter() - started
    made = Plan(
        model=model,
        x=x,
        pieces=pieces,
        target=wanted,
        chosen=chosen,
        skipped=skipped,
        own=own,
        named=methods is not None and methods not in (ALL, [ALL]),
        prediction=prediction,
        settings=settings,
        seconds_per_row=a_row,
        seconds_taken=took,
        metrics=metrics if len(pieces) == 1 else (),
    )
    if not timed or made.seconds <= LONG or budget is not None:
        return made
    return replace(made, seconds_per_row=seconds_in_batch(made))


def _named(methods: Any, chosen: list[Explainer]) -> list[str] | str | None:
    """As it was asked for: None (the usual ones), "all", or names."""
    if methods is None:
        return None
    return ALL if methods in (ALL, [ALL]) else [entry.name for entry in chosen]


def _spelled(text: Any, target: Any) -> dict[str, Any]:
    """The target as it was given; which of the two came as objects that no command can spell."""
    objects = [
        name for name, given in (("text", text), ("target", target)) if isinstance(given, Input | Target)
    ]
    return {"objects": objects} if objects else {"target": as_mapping(target) or None}


def _check_numbers(seed: Any, budget: Any) -> None:
    check_seed(seed)
    if budget is not None and (isinstance(budget, bool) or not isinstance(budget, int) or budget < 0):
        raise HeedfulError(f"budget cannot be {budget!r}", "it is a whole number of model inputs, 0 or more")


def _checked_draws(draws: Any) -> int:
    if isinstance(draws, bool) or not isinstance(draws, int) or draws < LEAST_DRAWS:
        raise HeedfulError(f"draws cannot be {draws!r}", f"it is a whole number, {LEAST_DRAWS} or more")
    return draws


def _read_params(params: Any) -> dict[str, Mapping[str, Any]]:
    """Parameters by method, each a mapping."""
    given = {} if params is None else params
    if not isinstance(given, Mapping) or not all(isinstance(own, Mapping) for own in given.values()):
        raise HeedfulError(
            "params are not parameters by method", fix='Give a mapping, e.g. {"lime": {"samples": 1000}}'
        )
    return dict(given)


def seconds_in_batch(made: Plan) -> float:
    """Seconds per model input when several run together; of one alone where measuring would take long."""
    (x, _), alone = made.pieces[0], made.seconds_per_row
    count = min(TIMED, len(x.units()), int(2 / alone))
    if count < 4 or "values" not in made.model.capabilities:
        return alone
    keep = ~np.eye(count, len(x.units()), dtype=bool)
    before = time.perf_counter()
    made.model.values(x, made.target, keep)
    return min(alone, (time.perf_counter() - before) / count)


def _choose(model: Model, methods: Any) -> tuple[list[Explainer], dict[str, str]]:
    """(methods to run, method -> why not). A method that was named and is not supported is an error."""
    if methods is None or methods in (ALL, [ALL]):
        support = registry.support(model)
        able = [registry.get(s.method) for s in support if s.ok]
        if methods is None:
            usual = model.default_methods
            chosen = [entry for entry in able if entry.name in (*usual, CONTROL)]
            return chosen, {s.method: s.why for s in support if not s.ok and s.method in usual}
        skipped = {s.method: s.why for s in support if not s.ok}
        skipped |= {entry.name: EXPENSIVE for entry in able if entry.expensive}
        return [entry for entry in able if not entry.expensive], skipped
    names = [methods] if isinstance(methods, str) else list(methods) if isinstance(methods, Iterable) else []
    if not names or not all(isinstance(name, str) for name in names):
        raise HeedfulError("no method was named", fix=f"Known: all, {', '.join(registry.explainers())}")
    chosen = [registry.get(name) for name in dict.fromkeys([*names, CONTROL])]
    for entry in chosen:
        model.require(entry.needs, entry.name)
    return chosen, {}


def _metrics(model: Model, evidence: Any) -> tuple[str, ...]:
    """The metrics of the evidence: two, unless others are named."""
    if isinstance(evidence, bool):
        return METRICS if evidence and "values" in model.capabilities else ()
    names = (evidence,) if isinstance(evidence, str) else tuple(evidence)
    return tuple(registry.get_metric(name).name for name in names)


def _check_params(
    model: Model, chosen: list[Explainer], params: Mapping[str, Mapping[str, Any]], named: bool
) -> None:
    for name, given in params.items():
        registry.get(name).check(given)
        parts = words_for(model.modality, "part").parts
        checked_operator(given.get("operator"), model.named_operators, parts)
        if named and name not in {entry.name for entry in chosen}:
            raise HeedfulError(
                f"parameters were given for {name!r}, which does not run here",
                fix=f"Running: {', '.join(entry.name for entry in chosen)}",
            )


def _own_params(entry: Explainer, unit: str, seed: int, params: Mapping[str, Any]) -> dict[str, Any]:
    common = {"unit": unit, "seed": seed}
    return {name: value for name, value in common.items() if name in entry.params} | dict(
        params.get(entry.name, {})
    )


def _target(model: Model, pieces: list[Input], spec: Any) -> Target:
    """The target of one text, or the label with the highest mean over the pieces of a long one."""
    if len(pieces) > 1 and spec is None:
        spec = _predict(model, pieces)[0][0]
    return model.target(pieces[0], spec)


def _predict(model: Model, pieces: list[Input], given: Sequence[int] = ()) -> list[tuple[str, float]]:
    """Prediction after each piece and the tokens `given`, averaged over pieces."""
    shares: dict[str, float] = {}
    every = len(model.labels) or 5
    for piece in pieces:
        for label, share in model.predict(piece, every if len(pieces) > 1 else min(every, 5), given):
            shares[label] = shares.get(label, 0.0) + share / len(pieces)
    return sorted(shares.items(), key=lambda item: -item[1])[:5]
