"""Does the model react as the explanation says? Words are removed to test it; f is the explained number.

a: one score per unit. top_k: the k units with the highest score. e_i = (f(x) - f(x without i))^2.

    comprehensiveness     mean over 1, 5, 10, 20, 50 % of   f(x) - f(x without top_k)           high is good
    sufficiency           the same bins of                  f(x) - f(top_k alone)               low
    aopc                  area over the deletion curve, 1/(L+1) sum_k f(x) - f(x without top_k) high
    insertion             area over the curve of top_k alone, the same sum                      low
    monotonicity          Spearman correlation of |a_i| and e_i                                 high
    non-sensitivity       share of units where exactly one of a_i and e_i is zero               low
    effective-complexity  share of units that must be kept, largest |a| first, until the loss
                          (f(x) - f)^2 / (f(x) - f(nothing))^2, with the other units removed at
                          random, is below 0.1                                                  low
    infidelity            mean (b m.a - (f(x) - f(x without m)))^2 / mean (f(x) - f(x without m))^2, m a
                          random set of units, b >= 0 the best scale                            low

A metric here is a plan: the model inputs it needs, and a function of their outputs. The plans of all methods
and random orders run together, so an input that two of them need runs once (heedful.metrics.score).
Texts with removed words are unlike the training texts: every number is valid only for its removal operator.

DeYoung et al. 2020 (ERASER); Samek et al. 2017 (AOPC); Nguyen & Martinez 2020; Yeh et al. 2019.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import stats

from heedful.core.arrays import Floats
from heedful.core.model import Masks
from heedful.core.registry import metric
from heedful.metrics.random_orders import merged_scores
from heedful.stats.lime_limit import Indices
from heedful.stats.rounding import merged

BINS = (0.01, 0.05, 0.1, 0.2, 0.5)
MAX_CURVE_POINTS = 20  # most points of a curve
TOSS_DRAWS = 8  # draws of the units that are not fixed
INFIDELITY_SETS = 64  # random sets of infidelity
MAX_LOST_SHARE = 0.1  # effective complexity: the share of the squared change that may be left
NEGLIGIBLE_SHARE = 1e-6  # of the largest: what counts as nothing, far above rounding


@dataclass(frozen=True)
class Ends:
    """f(x) and f(nothing), and how far outputs may differ by rounding alone."""

    full: float
    empty: float
    step: float = 0.0


Finish = Callable[[Floats, Ends], float]


@dataclass(frozen=True)
class Probe:
    """Rows wanted (n, d), and the metric's value from their values."""

    keep: Masks
    finish: Finish


def ranked(scores: Floats, rng: np.random.Generator) -> Indices:
    """Units, highest score first; ties in random order, so that reading order is no advantage.

    Scores that differ by rounding alone are ties: a constant explanation has no order of its own.
    """
    shuffled = rng.permutation(len(scores))
    return shuffled[np.argsort(-merged_scores(scores)[shuffled], kind="stable")]


def tops(order: Indices, counts: Floats | list[int]) -> Masks:
    """(len(counts), d): True for the first k units of the order."""
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    return place[None, :] < np.asarray(counts)[:, None]


def bin_counts(d: int) -> list[int]:
    """Units in each bin, at least one."""
    return [max(1, int(np.ceil(share * d - 1e-9))) for share in BINS]


def curve_counts(d: int) -> list[int]:
    """0 .. d, thinned to MAX_CURVE_POINTS steps."""
    return sorted({round(k) for k in np.linspace(0, d, min(d, MAX_CURVE_POINTS) + 1).tolist()})


@metric(
    "comprehensiveness",
    kind="removal",
    better="high",
    cite="DeYoung et al. 2020",
    family="remove-top",
    goal="deletion",
)
def comprehensiveness(scores: Floats, rng: np.random.Generator) -> Probe:
    """How far the output falls when the top units are removed.

    Limitations: Inputs with removed units are unlike the training data: the output may fall only because they
    are unusual. The largest groups of removed units have the largest influence.
    """
    keep = ~tops(ranked(scores, rng), bin_counts(len(scores)))
    return Probe(keep, lambda values, ends: float(ends.full - values.mean()))


@metric(
    "sufficiency",
    kind="removal",
    better="low",
    cite="DeYoung et al. 2020",
    family="keep-top",
    goal="insertion",
)
def sufficiency(scores: Floats, rng: np.random.Generator) -> Probe:
    """How far the output falls when only the top units are kept.

    Limitations: A few units alone are neither a text nor a picture: the output may be only the model's prior
    (its output without information). With a strong prior every method looks good.
    """
    keep = tops(ranked(scores, rng), bin_counts(len(scores)))
    return Probe(keep, lambda values, ends: float(ends.full - values.mean()))


