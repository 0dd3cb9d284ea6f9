"""Every interval of the package: 95 %, of means, shares, ratios and medians, alone or of many together.

    student          mean ± t s/√n, t at 1 - 0.05/(2 claims): Bonferroni. For few independent draws
    mean_of          the same of one row of numbers, cut to the range the number can have
    share_of         Clopper-Pearson: exact for yes and no, and not of width zero when all say the same
    two_way_mean     mean over seeds and texts, se² = var(mean by seed)/seeds + var(mean by text)/texts,
                     Student's t at Satterthwaite's degrees of freedom
    bootstrap        any statistic of units drawn again with repetition; percentile_interval is its 95 %
    max_t            mean ± c s/√n, c the 95 % quantile of max over columns |m* - m| / s*, never below
                     Bonferroni's t: the chance that even one column's interval misses is about 5 %
    sign_flips       p of each column: how often the largest |t| of all columns, with the sign of each unit's
                     numbers drawn at random, reaches this column's |t|

Clopper & Pearson 1934; Satterthwaite 1946; Westfall & Young 1993 (max-t); Romano & Wolf 2005;
Nichols & Holmes 2002 (sign flips).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

from heedful.core.arrays import Floats

LEVEL = 0.95
TAILS = (0.025, 0.975)
NORMAL_QUANTILE = 1.96  # standard errors on each side of a normal 95 % interval
DRAWS, CHUNK_DRAWS = 2000, 200  # a chunk at a time: many units would need a lot of memory
MIN_DRAW_ERROR = 0.5  # standard errors, the least a draw's own may be: a lucky draw must not decide for all
Interval = tuple[float, float]
Counts = npt.NDArray[np.int64]
WHOLE, UNIT, SIGNED = (-math.inf, math.inf), (0.0, 1.0), (-1.0, 1.0)  # any number, shares, correlations
POSITIVE = (0.0, math.inf)  # errors, distances
UNKNOWN = (math.nan, math.nan)


@dataclass(frozen=True, eq=False)
class Band:
    """Means (M,), each with an interval."""

    mean: Floats
    low: Floats
    high: Floats


# --- Student --------------------------------------------------------------------------------------------


def student_quantile(freedom: float, claims: int = 1, level: float = LEVEL) -> float:
    """Half-width, in standard errors, of each of `claims` intervals that are simultaneous at the given
    `level`."""
    return float(special.stdtrit(freedom, 1 - (1 - level) / max(claims, 1) / 2))


def student(values: Floats, claims: int) -> Band:
    """Means of independent values (n, M) with Student's intervals. They are simultaneous for `claims`
    intervals."""
    n = len(values)
    mean = values.mean(0)
    if n < 2:
        return Band(mean, np.full_like(mean, -np.inf), np.full_like(mean, np.inf))
    reach = student_quantile(n - 1, claims) * values.std(0, ddof=1) / np.sqrt(n)
    return Band(mean, mean - reach, mean + reach)


def mean_of(values: npt.ArrayLike, limits: Interval = WHOLE, claims: int = 1) -> tuple[float, Interval]:
    """Mean and 95 % interval of independent values (n,). The interval is cut to `limits`, such as UNIT for
    shares."""
    band = student(np.asarray(values, dtype=np.float64)[:, None], claims)
    low, high = float(band.low[0]), float(band.high[0])
    return float(band.mean[0]), (max(low, limits[0]), min(high, limits[1]))


def nanmean_of(values: npt.ArrayLike, limits: Interval = WHOLE, claims: int = 1) -> tuple[float, Interval]:
    """`mean_of` for the finite values only."""
    every = np.asarray(values, dtype=np.float64)
    finite = every[np.isfinite(every)]
    return mean_of(finite, limits, claims) if len(finite) else (math.nan, UNKNOWN)


# --- yes and no -----------------------------------------------------------------------------------------


def share_of(hits: npt.ArrayLike, claims: int = 1) -> tuple[float, Interval]:
    """Share of True among `hits` (n,), and its interval (Clopper & Pearson 1934)."""
    each = np.asarray(hits, dtype=bool)
    return share_of_count(int(each.sum()), len(each), claims)


def share_of_count(k: int, n: int, claims: int = 1) -> tuple[float, Interval]:
    """The share k / n, and its interval (Clopper & Pearson 1934)."""
    if not n:
        return math.nan, UNKNOWN
    tail = (1 - LEVEL) / max(claims, 1) / 2
    low = 0.0 if k == 0 else float(special.betaincinv(k, n - k + 1, tail))
    return k / n, (low, 1.0 if k == n else float(upper_share(np.array(k), n, tail)))


def upper_share(k: npt.NDArray[np.int64], n: int, tail: float) -> Floats:
    """Clopper & Pearson's upper limits of the shares k / n, each exceeded with probability `tail`."""
    limits: Floats = special.betaincinv(k + 1.0, np.maximum(n - k, 1e-9), 1 - tail)
    return limits


