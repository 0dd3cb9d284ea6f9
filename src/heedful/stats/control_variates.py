"""Regression adjustment: take out of the noise what a richer surrogate can predict.

A linear functional b(f) (LIME's limit, Shapley values) is estimated by a linear fit; its noise is the part
of f that is not linear in the mask z. So fit a surrogate g with interactions on the rows already run,
subtract its own exact linear explanation, and give the rest to the fit as one more regressor:

    h(z) = g(z) - b_0(g) - sum_j b_j(g) z_j,    b(h) = 0 exactly    =>    f ~ 1 + z + h estimates b(f)

whatever g is, and with less noise the better g is. No extra model row is run.

g is kernel ridge regression beside a free linear part, with product kernels over words

    k(z, z') = prod_l (1 + theta_l t_l t'_l) / (1 + theta_l),    t = 2 z - 1

which hold interactions of every order, fewer of the higher. Under coin tosses their means are products, so
b(g) is exact for LIME and Shapley values alike. Three choices of theta are offered, and the fit mixes them.

Standard errors stay honest because h of a row comes from a g that never saw its pair. With
C = K^-1 - K^-1 X (X'K^-1 X)^-1 X'K^-1, K = kernel + ridge, X = (1, z) and y the values, all these g come from
one inverse: a = C y has all rows, a - C_.u C_uu^-1 a_u has them without pair u.

Rows are drawn without repetition, so the other rows of a stratum are not like those g learned from, of which
a share of f = drawn/all there are. What stands for the stratum is therefore the blend

    (1 - f) h_without_own_pair + f (mean of h over all left-out pairs)

which has b = 0 for every f: at f = 1 it is one function run on every mask. Errors are those of the first.

Oates, Girolami & Chopin 2017 (control functionals); Chernozhukov et al. 2018 (cross-fitting); Dubrule 1983
(leaving out by one inverse).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy import linalg
from scipy.linalg import lapack

from heedful.stats import lime_limit
from heedful.stats.lime_limit import Floats, Masks

MAX_CENTRES = 1200  # most rows a surrogate learns from: cost grows with their cube
# of the spread of the values: a surrogate below it has found nothing (float32 noise)
MIN_SURROGATE_SPREAD = 1e-7
MIN_LEFT_OUT = 1e-6  # of C's diagonal: below it a pair alone determines a slope and cannot be left out
MAX_THETA = 0.9  # largest theta


@dataclass(frozen=True)
class Bumps:
    """n functions k(., z_i) of masks over d words."""

    centres: Floats  # t of z_i (n, d), +1 kept, -1 removed
    theta: Floats  # (d,)

    def __call__(self, keep: Masks) -> Floats:
        """(m, d) -> (m, n)."""
        bend = np.arctanh(self.theta)
        return np.asarray(np.exp((signs(keep) * bend) @ self.centres.T - bend.sum()))

    def coin_means(self, p: Floats) -> Floats:
        """E_p[k(., z_i)], each word kept with probability p: (P,) -> (n, P)."""
        kept, tilt = self.centres > 0, np.outer(self.theta, 2 * p - 1)  # tilt (d, P)
        logs = kept @ np.log1p(tilt) + ~kept @ np.log1p(-tilt) - np.log1p(self.theta).sum()
        return np.asarray(np.exp(logs))

    def given(self, means: Floats, p: Floats, sign: int) -> Floats:
        """sum_q E_p[k | z_j = 1] w_q (sign 1; -1: z_j = 0) from means (n, P) already times w: (n, d)."""
        tilt, bend = np.outer(self.theta, 2 * p - 1), sign * self.theta[:, None]
        at_kept, at_gone = means @ ((1 + bend) / (1 + tilt)).T, means @ ((1 - bend) / (1 - tilt)).T
        return np.where(self.centres > 0, at_kept, at_gone)


Explain = Callable[[Bumps], Floats]  # (n, d + 1): b_0 and b of each bump


def signs(keep: Masks) -> Floats:
    """t = 2 z - 1."""
    return np.where(keep, 1.0, -1.0)


def lime_lines(bumps: Bumps, nu: float) -> Floats:
    """LIME's limit of each bump."""
    d = len(bumps.theta)
    p, w = lime_limit.coin_mixture(d, nu)
    means = bumps.coin_means(p)
    unperturbed = bumps(np.ones((1, d), dtype=bool))[0] / d  # the mixture holds s = 0, which LIME never draws
    with_j = bumps.given(means * (w * p), p, 1) - unperturbed[:, None]
    return np.column_stack(lime_limit.limit(means @ w - unperturbed, with_j, nu))


def shapley_lines(bumps: Bumps) -> Floats:
    """The Shapley values of each bump, through its value with no word."""
    d = len(bumps.theta)
    p, w = lime_limit.uniform_coins(d)
    means = bumps.coin_means(p) * w
    slopes = bumps.given(means, p, 1) - bumps.given(means, p, -1)
    return np.column_stack([bumps(np.zeros((1, d), dtype=bool))[0], slopes])