@metric("aopc", kind="removal", better="high", cite="Samek et al. 2017", family="remove-top", goal="deletion")
def aopc(scores: Floats, rng: np.random.Generator) -> Probe:
    """Mean fall of the output while units are removed, top unit first.

    Limitations: Inputs with removed units are unlike the training data: the output may fall only because they
    are unusual. The metric rewards methods that find what breaks the model.
    """
    keep = ~tops(ranked(scores, rng), curve_counts(len(scores)))
    return Probe(keep, lambda values, ends: float(ends.full - values.mean()))


@metric(
    "insertion",
    kind="removal",
    better="low",
    cite="Petsiuk, Das & Saenko 2018",
    family="keep-top",
    goal="insertion",
)
def insertion(scores: Floats, rng: np.random.Generator) -> Probe:
    """How far the output stays below that of the full input, on average, while units are added, top unit
    first.

    Limitations: A few units alone are neither a text nor a picture: the output may be only the model's prior
    (its output without information).
    """
    keep = tops(ranked(scores, rng), curve_counts(len(scores)))
    return Probe(keep, lambda values, ends: float(ends.full - values.mean()))


def _one_out(d: int) -> Masks:
    return ~np.eye(d, dtype=bool)


@metric(
    "monotonicity",
    kind="removal",
    better="high",
    cite="Nguyen & Martinez 2020",
    best=1.0,
    shuffled=True,
)
def monotonicity(scores: Floats, rng: np.random.Generator) -> Probe:
    """Rank correlation between the size of a score and the effect of removing its unit.

    Limitations: With many units, the effects of single ones are close to rounding errors. Redundant units
    have no effect at all.
    """
    size = merged_scores(np.abs(scores))

    def finish(values: Floats, ends: Ends) -> float:
        loss = merged(np.abs(ends.full - values), ends.step)  # in the order of the squares
        if len(size) < 2 or np.ptp(size) == 0 or np.ptp(loss) == 0:
            return 0.0  # an order without differences agrees with none
        return float(stats.spearmanr(size, loss).statistic)

    return Probe(_one_out(len(scores)), finish)


@metric(
    "non-sensitivity",
    kind="removal",
    better="low",
    cite="Nguyen & Martinez 2020",
    best=0.0,
    shuffled=True,
)
def non_sensitivity(scores: Floats, rng: np.random.Generator) -> Probe:
    """Share of units that have score zero but an effect, or another score but no effect.

    Limitations: A threshold decides what counts as zero. Methods that give every unit a small score get bad
    values.
    """
    silent = np.abs(scores) <= NEGLIGIBLE_SHARE * np.abs(scores).max(initial=0.0)

    def finish(values: Floats, ends: Ends) -> float:
        change = np.abs(ends.full - values)
        largest = max(abs(ends.full - ends.empty), float(change.max(initial=0.0)))
        return float(np.mean(silent != (change <= max(NEGLIGIBLE_SHARE * largest, ends.step))))

    return Probe(_one_out(len(scores)), finish)


@metric("effective-complexity", kind="removal", better="low", cite="Nguyen & Martinez 2020", goal="insertion")
def effective_complexity(scores: Floats, rng: np.random.Generator) -> Probe:
    """Share of units that must be kept to keep the output.

    Limitations: The threshold decides the value. If a model ignores most units, the value is small for every
    method.
    """
    counts = curve_counts(len(scores))
    fixed = tops(ranked(np.abs(scores), rng), counts)  # (K, d)
    tossed = rng.random((len(counts), TOSS_DRAWS, len(scores))) < 0.5
    keep = (fixed[:, None] | tossed).reshape(-1, len(scores))

    def finish(values: Floats, ends: Ends) -> float:
        scale = max((ends.full - ends.empty) ** 2, np.finfo(float).tiny)
        loss = np.square(ends.full - values).reshape(len(counts), TOSS_DRAWS).mean(1) / scale
        enough = next((k for k, left in zip(counts, loss, strict=True) if left < MAX_LOST_SHARE), len(scores))
        return enough / len(scores)

    return Probe(keep, finish)


@metric("infidelity", kind="removal", better="low", cite="Yeh et al. 2019", best=0.0, shuffled=True)
def infidelity(scores: Floats, rng: np.random.Generator) -> Probe:
    """How badly the scores predict the effect of removing random sets of units.

    Limitations: Random sets of half of the words say little about single words. If all scores have the same
    sign, they predict that removing more words has more effect. This is trivial, so the control is the
    method's own scores, shuffled.
    """
    keep = rng.random((INFIDELITY_SETS, len(scores))) < rng.random((INFIDELITY_SETS, 1))  # all sizes alike

    def finish(values: Floats, ends: Ends) -> float:
        result, done = (~keep) @ scores, ends.full - values
        if not (done @ done):
            return 0.0
        fit, size = float(result @ done), float(result @ result)
        scale = max(fit, 0.0) / size if size else 0.0  # a sign is never forgiven
        return float(np.mean(np.square(scale * result - done)) / np.mean(np.square(done)))

    return Probe(keep, finish)
