"""How sure: intervals over draws, sentences or templates, wide enough for all heads together.

    student      mean ± t s/√n, t at 1 - 0.05/(2 claims): Bonferroni. For few independent draws
    share_of     Clopper-Pearson: exact for yes and no, and not of width zero when all say the same
    bootstrap    95 % of a ratio of sums over units drawn again with repetition
    max_t        mean ± c s/√n, c the 95 % quantile of max over heads |m* - m| / s*, never below Bonferroni's
                 t: the chance that even one head's interval misses is about 5 %
    sign_flips   p of each head: how often the largest |t| of all heads, with the sign of each unit's numbers
                 drawn at random, reaches this head's |t|

Clopper & Pearson 1934; Westfall & Young 1993 (max-t); Romano & Wolf 2005; Nichols & Holmes 2002 (sign flips).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

from heedful.core.arrays import Floats

LEVEL = 0.95
DRAWS, CHUNK = 2000, 200  # a chunk at a time: many units would need a lot of memory
LEAST = 0.5  # of a standard error, the least a draw's own may be: a lucky draw must not set the bar for all
Interval = tuple[float, float]
WHOLE, UNIT, SIGNED = (-math.inf, math.inf), (0.0, 1.0), (-1.0, 1.0)  # any number, shares, correlations


@dataclass(frozen=True, eq=False)
class Band:
    """Means (M,) with an interval each."""

    mean: Floats
    low: Floats
    high: Floats


def student(values: Floats, claims: int) -> Band:
    """values (n, M): independent draws; `claims` intervals that shall hold together."""
    n = len(values)
    mean = values.mean(0)
    if n < 2:
        return Band(mean, np.full_like(mean, -np.inf), np.full_like(mean, np.inf))
    reach = _bonferroni(n, claims) * values.std(0, ddof=1) / np.sqrt(n)
    return Band(mean, mean - reach, mean + reach)


def mean_of(values: npt.ArrayLike, limits: Interval = WHOLE) -> tuple[float, Interval]:
    """(mean, 95 %) of independent draws (n,), as a claim of a lab wants them; cut to the range the number can
    have, such as UNIT for shares."""
    band = student(np.asarray(values, dtype=np.float64)[:, None], 1)
    low, high = float(band.low[0]), float(band.high[0])
    return float(band.mean[0]), (max(low, limits[0]), min(high, limits[1]))


def share_of(hits: npt.ArrayLike, claims: int = 1) -> tuple[float, Interval]:
    """(share, interval) of yes and no (n,); Clopper & Pearson 1934."""
    told = np.asarray(hits, dtype=bool)
    n, k = len(told), int(told.sum())
    if not n:
        return math.nan, (math.nan, math.nan)
    tail = (1 - LEVEL) / max(claims, 1) / 2
    low = 0.0 if k == 0 else float(special.betaincinv(k, n - k + 1, tail))
    high = 1.0 if k == n else float(special.betaincinv(k + 1, n - k, 1 - tail))
    return k / n, (low, high)


def _bonferroni(n: int, claims: int) -> float:
    return float(special.stdtrit(n - 1, 1 - (1 - LEVEL) / max(claims, 1) / 2))


def drawn(n: int, seed: int, draws: int = DRAWS) -> Iterator[npt.NDArray[np.int64]]:
    """(B, n) how often each unit is drawn, chunk by chunk."""
    rng = np.random.default_rng(seed)
    for first in range(0, draws, CHUNK):
        yield rng.multinomial(n, np.full(n, 1 / n), min(CHUNK, draws - first))


def bootstrap(over: Floats, under: Floats, seed: int) -> Interval:
    """95 % of sum(over) / sum(under), units (n,) drawn with repetition; draws with no `under` are left."""
    parts = []
    for times in drawn(len(over), seed):
        with np.errstate(invalid="ignore", divide="ignore"):
            parts.append((times @ over) / (times @ under))
    again = np.concatenate(parts)
    low, high = np.quantile(again[np.isfinite(again)], [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def max_t(values: Floats, seed: int) -> Band:
    """values (n, M): one row per unit; intervals of the M means that hold together."""
    n, m = values.shape
    mean = values.mean(0)
    if n < 2:
        return Band(mean, np.full_like(mean, -np.inf), np.full_like(mean, np.inf))
    error = values.std(0, ddof=1) / np.sqrt(n)
    real = error > 1e-12 * np.abs(values).max(initial=0.0)
    least = np.where(real, LEAST * error, np.inf)  # what is the same everywhere has no reach
    reach = []
    for times in drawn(n, seed):
        again = times @ values / n  # (B, M)
        spread = np.sqrt(np.maximum(times @ np.square(values) / n - np.square(again), 0) / (n - 1))
        reach.append((np.abs(again - mean) / np.maximum(spread, least)).max(1, initial=0.0))
    critical = max(float(np.quantile(np.concatenate(reach), LEVEL)), _bonferroni(n, m))
    return Band(mean, mean - critical * error, mean + critical * error)


@dataclass(frozen=True, eq=False)
class Flips:
    """What labels drawn at random would show."""

    p: Floats  # (M,) of each head, for all heads together
    largest: float  # 95 % quantile, over flips, of the largest |mean| of any head


def sign_flips(values: Floats, seed: int) -> Flips:
    """values (n, M): differences whose sign means nothing if the label means nothing."""
    rng, n = np.random.default_rng(seed), len(values)
    seen = _abs_t(values.mean(0)[None], values)[0]  # (M,)
    reach, largest = [], []
    for _ in range(0, DRAWS, CHUNK):
        means = rng.choice([-1.0, 1.0], (CHUNK, n)) @ values / n  # (B, M)
        reach.append(_abs_t(means, values).max(1, initial=0.0))
        largest.append(np.abs(means).max(1, initial=0.0))
    null = np.concatenate(reach)  # (D,)
    close = seen * (1 - 1e-9)  # the same number by another order of summation is reached
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