# --- seeds and texts ------------------------------------------------------------------------------------


def summed_error(parts: Sequence[tuple[float, int]]) -> tuple[float, float]:
    """(standard error, degrees of freedom) of a mean from the parts (variance, degrees of freedom) of its
    variance, not all zero; Satterthwaite 1946."""
    total = sum(variance for variance, _ in parts)
    return math.sqrt(total), total**2 / sum(variance**2 / freedom for variance, freedom in parts)


def variance(values: Floats) -> float:
    return float(values.var(ddof=1)) if len(values) > 1 else 0.0


def two_way_mean(
    values: Floats, limits: Interval = WHOLE, seed_factor: float = 1.0
) -> tuple[float, Interval]:
    """Mean and interval of values (k, n) for k seeds and n texts. `seed_factor` multiplies the variance over
    seeds."""
    k, n = values.shape
    seeds = seed_factor * variance(values.mean(1)) / k
    texts = variance(values.mean(0)) / n
    return float(values.mean()), two_way_interval(float(values.mean()), (seeds, k), (texts, n), limits)


def two_way_interval(
    value: float, seeds: tuple[float, int], texts: tuple[float, int], limits: Interval = WHOLE
) -> Interval:
    """Around a value whose variance has two parts, each with the number of units it was estimated from.

    A single seed says nothing about seeds: the interval is then over texts alone. No variance at all is no
    certainty: a share of 0 or 1 gets the exact interval over texts (Clopper-Pearson), another number its
    limits. Only where it has none (differences) the value stands alone: all texts agree."""
    parts = [(part, units - 1) for part, units in (seeds, texts) if units > 1]
    if not parts:
        return limits
    if not any(part for part, _ in parts):
        if limits == UNIT and value in UNIT:
            return share_of_count(texts[1] if value == 1.0 else 0, texts[1])[1]
        return (value, value) if limits == WHOLE else limits
    error, freedom = summed_error(parts)
    reach = student_quantile(freedom) * error
    return max(value - reach, limits[0]), min(value + reach, limits[1])


# --- units drawn again ----------------------------------------------------------------------------------


def resample_counts(
    n: int, seed: int, draws: int = DRAWS, chunk: int = CHUNK_DRAWS
) -> Iterator[npt.NDArray[np.int64]]:
    """(B, n) how often each of n units is drawn, chunk by chunk."""
    rng = np.random.default_rng(seed)
    for first in range(0, draws, chunk):
        yield rng.multinomial(n, np.full(n, 1 / n), min(chunk, draws - first))


def bootstrap(
    statistic: Callable[[Counts], Floats], n: int, seed: int, draws: int = DRAWS, chunk: int = CHUNK_DRAWS
) -> Floats:
    """Bootstrap values (draws, ...) of a statistic of n units. `statistic` maps counts (B, n) to values (B,
    ...)."""
    return np.concatenate([statistic(counts) for counts in resample_counts(n, seed, draws, chunk)])


def resampled_means(values: Floats, seed: int) -> Floats:
    """(DRAWS,) means of values (n,) drawn with repetition."""
    return bootstrap(lambda counts: counts @ values / len(values), len(values), seed, chunk=DRAWS)


def percentile_interval(
    draws: npt.ArrayLike, tails: Interval = TAILS, *, finite_only: bool = False
) -> Interval:
    """The central 95 % of draws (D,). With `finite_only`, draws that are not finite are left out."""
    values = np.asarray(draws, dtype=np.float64)
    if finite_only:
        values = values[np.isfinite(values)]
    if not len(values):
        return UNKNOWN
    low, high = np.quantile(values, tails)
    return float(low), float(high)


