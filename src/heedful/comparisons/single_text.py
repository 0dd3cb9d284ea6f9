"""The evidence of a single text: how many random orders each method beat on it. It ranks nobody.

comprehensiveness and sufficiency, one per family, beside random orders, under an operator that fitted none of
the methods. A method and each random order have a share w each (heedful.metrics.random_orders); a method
beat the random orders whose share is smaller.

    p = (1 + number of random orders that did as well) / (1 + draws),   Holm over the methods, 5 %

The smallest p is 1 / (1 + draws), so M methods need 20 M - 1 random orders. They are drawn where that is
cheap: at most a third of what the methods ask for anyway, or at most TEST_OPERATIONS multiplications. Else 20
are drawn, and counts are all that is said, with what a test would cost.

The words that the methods name first are also removed one at a time by the same operator: the effect of a
word alone is what a reader understands.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from heedful.core.defaults import CONTROL, CONTROLS
from heedful.core.evidence import Evidence
from heedful.core.phrases import EMPTY_MAP, InputWords, listed

if TYPE_CHECKING:
    from heedful.core.attribution import Attribution
    from heedful.core.model import Model
    from heedful.engine.session import Session

METRICS = ("comprehensiveness", "sufficiency")
DRAWS = 20  # random orders, unless a test can be had cheaply
ALPHA = 0.05
THIRD = 1 / 3  # of the methods' own model inputs, the most that a test may cost by itself
TEST_OPERATIONS = 3e11  # about two seconds on one core: so much a test may cost in any case
ALONE = 20  # words that are removed one at a time
LAST = "One {} is not enough to rank methods. heedful audit compares them on many {}."
TEXT = InputWords()


@dataclass(frozen=True)
class MethodStanding:
    """One method beside the random orders of one text."""

    method: str
    beat: int
    draws: int
    p: float  # corrected for all methods; NaN: too few random orders for a test


def draws_needed(methods: int) -> int:
    """Random orders with which the best of so many methods can be shown to be better than random."""
    return max(DRAWS - 1, math.ceil(max(methods, 1) / ALPHA) - 1)


def operator_of(model: Model, items: Sequence[Attribution] = ()) -> str:
    """By which the evidence removes words: the first that fitted none of the methods."""
    from heedful.metrics.verdict import JUDGES, judging_operators

    offered = tuple(name for name in (*JUDGES, *model.operators) if name in model.operators)
    return judging_operators(offered, {item.method: item.fitted_by for item in items})[0][0]


def rows_of(d: int, methods: int, metrics: Sequence[str] = METRICS, draws: int = DRAWS) -> int:
    """Most model inputs that the evidence takes."""
    return 2 + (methods + draws) * rows_per_order(d, metrics) + min(d, ALONE)


def remove_alone(session: Session, items: Sequence[Attribution], unit: str) -> None:
    """Remove the strongest words one at a time by the operator of the evidence; the session remembers."""
    import numpy as np

    x, target = items[0].x, items[0].target
    sizes = np.stack([np.abs(item.unit_scores(unit)) for item in items])  # (methods, d)
    tops = sizes.max(1, keepdims=True)
    share = np.nan_to_num(sizes / np.where(tops > 0, tops, 1.0))
    first = np.sort(np.argsort(-share.sum(0), kind="stable")[:ALONE])
    keep = np.ones((len(first) + 1, sizes.shape[1]), bool)
    keep[np.arange(1, len(first) + 1), first] = False
    session.values(x, target, keep, operator_of(session.model, items), unit)


def rows_per_order(d: int, metrics: Sequence[str] = METRICS) -> int:
    import numpy as np

    from heedful.core import registry

    chosen = [registry.get_metric(name) for name in metrics]
    scores = np.arange(d, dtype=float)
    rng = np.random.default_rng(0)
    keep = [m.run(scores, rng).keep for m in chosen if m.kind == "removal"]
    return sum(len(np.unique(rows, axis=0)) for rows in keep)  # the same row is run once


def weighed(
    session: Session,
    items: Sequence[Attribution],
    metrics: Sequence[str] = METRICS,
    unit: str = "word",
    seed: int = 0,
    draws: int = DRAWS,
) -> tuple[Evidence, ...]:
    from heedful.metrics.score import ScoreInputs, score_explanations
    from heedful.metrics.summary import summarise

    operator = operator_of(session.model, items)
    named = [item for item in items if EMPTY_MAP not in item.notes]  # an empty map has no order to test
    if all(item.method == CONTROL for item in named):
        return ()
    scores = score_explanations(
        session, named, metrics, [operator], unit=unit, draws=draws, seed=seed, known=ScoreInputs(searched={})
    )
    return tuple(summarise([scores]))


def standings(evidence: Sequence[Evidence]) -> list[MethodStanding]:
    """One per method that is judged by a removal not its own, those that beat most first."""
    import numpy as np

    from heedful.metrics.random_orders import MetricCell, exchanged
    from heedful.stats.exchange_test import holm

    judged = [e for e in evidence if e.orders and not e.circular and e.family]
    cells = dict.fromkeys((e.metric, e.operator) for e in judged)
    results: dict[str, tuple[int, int, int]] = {}
    for method in dict.fromkeys(e.method for e in judged):
        own = {(e.metric, e.operator): e for e in judged if e.method == method}
        if len(own) < len(cells):
            continue
        entries = [own[cell] for cell in cells]
        signs = np.array([1.0 if e.better == "high" else -1.0 for e in entries])
        values = signs * np.array([e.value for e in entries])
        orders = (signs[:, None] * np.array([e.orders for e in entries])).T  # (B, C)
        named = tuple(MetricCell(e.family, e.metric, e.operator) for e in entries)
        w = np.round(exchanged(values[None], orders[None], named)[0], 9)
        results[method] = int((w[1:] < w[0]).sum()), int((w[1:] >= w[0]).sum()), len(orders)
    p = holm(np.array([(1 + as_well) / (1 + draws) for _, as_well, draws in results.values()]))
    enough = {draws_needed(len(results)) <= draws for _, _, draws in results.values()} == {True}
    shown = [
        MethodStanding(method, beat, draws, float(value) if enough else math.nan)
        for (method, (beat, _, draws)), value in zip(results.items(), p, strict=True)
    ]
    return sorted(shown, key=lambda one: -one.beat)


def lower_than_controls(evidence: Sequence[Evidence]) -> dict[str, tuple[str, ...]]:
    """Of each method that was judged, the controls with a higher mean skill, over the cells (metric ×
    operator) that both have. It describes one input and tests nothing."""
    skills: dict[str, dict[tuple[str, str], float]] = {}
    for e in evidence:
        if e.orders and not e.circular and e.family and math.isfinite(e.skill):
            skills.setdefault(e.method, {})[e.metric, e.operator] = e.skill
    controls = [name for name in CONTROLS if name != CONTROL and name in skills]
    return {
        method: tuple(control for control in controls if _lower(own, skills[control]))
        for method, own in skills.items()
        if method not in CONTROLS
    }


def _lower(own: Mapping[tuple[str, str], float], control: Mapping[tuple[str, str], float]) -> bool:
    both = [cell for cell in own if cell in control]
    return sum(own[cell] for cell in both) < sum(control[cell] for cell in both)


def verdict_text(
    evidence: Sequence[Evidence],
    items: Sequence[Attribution] = (),
    little: str = "",
    d: int = 0,
    unit: str = "word",
    words: InputWords = TEXT,
) -> str:
    """In words, the answer first.

    items    what was weighed: how those that remove words do it is told
    little   a sentence where there is little to explain
    d        units of the text: what a test would cost is told
    unit     what is removed
    words    what sentences call the input and its parts
    """
    if not evidence:
        how = "pass evidence=True to heedful.explain"
        return f"Nothing was weighed, so nothing can be said about which method to use: {how}."
    methods = standings(evidence)
    lines = ["No metric of the verdict was measured here."]
    if methods:
        metrics = len({e.metric for e in evidence if e.family})
        lines = [_counts(methods, metrics, words.noun), _tested(methods, d, words.noun)]
    if d == 1:
        one = f"The {words.noun} has one {unit}"
        lines = [f"{one}: there are no orders to compare, so no method can be tested."]
    lines += [_removed(evidence, items, words.parts), little]
    return "\n".join([*filter(None, lines), LAST.format(words.noun, words.many)])


def _counts(methods: Sequence[MethodStanding], metrics: int, noun: str) -> str:
    """occlusion and lime beat all 20, grad-l2 beat 17; with more than one metric, how they are joined."""
    groups: dict[int, list[str]] = {}
    for one in methods:
        groups.setdefault(one.beat, []).append(one.method)
    draws = methods[0].draws
    parts = [
        f"{listed(names)} beat {f'all {draws}' if beat == draws else beat or 'none'}"
        for beat, names in groups.items()
    ]
    joined = " An order is beaten if its mean rank over the metrics is lower." if metrics > 1 else ""
    return f"Of {draws} random orders on this {noun}, {', '.join(parts)}.{joined}"


def _tested(methods: Sequence[MethodStanding], d: int, noun: str) -> str:
    """Who is better than random here, where that was tested; else what a test would cost."""
    if math.isnan(methods[0].p):
        more = draws_needed(len(methods))
        rows = f", about {(more - methods[0].draws) * _default_rows(d):,} more model inputs" if d else ""
        them = "this method" if len(methods) == 1 else f"these {len(methods)} methods"
        return f"To test whether {them} beat chance on one {noun} takes --draws {more}{rows}."
    better = [one for one in methods if one.p <= ALPHA]
    if not better:
        return f"No method is proven better than random orders on this {noun} (p > 0.05, Holm)."
    names = listed([f"{one.method} (p {_p_value(one)})" for one in better])
    rest = [one.method for one in methods if one.p > ALPHA]
    less = f" Not proven better: {', '.join(rest)}." if rest else ""
    return f"Better than random orders on this {noun}: {names}, corrected for {len(methods)} methods.{less}"


def _p_value(one: MethodStanding) -> str:
    """A method that beat all orders has the smallest p that so many orders allow: it may be smaller."""
    return f"{'≤' if one.beat == one.draws else '='} {one.p:.2g}"


def _default_rows(d: int) -> int:
    """Of METRICS, per order; a stored run is read without the registry, and so without torch."""
    from heedful.metrics.faithfulness import bin_counts

    return len(METRICS) * len(set(bin_counts(d)))


def _removed(evidence: Sequence[Evidence], items: Sequence[Attribution], parts: str) -> str:
    """By what the evidence removes them, and by what the methods that remove some do."""
    here = next((e.operator for e in evidence if e.operator), "")
    own: dict[tuple[str, ...], list[str]] = {}
    for item in items:
        if item.fitted_by:
            own.setdefault(item.fitted_by, []).append(item.method)
    if not here:
        return ""
    same = [name for operators, names in own.items() if here in operators for name in names]
    fitted = [f"{listed(names)} by {listed(list(ops))}" for ops, names in own.items() if here not in ops]
    by = f"The evidence removes {parts} by {here}"
    by += f"; fitted: {'; '.join(fitted)}" if fitted else ""
    if same:
        are = "was" if len(same) == 1 else "were"
        return f"{by}. {listed(same)} {are} fitted by {here} too, so not judged here."
    return f"{by}."
