"""Search: the deletion order that makes the output fall fastest, by beam search over removed sets.

A removal order j_1, j_2, ... has area sum_k f(x) - f(x without j_1..j_k); the beam keeps the sets with the
largest area so far. Its purpose is to be an upper limit: no explanation can be expected to do better on a
deletion metric. It is fitted to that metric, so never judge it by that metric.
goal="insertion" starts from an empty text and looks for the units that bring the output back soonest: the
area is then sum_k f(j_1..j_k alone) - f(nothing).

Scores are ranks, (d - k) / d for the unit that is removed (or added) k-th: only the order has a meaning.
Cost: `depth` steps, with at most beam * d model inputs per step. With `shortlist`, only the units with the
largest effect alone are tried: at most beam * `shortlist` model inputs per step. Sets that occur twice are
run once. Units that are left after `depth` steps follow in the order of their effect alone. Needs: values.
Zhou & Shah 2022 (the solvability of interpretability metrics).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from heedful.core.arrays import Floats
from heedful.core.attribution import Attribution
from heedful.core.errors import HeedfulError
from heedful.core.registry import explainer
from heedful.engine.question import Question
from heedful.stats.rounding import merged, rounding_step


@dataclass(frozen=True)
class Order:
    """Units removed so far, in order, and the area they have earned."""

    removed: tuple[int, ...] = ()
    area: float = 0.0


GOALS = ("deletion", "insertion")


def _rows(d: int, beam: int, depth: int, shortlist: int) -> tuple[int, int]:
    """With one order to grow at every step, and with `beam` of them that share no set."""
    later = sum(min(d - step, shortlist) for step in range(1, min(depth, d)))
    return 1 + d + later, 1 + d + beam * later


@explainer(
    "search",
    needs={"values"},
    takes=("unit", "operator"),
    cite="Zhou & Shah 2022",
    signed=False,
    expensive=True,
    rows=lambda x, target, p: _rows(len(x.units(p["unit"])), p["beam"], p["depth"], p["shortlist"]),
)
def search(
    q: Question, *, beam: int = 3, depth: int = 16, shortlist: int = 64, goal: str = "deletion"
) -> Attribution:
    """The best deletion order that a beam search finds: an upper limit for deletion metrics.

    Limitations: It is fitted to the same deletions that deletion metrics use. Use it as a limit for metrics,
    not as an explanation for people.
    """
    if beam < 1 or depth < 1 or shortlist < 1:
        raise HeedfulError("beam, depth and shortlist must be at least 1")
    if goal not in GOALS:
        raise HeedfulError(f"unknown goal {goal!r}", fix=f"Use one of: {', '.join(GOALS)}")
    count, deleting = len(q.x.units(q.unit)), goal == "deletion"
    edges = np.repeat([[True], [False]], count, axis=1)
    whole, nothing = q.values(edges if not deleting else edges[:1])[[0, -1]]
    orders = [Order()]
    singles = np.zeros(count)
    near = list(range(count))
    for step in range(min(depth, count)):
        grown = _grow(orders, near, shortlist if step else count)
        keep = _masks(grown, count)
        values = q.values(keep if deleting else ~keep)
        moved = whole - values if deleting else values - nothing
        least = rounding_step(q.model, values)
        if step == 0:
            singles = merged(moved, least)  # grown in unit order
            near = np.argsort(-singles, kind="stable").tolist()
        orders = _best(grown, moved, beam, (step + 1) * least)
    order = _completed(orders[0].removed, singles)
    ranks = np.empty(count)
    ranks[order] = (count - np.arange(count)) / count
    mean = orders[0].area / max(len(orders[0].removed), 1)  # special tokens alone: nothing to remove
    done = ("drop", "removals") if deleting else ("rise", "insertions")
    note = f"scores are ranks; mean {done[0]} over the first {len(orders[0].removed)} {done[1]}: {mean:.3g}"
    return q.answer(
        ranks,
        output=float(whole),
        notes=(note, f"fitted to {goal}: do not judge it by a metric of {goal}"),
    )


def _grow(orders: list[Order], units: list[int], shortlist: int) -> list[Order]:
    """Every order with one more of the first few units left; of two that moved the same set, the better,
    which comes first."""
    best: dict[frozenset[int], Order] = {}
    for order in orders:
        for unit in [unit for unit in units if unit not in order.removed][:shortlist]:
            grown = Order((*order.removed, unit), order.area)
            best.setdefault(frozenset(grown.removed), grown)
    return list(best.values())


def _masks(orders: list[Order], count: int) -> np.ndarray:
    keep = np.ones((len(orders), count), dtype=bool)
    for row, order in zip(keep, orders, strict=True):
        row[list(order.removed)] = False
    return keep


def _best(orders: list[Order], drops: Floats, beam: int, least: float) -> list[Order]:
    """Largest area first; areas no further apart than `least` are alike, and stay in the order given."""
    scored = [Order(order.removed, order.area + float(d)) for order, d in zip(orders, drops, strict=True)]
    areas = merged(np.array([order.area for order in scored]), least)
    return [scored[k] for k in np.argsort(-areas, kind="stable")[:beam]]


def _completed(removed: tuple[int, ...], singles: Floats) -> list[int]:
    rest = [unit for unit in np.argsort(-singles, kind="stable").tolist() if unit not in removed]
    return [*removed, *rest]
