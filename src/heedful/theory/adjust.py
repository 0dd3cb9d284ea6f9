"""Regression adjustment: take out of the noise what a richer surrogate can predict.

A linear functional b(f) (LIME's limit, Shapley values) is estimated by a linear fit; its noise is the part
of f that is not linear in the mask z. So fit a surrogate g with interactions on the rows already run,
subtract its own exact linear explanation, and give the rest to the fit as one more regressor:

    h(z) = g(z) - b_0(g) - sum_j b_j(g) z_j,    b(h) = 0 exactly    =>    f ~ 1 + z + h estimates b(f)

whatever g is, and with less noise the better g is. h(z) of a row comes from a g that never saw its pair
(cross-fitting), so standard errors stay honest. No extra model row is run.

g is kernel ridge regression on the residual of the linear fit, with product kernels over words

    k(z, z') = prod_l (1 + theta_l t_l t'_l) / (1 + theta_l),    t = 2 z - 1

which hold interactions of every order, fewer of the higher. Under coin tosses their means are products, so
b(g) is exact for LIME and Shapley values alike. Three choices of theta are offered, and the fit mixes them.

Oates, Girolami & Chopin 2017 (control functionals); Chernozhukov et al. 2018 (cross-fitting).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from heedful.theory import lime_limit
from heedful.theory.lime_limit import Floats, Indices, Masks

FOLDS = 5
CENTRES = 1200  # most rows a surrogate learns from: cost grows with their cube
SMALL = 1e-7  # of the spread of the values: a surrogate below it has found nothing (float32 noise)
MOST = 0.9  # largest theta

Line = tuple[Floats, Floats]  # (b_0, b)
Explain = Callable[["Surrogate"], Line]


@dataclass(frozen=True)
class Surrogate:
    """g(z) = sum_i a_i k(z, z_i)."""

    centres: Floats  # t of the rows it learned from (n, d), +1 kept, -1 removed
    coefficients: Floats  # a (n,)
    theta: Floats  # (d,)

    def __call__(self, keep: Masks) -> Floats:
        return kernel(signs(keep), self.centres, self.theta) @ self.coefficients

    def coin_means(self, p: Floats) -> tuple[Floats, Floats, Floats]:
        """As lime_limit.CoinMeans."""
        tilt = np.outer(self.theta, 2 * p - 1)  # (d, P)
        up, down = np.log1p(tilt), np.log1p(-tilt)
        kept = (self.centres > 0).astype(np.float64)
        size = np.log1p(self.theta).sum()
        whole = np.exp(kept @ up + (1 - kept) @ down - size) * self.coefficients[:, None]  # (n, P)
        at_kept, at_gone = kept.T @ whole, (1 - kept).T @ whole  # (d, P)
        more, less = 1 + self.theta[:, None], 1 - self.theta[:, None]
        with_j = at_kept * more / (1 + tilt) + at_gone * less / (1 - tilt)
        without_j = at_kept * less / (1 + tilt) + at_gone * more / (1 - tilt)
        return whole.sum(0), with_j.T, without_j.T


def kernel(left: Floats, right: Floats, theta: Floats) -> Floats:
    """prod_l (1 + theta_l t_l t'_l)/(1 + theta_l), (n, d) x (m, d) -> (n, m), for t = +-1."""
    bend = np.arctanh(theta)
    return np.asarray(np.exp((left * bend) @ right.T - bend.sum()))


def signs(keep: Masks) -> Floats:
    """t = 2 z - 1."""
    return np.where(keep, 1.0, -1.0)


def lime_line(surrogate: Surrogate, nu: float) -> Line:
    """Its LIME limit."""
    d = len(surrogate.theta)
    everything = float(surrogate(np.ones((1, d), dtype=bool))[0])
    return lime_limit.limit_of_coins(surrogate.coin_means, everything, d, nu)


def shapley_line(surrogate: Surrogate) -> Line:
    """Its Shapley values, through its value with no word."""
    d = len(surrogate.theta)
    nothing = surrogate(np.zeros((1, d), dtype=bool))[0]
    return np.asarray(nothing), lime_limit.shapley_of_coins(surrogate.coin_means, d)


def controls(keep: Masks, values: Floats, weights: Floats, fold: Indices, explain: Explain) -> Floats:
    """(n, 0 to 3): cross-fitted h of each row; fold (n,) says which rows are left out together."""
    found = np.zeros((len(keep), len(KINDS)))
    for k in np.unique(fold):
        out = fold == k
        for kind, (theta_of, noise) in enumerate(KINDS):
            surrogate = learn(keep[~out], values[~out], weights[~out], theta_of, noise)
            b0, b = explain(surrogate)
            found[out, kind] = surrogate(keep[out]) - b0 - keep[out] @ b
    return found[:, found.std(0) > SMALL * values.std()]


def learn(
    keep: Masks, values: Floats, weights: Floats, theta_of: Callable[[Floats], Floats], noise: float
) -> Surrogate:
    """Kernel ridge regression on what a weighted linear fit leaves over; light rows count for little."""
    keep, values, weights = keep[:CENTRES], values[:CENTRES], weights[:CENTRES]
    root = np.sqrt(weights)
    design = np.column_stack([np.ones(len(keep)), keep])
    slopes = np.linalg.lstsq(design * root[:, None], values * root, rcond=None)[0]
    theta = theta_of(np.abs(slopes[1:]))
    centres = signs(keep)
    ridge = noise / np.maximum(weights / weights.mean(), 1e-3)
    gram = kernel(centres, centres, theta) + np.diag(ridge)
    return Surrogate(centres, np.linalg.solve(gram, values - design @ slopes), theta)


def _alike(slopes: Floats) -> Floats:
    return np.full(len(slopes), min(2.5 / len(slopes), MOST))


def _by_slope(slopes: Floats, most: float) -> Floats:
    """Words that matter alone are taken to matter together."""
    return most * np.maximum(slopes / max(float(slopes.max()), 1e-300), 1e-3)


KINDS: tuple[tuple[Callable[[Floats], Floats], float], ...] = (
    (_alike, 0.1),
    (partial(_by_slope, most=0.5), 0.03),
    (partial(_by_slope, most=MOST), 0.03),
)


def folds(pairs: int, certain: int, seed: int) -> Indices:
    """Fold of each row: pairs stay together; certain rows go with the first fold."""
    rng = np.random.default_rng([seed, pairs])
    return np.concatenate([np.repeat(rng.permutation(pairs) % FOLDS, 2), np.zeros(certain, dtype=np.int64)])
