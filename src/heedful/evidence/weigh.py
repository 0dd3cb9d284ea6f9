"""Weigh the explanations of one text: every metric under every operator, beside random orders and the best.

    control   mean over random scores (`draws` of them), with the band that holds 95 % of them
    best      the best value any order reached on this text: of a method, of a draw, or of `search`
    skill     (value - control) / (best - control): 0 is chance, 1 the best found

All plans of all metrics are gathered, and each operator's rows are asked for at once: what two plans want is
run once, rows of like length together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from heedful.errors import HeedfulError
from heedful.evidence import faithfulness as f
from heedful.evidence.faithfulness import Ends, Plan
from heedful.models.base import Model
from heedful.types import Attribution, Floats

CONTROL = "random"
DRAWS = 20


@dataclass(frozen=True)
class Metric:
    """A faithfulness metric: its plan, and which end is good."""

    name: str
    plan: Callable[[Floats, np.random.Generator], Plan]
    better: str  # "high" or "low"
    circular: frozenset[str] = frozenset()  # methods chosen or fitted by what it measures


CHOSEN = frozenset({"search", "attention-optimus"})  # both look at deletions before they answer
METRICS = {
    metric.name: metric
    for metric in (
        Metric("comprehensiveness", f.comprehensiveness, "high", CHOSEN),
        Metric("sufficiency", f.sufficiency, "low"),
        Metric("aopc", f.aopc, "high", CHOSEN),
        Metric("insertion", f.insertion, "low"),
        Metric("monotonicity", f.monotonicity, "high", CHOSEN | {"occlusion"}),
        Metric("non-sensitivity", f.non_sensitivity, "low", frozenset({"occlusion"})),
        Metric("effective-complexity", f.effective_complexity, "low"),
        Metric("infidelity", f.infidelity, "low", frozenset({"lime", "kernel-shap"})),
    )
}


@dataclass(frozen=True)
class Score:
    """One metric of one method under one operator, on one text."""

    metric: str
    operator: str
    method: str
    value: float
    control: float
    low: float  # 95 % of random scores lie between low
    high: float  # and high
    best: float
    circular: bool = False

    @property
    def skill(self) -> float:
        room = self.best - self.control
        return (self.value - self.control) / room if room else 0.0

    @property
    def above_chance(self) -> bool:
        """Beyond the band, on the side that is good."""
        return self.value > self.high if self.best >= self.control else self.value < self.low


def weigh(
    model: Model,
    items: Sequence[Attribution],
    metrics: Iterable[str] | None = None,
    operators: Sequence[str] | None = None,
    *,
    unit: str = "word",
    draws: int = DRAWS,
    seed: int = 0,
) -> list[Score]:
    """Scores of every attribution (all of one text and target) by every metric under every operator."""
    chosen = [metric_named(name) for name in (METRICS if metrics is None else metrics)]
    x, target = items[0].x, items[0].target
    if any(item.x != x or item.target != target for item in items):
        raise HeedfulError("explanations of different texts or targets cannot be weighed together")
    groups = x.units(unit)
    vectors = {item.method: unit_scores(item, groups) for item in items if item.method != CONTROL}
    rng = np.random.default_rng(seed)
    chance = [rng.normal(size=len(groups)) for _ in range(draws)]
    found: list[Score] = []
    for operator in model.operators if operators is None else operators:
        plans = [_plans(metric, [*vectors.values(), *chance], seed) for metric in chosen]
        ends, values = _run(model, items[0], operator, unit, [p for group in plans for p in group])
        at = iter(values)
        for metric, group in zip(chosen, plans, strict=True):
            results = [plan.finish(next(at), ends) for plan in group]
            found += _scored(metric, operator, list(vectors), results)
    return found


def metric_named(name: str) -> Metric:
    if name not in METRICS:
        raise HeedfulError(f"unknown metric {name!r}", fix=f"Known: {', '.join(METRICS)}")
    return METRICS[name]


def unit_scores(item: Attribution, groups: Sequence[Sequence[int]]) -> Floats:
    """(d,) a unit's score is the sum over its tokens."""
    return np.array([item.scores[list(positions)].sum() for positions in groups])


def _plans(metric: Metric, vectors: Sequence[Floats], seed: int) -> list[Plan]:
    """One plan a vector; the same draws for each, so that methods are compared on the same rows."""
    return [metric.plan(vector, np.random.default_rng(seed)) for vector in vectors]


def _run(
    model: Model, item: Attribution, operator: str, unit: str, plans: Sequence[Plan]
) -> tuple[Ends, list[Floats]]:
    """f(x) and f(nothing), and the values of each plan's rows, all asked for at once."""
    d = plans[0].keep.shape[1]
    edges = np.repeat([[True], [False]], d, axis=1)
    keep = np.concatenate([edges, *(plan.keep for plan in plans)])
    values = model.rows(item.x, item.target, keep, operator, unit)
    cuts = np.cumsum([2, *(len(plan.keep) for plan in plans)])
    return Ends(float(values[0]), float(values[1])), np.split(values, cuts[:-1])[1:]


def _scored(metric: Metric, operator: str, methods: Sequence[str], results: Sequence[float]) -> list[Score]:
    chance = np.array(results[len(methods) :])
    low, high = np.quantile(chance, [0.025, 0.975])
    best = max(results) if metric.better == "high" else min(results)
    return [
        Score(
            metric.name,
            operator,
            method,
            float(value),
            float(chance.mean()),
            float(low),
            float(high),
            float(best),
            method in metric.circular,
        )
        for method, value in zip(methods, results, strict=False)
    ]
