"""Is a method better than a control, input by input? A one-sided test of paired differences.

    d[t]    = z of the method - z of the control on input t
    flips   p = (1 + #{mean of s d >= mean of d}) / (1 + draws)      s: signs +1 or -1, drawn per input
    draws   p = (1 + #{T* >= T}) / (1 + draws)                       T* of inputs drawn again (bootstrap-t)
    p       the larger of the two

A method that can change places with the control on every input has symmetric differences, and the flips are
exact. The second p is for differences that are skewed with mean 0. Many inputs: the law of T is known.

Looked at after every input, by the bound of heedful.stats.sequential_tests: p is the smallest level at which
the bound lies above 0.
"""

from __future__ import annotations

import numpy as np
from scipy import special

from heedful.core.arrays import Floats
from heedful.stats.best_comparison import CHUNK_DRAWS, MAX_RESAMPLED_TEXTS
from heedful.stats.intervals import bootstrap_t
from heedful.stats.sequential_tests import reach

DRAWS = 20_000
TIE_TOLERANCE = 1e-9  # sums in another order must not break a tie
HALVINGS = 60  # of the level that is looked for


def paired_p(gaps: Floats, seed: int = 0, draws: int = DRAWS) -> Floats:
    """(n, K) differences, one column per comparison -> (K,) p values, not corrected."""
    n, count = gaps.shape
    if n < 2:
        return np.ones(count)
    mean, error = gaps.mean(0), gaps.std(0, ddof=1) / np.sqrt(n)
    spread = error > TIE_TOLERANCE * np.abs(mean)  # without spread there is nothing to draw again
    t = mean / np.where(spread, error, 1.0)
    if n > MAX_RESAMPLED_TEXTS:
        return np.where(spread, special.stdtr(n - 1, -t), np.where(mean > 0, 0.0, 1.0))
    rng = np.random.default_rng([seed, n, count])
    slack = TIE_TOLERANCE * np.abs(gaps).max(0, initial=0.0)
    flipped, drawn = np.zeros(count), np.zeros(count)
    for first in range(0, draws, CHUNK_DRAWS):
        size = min(CHUNK_DRAWS, draws - first)
        signs = rng.choice(np.array([-1.0, 1.0]), size=(size, n))
        times = rng.multinomial(n, np.full(n, 1 / n), size).astype(np.float64)
        flipped += (signs @ gaps / n >= mean - slack).sum(0)
        away, own = bootstrap_t(gaps, times)
        drawn += (away / np.where(spread, own, 1.0) >= t - TIE_TOLERANCE).sum(0)
    larger = np.maximum(flipped, np.where(spread, drawn, 0.0))
    values: Floats = (1 + larger) / (1 + draws)
    return values


def paired_p_at_all_times(gaps: Floats) -> Floats:
    """The same, valid at whatever input one stops."""
    n, count = gaps.shape
    if n < 2:
        return np.ones(count)
    mean, error = gaps.mean(0), gaps.std(0, ddof=1) / np.sqrt(n)
    far = np.where(error > TIE_TOLERANCE * np.abs(mean), mean / np.where(error > 0, error, 1.0), 0.0)
    return np.array([_level_of(float(value), n) for value in far])


def _level_of(t: float, n: int) -> float:
    """The smallest level whose bound t standard errors reach; 1 where none below one half does."""
    low, high = -200.0, float(np.log(0.49))  # logarithms; the bound is made for levels below one half
    if t < reach(n, float(np.exp(high))):
        return 1.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if t >= reach(n, float(np.exp(middle))) else (middle, high)
    return float(np.exp(high))
