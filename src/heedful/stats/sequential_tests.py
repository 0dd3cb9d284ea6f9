"""The same claims, looked at after every text: tests by betting and intervals that hold at all times.

Better than random: a bet on g = 2w - 1, which has mean 0 or less for a method that is not better,

    E_t = prod (1 + λ_t g_t),   λ_t = clip(m1 / m2, 0, 0.9)
    m1  = (Σ g + 1/2) / (t + 2),   m2 = (Σ g² + 2/3) / (t + 2)       over the texts before t

E is a fair game at best, so it ever reaches 1/p with probability p at most (Ville): p = 1 / max E, whenever
one stops. Holm over methods as ever. The same bet on (0.6 - w) shows that a share lies below 0.6.

Which is best: z_i - z_j has mean μ; at all times at once, with probability 1 - α,

    μ > mean - sd sqrt( 2 (n ρ² + 1) / (n² ρ²) · ln( sqrt(n ρ² + 1) / (2 α) + 1 ) )

one-sided, α = 2.5 % over the M - 1 comparisons with the best, ρ tuned to TUNED_TEXTS. It holds for many
texts by a strong law (Waudby-Smith et al. 2024); bench/verdicts measures the rate from MIN_COMPARED_TEXTS on.

Texts must come in random order. Waudby-Smith & Ramdas 2024 (betting); Robbins 1970 (mixtures).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from heedful.core.arrays import Floats
from heedful.stats.best_comparison import ALPHA, BestComparison, decide, differences, sparse_low

MAX_BET = 0.9  # of what is there: a bet of everything can be lost for ever
SETTLED_SHARE = 0.6  # a share below this is settled: too small to be looked for any longer
TUNED_TEXTS = 30


def betting_p(gains: Floats) -> Floats:
    """(n, M) gains in [-1, 1], mean 0 or less if there is nothing to claim -> (M,) p values at every stop."""
    return (
        np.exp(-np.maximum.accumulate(_wealth(gains), axis=0)[-1]) if len(gains) else np.ones(gains.shape[1])
    )


def _wealth(gains: Floats) -> Floats:
    """(n, M) logarithms of the stakes, 0 at the start."""
    n = np.arange(len(gains))[:, None]
    before = np.cumsum(gains, axis=0) - gains
    squares = np.cumsum(np.square(gains), axis=0) - np.square(gains)
    bet = np.clip(((before + 0.5) / (n + 2)) / ((squares + 2 / 3) / (n + 2)), 0.0, MAX_BET)
    values: Floats = np.maximum(np.cumsum(np.log1p(bet * gains), axis=0), 0.0)
    return values


def better_p(w: Floats) -> Floats:
    """p values of "beats more than half of the random orders"; w (n, M) shares."""
    return betting_p(2 * w - 1)


def below_p(w: Floats) -> Floats:
    """p values of "beats less than 60 % of the random orders"."""
    return betting_p(np.clip((SETTLED_SHARE - w) / SETTLED_SHARE, -1.0, 1.0))


def best_at_all_times(z: Floats, level: float = ALPHA) -> BestComparison:
    """As best_methods, but valid at whatever text one stops; z (n, M)."""
    n, m = z.shape
    mean, error = differences(z)
    # none of n: the limit of the share holds at all times; some of n: a quarter of the level pays for looking
    sparse = np.minimum(sparse_low(z, level), np.where(_worse(z), sparse_low(z, level / 4), np.inf))
    return decide(mean, error, np.full(m, reach(n, level_of(m, level))), sparse)


def _worse(z: Floats) -> npt.NDArray[np.bool_]:
    """(M, M) whether i is worse than j on any text."""
    return np.stack([np.asarray(np.any(z[:, [i]] < z, axis=0)) for i in range(z.shape[1])])


def level_of(methods: int, level: float = ALPHA) -> float:
    """Of one comparison with the best."""
    return level / max(methods - 1, 1)


def reach(n: int, level: float) -> float:
    """Standard errors by which a mean of n may ever lie off, at `level`, on one side."""
    rho = (-2 * np.log(2 * level) + np.log(1 - 2 * np.log(2 * level))) / TUNED_TEXTS  # ρ²
    grown = n * rho + 1
    return float(np.sqrt(2 * grown / (n * rho) * np.log(np.sqrt(grown) / (2 * level) + 1)))
