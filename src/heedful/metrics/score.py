"""Weigh the explanations of one text: every metric under every operator, beside random scores and the best.

    orders    the values of `draws` random scores, the same random scores in every cell (metric × operator);
              `control` is their mean, `low` and `high` the least and the most. Where signs and sizes count
              beside the order (infidelity, say), these are the method's own scores shuffled: all scores of
              one sign foretell that many words matter more than few, which is no insight. Where the mean
              of random scores is known in closed form (`chance`), `control` is that
    best      what nothing can beat where that is known; elsewhere the best value any order reached on this
              text, of a method, of a draw, or of `search`
    skill     (value - control) / (best - control): 0 is chance, 1 the best found

All plans of all metrics are gathered, and each operator's rows are asked for at once: what two plans want is
run once, rows of like length together.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from heedful.core import registry
from heedful.core.arrays import Floats
from heedful.core.attribution import Attribution
from heedful.core.defaults import CONTROL
from heedful.core.errors import HeedfulError
from heedful.core.input import Input
from heedful.core.model import Model
from heedful.core.registry import Metric
from heedful.core.result import NotebookRepr
from heedful.core.target import Target
from heedful.engine.question import run_explainer
from heedful.engine.session import Session, session_of
from heedful.explainers.search import GOALS
from heedful.metrics.faithfulness import Ends, Probe
from heedful.metrics.metric_input import CannotExplainAgainError, Mask, MetricInput, ReExplain
from heedful.metrics.random_orders import control_rng, random_scores
from heedful.modalities.neighbours import SMOOTHED
from heedful.stats.rounding import merged, rounding_step

DRAWS = 20


SHORTLIST = 8  # units the search looks at a step


RANDOM_SUBJECTS = 8  # draws of the control where each explains again


@dataclass(frozen=True)
class Score(NotebookRepr):
    """One metric of one method under one operator ("" where nothing is removed), on one text."""

    metric: str
    operator: str
    method: str
    value: float
    control: float
    low: float  # the least of the random scores' values
    high: float  # and the most
    best: float
    circular: bool = False  # the method was fitted by the operator that judges it here
    orders: tuple[float, ...] = ()  # values of the random scores
    fit: str = ""  # where every operator takes its turn at fitting: the one that fitted the method

    @property
    def skill(self) -> float:
        room = self.best - self.control
        return (self.value - self.control) / room if room else 0.0


@dataclass(frozen=True)
class ScoreInputs:
    """What is known of a text beside its explanations."""

    rationale: Sequence[bool] | None = None  # by unit, what people marked as the reason
    mask: Mask | None = None  # by atom, where the thing is that must be found
    # by operator, scores that were searched for (`ceilings`; None: search now); with none for an operator,
    # the best is that of the methods and random orders
    searched: Mapping[str, Sequence[Floats]] | None = None
    smoothed: bool = False  # also measure smoothed scores, by metrics that may reward smooth maps
    given: Collection[str] = ()  # methods whose scores came from elsewhere: they cannot explain again


def score_explanations(
    model: Model | Session,
    items: Sequence[Attribution],
    metrics: Iterable[str] | None = None,
    operators: Sequence[str] | None = None,
    *,
    unit: str = "",
    draws: int = DRAWS,
    seed: int = 0,
    known: ScoreInputs | None = None,
) -> list[Score]:
    """Evaluate explanations of one text and target with every metric and every removal operator.

    metrics   names of metrics; if None, all metrics that remove words
    """
    session, known = session_of(model), known or ScoreInputs()
    chosen = [registry.get_metric(n) for n in (default_metrics() if metrics is None else metrics)]
    x, target = items[0].x, items[0].target
    if any(item.x != x or item.target != target for item in items):
        raise HeedfulError("explanations of different texts or targets cannot be scored together")
    items = [item for item in items if item.method != CONTROL]
    if not items:
        raise HeedfulError(
            "there is no explanation to score", "the random control is only what others are compared with"
        )
    removing = [metric for metric in chosen if metric.kind == "removal"]
    scores: list[Score] = []
    for operator in (session.model.operators if operators is None else operators) if removing else ():
        names = [metric.name for metric in removing]
        if known.searched is None:
            best = ceilings(session, items[0], operator, unit, names)
        else:
            best = list(known.searched.get(operator, ()))
        scores += _removed(session, items, removing, operator, unit, draws, seed, best)
    marked = None if known.rationale is None else tuple(bool(mark) for mark in known.rationale)
    mask = _checked_mask(known.mask, x)
    subjects = [
        MetricInput(session, item, _again(item, item.method in known.given), unit, marked, mask)
        for item in items
    ]
    for metric in chosen:
        if metric.kind == "re-explain":
            scores += _asked(metric, subjects, seed, known.smoothed and metric.smooths)
    return scores


def _checked_mask(mask: Mask | None, x: Input) -> Mask | None:
    if mask is None:
        return None
    mask = np.asarray(mask, dtype=bool).ravel()
    if len(mask) != len(x):
        raise HeedfulError(f"the mask has {len(mask)} places", f"the input has {len(x)} {x.atom}s")
    return mask


def default_metrics() -> list[str]:
    """All that ask for rows: they cost no more than their rows, which methods and metrics share."""
    return [metric.name for metric in registry.metrics().values() if metric.kind == "removal"]


def _removed(
    session: Session,
    items: Sequence[Attribution],
    metrics: Sequence[Metric],
    operator: str,
    unit: str,
    draws: int,
    seed: int,
    searched: list[Floats],
) -> list[Score]:
    """Metrics that remove, under one operator."""
    groups = items[0].x.units(unit)
    vectors = [item.unit_scores(groups.name) for item in items]
    rng = control_rng(seed)
    vectors += random_scores(rng, len(groups), draws)
    vectors += searched
    plans = [[metric.run(v, np.random.default_rng(seed)) for v in vectors] for metric in metrics]
    ends, values = _run(session, items[0], operator, unit, [plan for group in plans for plan in group])
    at, output = iter(values), list[Score]()
    for metric, group in zip(metrics, plans, strict=True):
        at_rows = [next(at) for _ in group]
        results = [plan.finish(v, ends) for plan, v in zip(group, at_rows, strict=True)]
        if metric.family:  # in the unit of the output
            results = merged(np.array(results), ends.step).tolist()
        best = metric.best
        if best is None:
            best = max(results) if metric.better == "high" else min(results)
        if not metric.shuffled:
            output += _scored(metric, operator, items, results[: len(items) + draws], best)
            continue
        for item, scores, v, result in zip(items, vectors, at_rows, results, strict=False):
            again = (metric.run(rng.permutation(scores), np.random.default_rng(seed)) for _ in range(draws))
            output += _scored(metric, operator, [item], [result, *(p.finish(v, ends) for p in again)], best)
    return output


def goals_of(metrics: Sequence[str]) -> list[str]:
    """What is searched for, so that the best is known by each of these metrics."""
    wanted = {registry.get_metric(name).goal for name in metrics}
    return [goal for goal in GOALS if goal in wanted]


def ceilings(
    session: Session, item: Attribution, operator: str, unit: str, metrics: Sequence[str]
) -> list[Floats]:
    """Scores that were searched for: what they reach, an explanation may be asked to reach."""
    goals = goals_of(metrics)
    groups = item.x.units(unit)
    entry = registry.get("search")
    attributions = [
        run_explainer(
            entry, session, item.x, item.target, operator=operator, unit=unit, goal=goal, shortlist=SHORTLIST
        )
        for goal in goals
    ]
    return [order.unit_scores(groups.name) for order in attributions]


def _run(
    session: Session, item: Attribution, operator: str, unit: str, plans: Sequence[Probe]
) -> tuple[Ends, list[Floats]]:
    """f(x) and f(nothing), and the values of each plan's rows, all asked for at once."""
    d = plans[0].keep.shape[1]
    edges = np.repeat([[True], [False]], d, axis=1)
    keep = np.concatenate([edges, *(plan.keep for plan in plans)])
    values = session.values(item.x, item.target, keep, operator, unit)
    cuts = np.cumsum([2, *(len(plan.keep) for plan in plans)])
    if not np.isfinite(values).all():
        raise HeedfulError(
            f"{session.model.name} gives infinite or no numbers when units are removed by {operator}",
            fix=f"Remove them in another way than {operator}, or load the model in float32",
        )
    ends = Ends(float(values[0]), float(values[1]), rounding_step(session.model, values))
    return ends, np.split(values, cuts[:-1])[1:]


