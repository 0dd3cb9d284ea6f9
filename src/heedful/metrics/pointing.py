"""Does the explanation point at the thing? A mask says, for each atom, whether it belongs to the thing.

    pointing        1 if the highest score lies in the mask, else 0; atoms that share the highest score
                    share the hit
    pointing-mass   share of the positive scores that lies in the mask
    pointing-iou    |A and M| / |A or M|,  M the mask, A the highest scores, as many as M has atoms. Of atoms
                    with equal scores at the border of A, the expected number is counted

A score of a unit is painted on all its atoms for the first and the third; its sum is spread evenly over them
for the second. Scores without any positive one point nowhere and count as chance. Where a text stands
beside what the mask shows, its words are left out: of the scores, of the mask and of chance.

Three controls stand beside each number. Chance by area, with a = |M| / atoms: a, a and a / (2 - a); a
constant map has these values, and random scores have them on average (for the third nearly). Random
scores, drawn as for every metric. And the method `centre`, a bump in the middle: things are often in the
middle, and a map that is no better than this bump was not shown to find them.

This is not a measure of truth, as with rationales: a model may use the background. A mask that is empty or
covers everything has no value (nan). Cost: no model inputs.

Zhang et al. 2016 (pointing game); Wang et al. 2020 (energy-based pointing game).
"""

from __future__ import annotations

import numpy as np

from heedful.core.arrays import Floats
from heedful.core.attribution import Attribution
from heedful.core.registry import metric
from heedful.metrics.metric_input import Mask, MetricInput
from heedful.metrics.random_orders import merged_scores

NOWHERE = float("nan")


def _mask(subject: MetricInput) -> Mask | None:
    """(n,) of the atoms that can belong to the thing; None if no or all of them do."""
    if subject.mask is None:
        return None
    mask = subject.mask[: subject.item.x.mask_length]
    return None if not mask.any() or mask.all() else mask


def area(subject: MetricInput) -> float:
    """Share of the atoms that the mask has: chance."""
    mask = _mask(subject)
    return NOWHERE if mask is None else float(mask.mean())


def area_iou(subject: MetricInput) -> float:
    """The overlap that as many atoms drawn at random have with the mask: chance."""
    return area(subject) / (2 - area(subject))


@metric(
    "pointing", kind="re-explain", better="high", best=1.0, cite="Zhang et al. 2016", masks=True, chance=area
)
def pointing(subject: MetricInput, rng: np.random.Generator) -> float:
    """Whether the highest score lies in the mask; the mean over inputs is the hit rate.

    Limitations: One place decides. A model may use the background, and then a correct explanation misses.
    """
    mask = _mask(subject)
    return NOWHERE if mask is None else hit(painted(subject.item)[: len(mask)], mask)


@metric(
    "pointing-mass",
    kind="re-explain",
    better="high",
    best=1.0,
    cite="Wang et al. 2020",
    masks=True,
    chance=area,
)
def pointing_mass(subject: MetricInput, rng: np.random.Generator) -> float:
    """Share of the positive scores that lies in the mask.

    Limitations: Coarse and smooth maps leak over the border. A model may use the background, and then a
    correct explanation has a bad value.
    """
    mask = _mask(subject)
    return NOWHERE if mask is None else mass(spread(subject.item)[: len(mask)], mask)


@metric(
    "pointing-iou",
    kind="re-explain",
    better="high",
    best=1.0,
    cite="Zhang et al. 2016",
    masks=True,
    chance=area_iou,
)
def pointing_iou(subject: MetricInput, rng: np.random.Generator) -> float:
    """Overlap (IOU) of the highest scores, as many as the mask has places, with the mask.

    Limitations: A model needs only a part of the thing, often its head; then the value stays below 1.
    """
    mask = _mask(subject)
    return NOWHERE if mask is None else overlap(painted(subject.item)[: len(mask)], mask)


def painted(item: Attribution) -> Floats:
    """(atoms,) each atom has the score of its unit; atoms of no unit have the lowest score."""
    if item.over == item.x.atom:
        return item.scores
    return np.append(item.scores, item.scores.min(initial=0.0))[item.x.units(item.over).owner]


def spread(item: Attribution) -> Floats:
    """(atoms,) the score of a unit, divided evenly among its atoms."""
    return item.scores if item.over == item.x.atom else item.x.units(item.over).spread(item.scores)


def hit(scores: Floats, mask: Mask) -> float:
    """Share of the atoms with the highest score that lie in the mask."""
    scores = merged_scores(scores)
    return float(mask[scores == scores.max()].mean()) if scores.max() > 0 else float(mask.mean())


def mass(scores: Floats, mask: Mask) -> float:
    """Share of the positive scores in the mask; chance where there is none."""
    positive = np.maximum(scores, 0)
    total = float(positive.sum())
    return float(positive[mask].sum()) / total if total > 0 else float(mask.mean())


def overlap(scores: Floats, mask: Mask) -> float:
    """IOU of the mask and as many of the highest scores; atoms that tie at the border count in part."""
    scores, count = merged_scores(scores), int(mask.sum())
    border = np.sort(scores)[-count]
    above, tied = scores > border, scores == border
    both = float((above & mask).sum() + (count - above.sum()) * mask[tied].mean())
    return both / (2 * count - both)