@dataclass(frozen=True)
class Controls:
    """h of each row (n, 0 to 3): by a surrogate that never saw its pair, and what stands for its stratum.

    Columns are near 1 in size, whatever the unit of f: a fit then finds the same rank in every unit.
    """

    left_out: Floats
    blended: Floats
    beyond_line: float  # share of the variance of f that a line in the words leaves


def controls(keep: Masks, values: Floats, weights: Floats, drawn: Floats, explain: Explain) -> Controls:
    """The first 2 len(drawn) rows are pairs, drawn their strata's shares; other rows are certain."""
    pairs, root = len(drawn), np.sqrt(weights)[:, None]
    design = np.column_stack([np.ones(len(keep)), keep])
    slopes = least_squares(design * root, values * root[:, 0])
    rest = values - design @ slopes
    ridge = 1 / np.maximum(weights / weights.mean(), 1e-3)  # light rows count for little
    results = []
    for theta_of, noise in KINDS:
        learnt = min(2 * pairs, MAX_CENTRES)
        bumps = Bumps(signs(keep[:learnt]), theta_of(np.abs(slopes[1:])))
        residual = bumps(keep)  # (n, learnt), less its line: h = residual @ a
        own, move, blocks = leave_out(residual[:learnt] + np.diag(noise * ridge[:learnt]), design, rest)
        residual = residual - design @ explain(bumps).T
        results.append(_values(residual, own, move, blocks, pairs))
    left_out, mean = np.stack(results, -1)  # each (n, 3)
    share = np.append(np.repeat(drawn, 2), np.ones(len(keep) - 2 * pairs))[:, None]
    some = left_out.std(0) > MIN_SURROGATE_SPREAD * values.std()
    left_out, mean = left_out[:, some], mean[:, some]
    left_out, mean = left_out / (unit := _power_of_two(left_out)), mean / unit
    blended = (1 - share) * left_out + share * mean
    return Controls(left_out, blended, _beyond_line(rest, values, weights, design.shape[1]))


def _beyond_line(rest: Floats, values: Floats, weights: Floats, columns: int) -> float:
    """Variance of the rest over that of the values, each by its degrees of freedom."""
    spread = weights @ np.square(values - np.average(values, weights=weights)) / (len(values) - 1)
    left = weights @ np.square(rest) / max(len(values) - columns, 1)
    return float(left / spread) if spread else 0.0


def _power_of_two(columns: Floats) -> Floats:
    """(k,): near the size of each column; to divide by it rounds nothing."""
    return np.asarray(np.ldexp(1.0, np.frexp(np.abs(columns).max(0, initial=0.0))[1]))


def least_squares(design: Floats, values: Floats, small: float = 1e-12) -> Floats:
    """Of least norm where the design is short of rank; by orthogonal factors, thrice as quick as by SVD."""
    return np.asarray(linalg.lstsq(design, values, small, lapack_driver="gelsy", check_finite=False)[0])


def leave_out(system: Floats, design: Floats, values: Floats) -> tuple[Floats, Floats, Floats]:
    """(a, C, v): a (n,) solves the ridge system with free slopes; without pair u it is a - C_.u v_u."""
    n = len(system)
    design, values = design[:n], values[:n]
    inverse = lapack.dpotri(lapack.dpotrf(system, lower=1)[0], lower=1)[0]  # positive: the ridge is
    inverse = np.tril(inverse) + np.tril(inverse, -1).T
    half = inverse @ design
    c = inverse - half @ np.linalg.pinv(design.T @ half, rcond=1e-12, hermitian=True) @ half.T
    a = c @ values
    at = np.arange(n).reshape(-1, 2)
    blocks = c[at[:, :, None], at[:, None, :]] + MIN_LEFT_OUT * np.diag(c).mean() * np.eye(2)
    return a, c, np.linalg.solve(blocks, a.reshape(-1, 2, 1)).ravel()


def _values(residual: Floats, a: Floats, c: Floats, v: Floats, pairs: int) -> tuple[Floats, Floats]:
    """h of each row without its own pair, and its mean over all left-out pairs, each (n,)."""
    learnt = len(a)
    left_out = residual @ a
    own = (v[:, None] * c).reshape(-1, 2, learnt).sum(1)  # C_.u v_u of each pair u
    left_out[:learnt] -= np.einsum("gin,gn->gi", residual[:learnt].reshape(-1, 2, learnt), own).ravel()
    return left_out, residual @ (a - c @ v / pairs)


def _alike(slopes: Floats) -> Floats:
    return np.full(len(slopes), min(2.5 / len(slopes), MAX_THETA))


def _by_slope(slopes: Floats, most: float) -> Floats:
    """Words that matter alone are taken to matter together."""
    return most * np.maximum(slopes / max(float(slopes.max()), 1e-300), 1e-3)


KINDS: tuple[tuple[Callable[[Floats], Floats], float], ...] = (
    (_alike, 0.1),
    (partial(_by_slope, most=0.5), 0.03),
    (partial(_by_slope, most=MAX_THETA), 0.03),
)
