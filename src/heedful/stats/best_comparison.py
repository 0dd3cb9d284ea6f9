"""Which methods may be the best, and by how much another may be better: comparisons with the best.

    T_jk     mean over texts of z_j - z_k, over its standard error
    c_k      97.5 % quantile of max_j T*_jk: signs flipped per text, or texts drawn again (bootstrap-t),
             whichever is larger
    G        the set of the best: k leaves it if max_j T_jk > c_k
    low_i    min over j in G, j != i, of mean(z_i - z_j) - c_j se_ij; at most 0

Two methods that agree on most texts have next to no standard error, and a text on which they differ may just
not have come. Where fewer than MIN_DIFFERING_TEXTS texts tell two methods apart, mean(z_i - z_j) is bounded
by

    - q d       q: upper limit (Clopper & Pearson) of the share of texts on which i is worse; d: range of z

Both claims need one event only: no method exceeds the true best by more than c_best standard errors. So "the
best is in G" and "no method is better than i by more than -low_i, for every i" hold together in about 97.5 %.

Below MIN_COMPARED_TEXTS nothing is claimed: a maximum over pairs of unequal shapes is exact for many texts
only (false in 30 % of audits at 10 texts).

Hsu 1984 (multiple comparisons with the best); Romano & Wolf 2005.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

from heedful.core.arrays import Floats
from heedful.stats.intervals import bootstrap_t, upper_share

ALPHA = 0.025
DRAWS, CHUNK_DRAWS = 4000, 500
MAX_RESAMPLED_TEXTS = 2_000  # texts; beyond it the normal law with Bonferroni's correction is as good
MIN_DIFFERING_TEXTS = 10  # texts that tell two methods apart; with fewer, their standard error means little


@dataclass(frozen=True)
class BestComparison:
    """Of M methods: who may be the best, and the most by which another may be better than each."""

    inside: npt.NDArray[np.bool_]  # (M,)
    gap: Floats  # (M,), 0 or more
    error: Floats  # (M, M) standard errors of the differences
    critical: Floats  # (M,)


def best_methods(z: Floats, seed: int = 0, draws: int = DRAWS, level: float = ALPHA) -> BestComparison:
    """z (n, M), one row per text."""
    n, m = z.shape
    mean, error = differences(z)
    critical = np.zeros(m)
    if m > 1:
        rng = np.random.default_rng([seed, n, m])
        critical = _critical_many(n, m, level) if n > MAX_RESAMPLED_TEXTS else _critical(z, rng, draws, level)
    return decide(mean, error, critical, sparse_low(z, level))


def differences(z: Floats) -> tuple[Floats, Floats]:
    """(M, M) means of z_j - z_k, and their standard errors."""
    n = len(z)
    mean = z.mean(0)[:, None] - z.mean(0)[None]
    covariance = np.atleast_2d(np.cov(z.T))
    spread = np.diag(covariance)
    square = spread[:, None] + spread[None] - 2 * covariance
    square[square < 1e-20 * np.maximum(spread[:, None] + spread[None], 1e-300)] = 0.0
    return mean, np.sqrt(square / n)


def sparse_low(z: Floats, level: float) -> Floats:
    """(M, M) lower limits of z_i - z_j where few texts tell the two apart; infinity elsewhere."""
    n, m = z.shape
    worse = np.stack([(z[:, [i]] < z).sum(0) for i in range(m)])
    few = np.stack([(z[:, [i]] != z).sum(0) for i in range(m)]) < MIN_DIFFERING_TEXTS
    q = upper_share(worse, n, level / max(m - 1, 1))
    return np.where(few, -q * float(np.ptp(z)), np.inf)


def decide(mean: Floats, error: Floats, critical: Floats, sparse: Floats | None = None) -> BestComparison:
    """`critical` (M,): by column, of the comparisons with that method; or (M, M)."""
    m = len(mean)
    reach = np.broadcast_to(critical, (m, m)) * error  # column k: how far chance may take z_j - z_k
    others = ~np.eye(m, dtype=bool)
    inside: npt.NDArray[np.bool_] = np.logical_not(np.any((mean > reach) & others, axis=0))
    least = mean - reach if sparse is None else np.minimum(mean - reach, sparse)
    low = np.where(inside[None] & others, least, 0.0).min(1, initial=0.0)
    return BestComparison(inside, np.abs(low), error, np.asarray(critical))  # low is 0 or less; no minus zero


def _critical_many(n: int, m: int, level: float) -> Floats:
    return np.full(m, float(special.stdtrit(n - 1, 1 - level / (m - 1))))


def _critical(z: Floats, rng: np.random.Generator, draws: int, level: float) -> Floats:
    """(M,) quantiles of the maximum over the others."""
    n, m = z.shape
    flipped, drawn = np.empty((draws, m)), np.empty((draws, m))
    for first in range(0, draws, CHUNK_DRAWS):
        here = slice(first, min(first + CHUNK_DRAWS, draws))
        signs = rng.choice(np.array([-1.0, 1.0]), size=(here.stop - first, n))
        times = rng.multinomial(n, np.full(n, 1 / n), here.stop - first).astype(np.float64)
        for k in range(m):
            gaps = np.delete(z, k, 1) - z[:, [k]]  # (n, M - 1)
            flipped[here, k] = _flipped(gaps, signs)
            drawn[here, k] = _ratio(*bootstrap_t(gaps, times)).max(1)
    quantile = 1 - level
    return np.maximum(
        np.quantile(flipped, quantile, axis=0, method="higher"),
        np.quantile(drawn, quantile, axis=0, method="higher"),
    )


def _flipped(gaps: Floats, signs: Floats) -> Floats:
    """(CHUNK_DRAWS,) largest t value with the signs of each text flipped at random."""
    n = len(gaps)
    mean = signs @ gaps / n
    square = np.maximum(np.square(gaps).sum(0) - n * np.square(mean), 0.0) / (n - 1)
    values: Floats = _ratio(mean, np.sqrt(square / n)).max(1)
    return values


def _ratio(mean: Floats, error: Floats) -> Floats:
    """0 where there is no spread: methods that copy each other differ nowhere."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(error > 1e-12 * np.abs(mean), mean / error, 0.0)
