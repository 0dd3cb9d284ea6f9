"""Is a method better than random orders? An exchange test over texts, exact for a method that knows nothing.

    s[t,k]  = w[t,k] - 1/2                          k = 0 the method, 1..B the random orders of text t
    V       = sum_t mean_k s[t,k]^2
    T(k)    = sum_t s[t,k_t] / sqrt(max(V, sum_t s[t,k_t]^2))
    p       = (1 + #{T(k) >= T(0)}) / (1 + draws)    k_t uniform on 0..B for each text

A method that knows nothing is one more random order: on each text it may change places with any of them, and
T is one of the draws. No law of the values is assumed, ties are no harm. The `max` keeps the rate for a
method that is right on half of the texts and the reverse on the others. Many texts: T is normal then.
The squares are about zero, not about the mean: about the mean, four methods that are right on half were
called better in 6 % of audits of 20 texts: a sample that leans one way also looks less spread out.

Not done, because it is wrong: flipping signs of s (rare events: up to 89 % false claims); the mean of B
orders as the control of one order (up to 65 %).
"""

from __future__ import annotations

import numpy as np
from scipy import special

from heedful.core.arrays import Floats

DRAWS = 20_000
MAX_DRAWN_VALUES = 20_000_000  # draws × texts; beyond it the normal law is as good
CHUNK_DRAWS = 500
TIE_TOLERANCE = 1e-9  # sums in another order must not break a tie


def exchange_p(s: Floats, seed: int = 0, draws: int = DRAWS) -> float:
    """p of one method; s (n, 1 + B), the method's own in the first column."""
    n, members = s.shape
    variance = float(np.square(s).mean(1).sum())
    if n < 2 or not variance > 0:
        return 1.0
    observed = float(_statistic(s[None, :, 0], variance)[0])
    if draws * n > MAX_DRAWN_VALUES:
        return float(special.ndtr(-observed))
    rng, reached, texts = np.random.default_rng([seed, n]), 0, np.arange(n)
    for first in range(0, draws, CHUNK_DRAWS):
        chosen = rng.integers(members, size=(min(CHUNK_DRAWS, draws - first), n))
        reached += int((_statistic(s[texts, chosen], variance) >= observed - TIE_TOLERANCE).sum())
    return (1 + reached) / (1 + draws)


def _statistic(chosen: Floats, variance: float) -> Floats:
    """(draws, n) -> (draws,)"""
    values: Floats = chosen.sum(1) / np.sqrt(np.maximum(variance, np.square(chosen).sum(1)))
    return values


def holm(p: Floats) -> Floats:
    """Adjusted p values: those at most α are claims of which any is false with probability at most α."""
    order = np.argsort(p, kind="stable")
    values = np.empty(len(p))
    values[order] = np.minimum(np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)), 1.0)
    return values
