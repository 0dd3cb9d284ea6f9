"""Which methods passed the test of this text, and in which order methods are offered.

Only a method that passed may shade the text or name words. The exception is the method that an audit of the
same model recommends. Where methods were tested and none passed, measured effects are shown instead.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from heedful.comparisons.result import Comparison
from heedful.comparisons.single_text import ALPHA, MethodStanding, standings
from heedful.core.defaults import CONTROLS, EFFECTS_ONLY
from heedful.core.internals import Removal

PREFERRED = ("occlusion", "lime", "integrated-gradients", "grad-x-input")  # where nothing was measured


def tested(methods: Sequence[MethodStanding]) -> bool:
    """There were enough random orders for a test."""
    return bool(methods) and not math.isnan(methods[0].p)


def passed(comparison: Comparison) -> list[MethodStanding]:
    """Methods that are better than random orders on this text, as they are offered; where there are too few
    orders for a test, those that beat all of them."""
    if comparison.settings.get(EFFECTS_ONLY):
        return []  # nobody asked for a method
    methods, order = standings(comparison.evidence), ordered(comparison)
    good = [one for one in methods if _beats(one, methods) and one.method not in CONTROLS]
    return sorted(good, key=lambda one: order.index(one.method) if one.method in order else len(order))


def _beats(one: MethodStanding, methods: Sequence[MethodStanding]) -> bool:
    return one.p <= ALPHA if tested(methods) else one.beat == one.draws


def passed_controls(comparison: Comparison) -> list[MethodStanding]:
    """Controls that beat random orders although they do not look at the model."""
    methods = standings(comparison.evidence)
    return [one for one in methods if one.method in CONTROLS and _beats(one, methods)]


def none_passed(comparison: Comparison) -> bool:
    """Methods were compared with random orders, none passed, and no audit recommends one of them."""
    if recommended(comparison) or not standings(comparison.evidence):
        return False
    return not passed(comparison)


def ordered(comparison: Comparison) -> list[str]:
    """Methods as they are offered: the recommended one, then by random orders beaten, then the fewest model
    inputs; the control last."""
    beat = {one.method: one.beat for one in standings(comparison.evidence)}
    use = recommended(comparison)

    def key(method: str) -> tuple[bool, bool, int, int, int]:
        place = PREFERRED.index(method) if method in PREFERRED else len(PREFERRED)
        cost = comparison[method].cost
        inputs = cost.forwards + cost.backwards
        return method in CONTROLS, method != use, -beat.get(method, -1), inputs if beat else place, place

    return sorted(comparison, key=key)


def shown_first(comparison: Comparison, most: int) -> list[str]:
    """The methods whose numbers are shown at first: those that passed, or all where nothing was tested."""
    order = [method for method in ordered(comparison) if method not in CONTROLS]
    if standings(comparison.evidence):
        good = {recommended(comparison), *(one.method for one in passed(comparison))}
        order = [method for method in order if method in good]
    return order[:most]


def recommended(comparison: Comparison) -> str:
    """The method of the audit that was given; "" where none was, or the method was not run."""
    use = str((comparison.settings.get("audit") or {}).get("use") or "")
    return use if use in list(comparison) else ""


def removal(comparison: Comparison) -> Removal | None:
    """The measured effects: by the operator of the evidence, else by the one that measured most words."""
    known = [r for r in comparison.internals.removals if any(map(math.isfinite, r.leave_one_out))]
    used = {e.operator for e in comparison.evidence}
    return max(
        known,
        key=lambda r: (r.operator in used, sum(map(math.isfinite, r.leave_one_out))),
        default=None,
    )


def largest_effect(measured: Removal) -> float:
    """The size of the largest effect; 0 where nothing was measured."""
    return max((abs(v) for v in measured.leave_one_out if math.isfinite(v)), default=0.0)


def nothing_changes(comparison: Comparison) -> bool:
    """Every removal that was run left the output as it was, of single units and of many."""
    known = [r for r in comparison.internals.removals if any(map(math.isfinite, r.leave_one_out))]
    return bool(known) and not any(_changes(measured) for measured in known)


def _changes(measured: Removal) -> bool:
    curves = (*measured.curves.values(), *measured.insertions.values())
    values = [value for curve in curves for _, value in curve]
    values += [value for _, *ends in (*measured.band, *measured.insertion_band) for value in ends]
    return largest_effect(measured) > 0 or len(set(values)) > 1