def bootstrap_ratio(over: Floats, under: Floats, seed: int) -> Interval:
    """95 % bootstrap interval of sum(over) / sum(under) over n units. Draws in which sum(under) is 0 are left
    out."""
    with np.errstate(invalid="ignore", divide="ignore"):
        ratios = bootstrap(lambda counts: (counts @ over) / (counts @ under), len(over), seed)
    return percentile_interval(ratios, ((1 - LEVEL) / 2, (1 + LEVEL) / 2), finite_only=True)


def bootstrap_median(values: Floats, seed: int, draws: int = 1000) -> Interval:
    """95 % of the median of values (n,) drawn with repetition."""
    chosen = np.random.default_rng(seed).integers(0, len(values), (draws, len(values)))
    return percentile_interval(np.median(values[chosen], axis=1))


def bootstrap_t(values: Floats, counts: npt.NDArray[np.int64] | Floats) -> tuple[Floats, Floats]:
    """(B, M) distances of the means of each draw from those of all, and the draw's own standard errors.

    Columns that differ on few units are drawn now and then without most of these; the tiny error left would
    decide for all others, hence MIN_DRAW_ERROR.
    """
    n = len(values)
    means = counts @ values / n
    error = np.sqrt(np.maximum(counts @ np.square(values) / n - np.square(means), 0.0) / (n - 1))
    whole = values.std(0, ddof=1) / np.sqrt(n)
    return means - values.mean(0), np.maximum(error, MIN_DRAW_ERROR * whole)


def max_t(values: Floats, seed: int) -> Band:
    """Simultaneous intervals of the M means of values (n, M), with one row per unit."""
    n, m = values.shape
    mean = values.mean(0)
    if n < 2:
        return Band(mean, np.full_like(mean, -np.inf), np.full_like(mean, np.inf))
    error = values.std(0, ddof=1) / np.sqrt(n)
    real = error > 1e-12 * np.abs(values).max(initial=0.0)  # what is the same everywhere has no reach

    def largest(counts: Counts) -> Floats:
        distance, spread = bootstrap_t(values, counts)
        t: Floats = (np.abs(distance) / np.where(real, spread, np.inf)).max(1, initial=0.0)
        return t

    critical = max(float(np.quantile(bootstrap(largest, n, seed), LEVEL)), student_quantile(n - 1, m))
    return Band(mean, mean - critical * error, mean + critical * error)


# --- signs flipped --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Flips:
    """What labels drawn at random would show."""

    p: Floats  # (M,) of each column, for all columns together
    largest: float  # 95 % quantile, over flips, of the largest |mean| of any column


def sign_flips(values: Floats, seed: int) -> Flips:
    """values (n, M): differences whose sign means nothing if the label means nothing."""
    rng, n = np.random.default_rng(seed), len(values)
    observed = _abs_t(values.mean(0)[None], values)[0]  # (M,)
    reach, largest = [], []
    for _ in range(0, DRAWS, CHUNK_DRAWS):
        means = rng.choice([-1.0, 1.0], (CHUNK_DRAWS, n)) @ values / n  # (B, M)
        reach.append(_abs_t(means, values).max(1, initial=0.0))
        largest.append(np.abs(means).max(1, initial=0.0))
    null = np.concatenate(reach)  # (D,)
    close = observed * (1 - 1e-9)  # the same number by another order of summation is reached
    p = (1 + (null[:, None] >= close).sum(0)) / (1 + len(null))
    return Flips(p, float(np.quantile(np.concatenate(largest), LEVEL)))


def _abs_t(means: Floats, values: Floats) -> Floats:
    """|t| of means (B, M); the sum of squares does not feel the signs."""
    n = len(values)
    squares = np.square(values).mean(0)  # (M,)
    spread = np.sqrt(np.maximum(squares - np.square(means), 1e-12 * squares) / max(n - 1, 1))
    with np.errstate(invalid="ignore", divide="ignore"):
        t: Floats = np.abs(means) / spread
    return np.where(squares > 0, t, 0.0)