def _asked(metric: Metric, subjects: Sequence[MetricInput], seed: int, smooth: bool) -> list[Score]:
    """A metric that explains again; methods it says nothing about have no score. `smooth`: with the smoothed
    scores of each method and of the control, behind them."""
    model = subjects[0].model
    if model.lacks(metric.needs):
        return []
    chance = [_control(subjects[0], seed, draw) for draw in range(RANDOM_SUBJECTS)]
    results = [_result(metric, s, seed) for s in (*subjects, *chance)]
    result = [(s.item, v) for s, v in zip(subjects, results, strict=False) if np.isfinite(v)]
    control = [v for v in results[len(subjects) :] if np.isfinite(v)]
    if not result or not control:
        return []
    values, best = [*(v for _, v in result), *control], metric.best
    if best is None:
        best = max(values) if metric.better == "high" else min(values)
    scores = _scored(metric, "", [i for i, _ in result], values, best)
    if smooth:
        scores += _smoothed_scores(metric, [*subjects, *chance], scores[0], seed)
    if metric.chance is None:
        return scores
    expected = metric.chance(subjects[0])  # known without drawing
    return [replace(score, control=expected) for score in scores]


def _smoothed_scores(metric: Metric, subjects: Sequence[MetricInput], known: Score, seed: int) -> list[Score]:
    """One score per method, of its smoothed scores; of the control, the mean over its draws."""
    values: dict[str, list[float]] = {}
    for subject in subjects:
        value = _result(metric, replace(subject, smooth=True), seed)
        if np.isfinite(value):
            values.setdefault(subject.item.method + SMOOTHED, []).append(value)
    return [
        replace(known, method=method, value=float(np.mean(each)), circular=False, orders=())
        for method, each in values.items()
    ]


def _result(metric: Metric, subject: MetricInput, seed: int) -> float:
    """NaN where scores from elsewhere would have to be made again."""
    try:
        return float(metric.run(subject, np.random.default_rng(seed)))
    except CannotExplainAgainError:
        return float("nan")


def _again(item: Attribution, fixed: bool) -> ReExplain:
    """The same method and parameters, another seed."""

    def again(model: Model | Session, x: Input, target: Target, seed: int) -> Attribution:
        if fixed:  # scores from elsewhere
            raise CannotExplainAgainError(
                f"{item.method} cannot explain again", "its scores came from elsewhere"
            )
        entry = registry.get(item.method)
        own = {name: value for name, value in item.params.items() if name in entry.params}
        given = own | ({"seed": seed} if "seed" in entry.params else {})
        return run_explainer(entry, model, x, target, **given)

    return again


def _control(subject: MetricInput, seed: int, draw: int) -> MetricInput:
    """Scores drawn at random, and drawn anew whenever it is asked."""
    rng = np.random.default_rng([seed, draw])

    def again(model: Model | Session, x: Input, target: Target, seed: int) -> Attribution:
        return Attribution(x, target, rng.normal(size=len(x)), method=CONTROL)

    item = again(subject.session, subject.item.x, subject.item.target, seed)
    return replace(subject, item=replace(item, output=subject.item.output), again=again)


def _scored(
    metric: Metric, operator: str, items: Sequence[Attribution], results: Sequence[float], best: float
) -> list[Score]:
    """`results`: one per method, then the control's draws."""
    orders = tuple(map(float, results[len(items) :]))
    return [
        Score(
            metric=metric.name,
            operator=operator,
            method=item.method,
            value=float(value),
            control=float(np.mean(orders)),
            low=min(orders),
            high=max(orders),
            best=float(best),
            circular=operator in (item.fitted_by or ()),
            orders=orders,
        )
        for item, value in zip(items, results, strict=False)
    ]
