"""Exact LIME limits and Shapley values of f(z) = N(z)/D(z), both sums over words: one attention head.

    N(z) = N0 + sum_i [z_i n1_i + (1 - z_i) n0_i]          D(z) = D0 + sum_i [z_i g1_i + (1 - z_i) g0_i] > 0

2^d rows, yet no sampling, because (i) choosing how many words stay, then which, is a mixture of independent
coin tosses with probability p, and (ii) 1/D = int_0^inf exp(-x D) dx is a product over words. So with
phi_i = p exp(-x g1_i) + (1 - p) exp(-x g0_i) and mu_i = p n1_i exp(-x g1_i) + (1 - p) n0_i exp(-x g0_i)

    E_p[f]             = int exp(-x D0) prod_i phi_i (N0 + sum_i mu_i / phi_i) dx
    E_p[f | z_j = 1]   = the same with phi_j = exp(-x g1_j), mu_j = n1_j phi_j       (z_j = 0: g0_j, n0_j)
    Shapley phi_j      = int_0^1 (E_p[f | z_j = 1] - E_p[f | z_j = 0]) dp                       (Owen 1972)
    Banzhaf            = the integrand at p = 1/2

x = e^y by the trapezoid rule, which converges geometrically; p by Gauss-Legendre, exact for polynomials.
Cost O(d n_x n_p): 0.1 s for d = 100 where LIME runs the model 5,000 times.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from heedful.core.errors import HeedfulError
from heedful.stats import lime_limit
from heedful.stats.lime_limit import Floats, Masks

STEP = 0.08  # of y = log x: the trapezoid rule is then exact to rounding
REACH = 40.0  # exp(-40) is nothing


@dataclass(frozen=True)
class RatioGame:
    """Numerators (n) and denominators (g) of d words, present (1) or absent (0), and of tokens that are never
    removed."""

    n1: Floats  # (d,)
    n0: Floats
    g1: Floats
    g0: Floats
    always_n: float
    always_g: float

    def __post_init__(self) -> None:
        if not self.always_g + float(np.minimum(self.g1, self.g0).sum()) > 0:
            raise HeedfulError(
                "the attention scores are too far apart for float64", "no token is left with any weight"
            )

    def __call__(self, keep: Masks) -> Floats:
        """f of each row (n, d) -> (n,)."""
        n: Floats = self.always_n + np.where(keep, self.n1, self.n0).sum(-1)
        g: Floats = self.always_g + np.where(keep, self.g1, self.g0).sum(-1)
        return n / g


def centred(game: RatioGame) -> RatioGame:
    """The game less its value with all words: (N - c D) / D. A large constant would cost digits."""
    c = float(game(np.ones((1, len(game.g1)), dtype=bool))[0])
    return replace(
        game,
        n1=game.n1 - c * game.g1,
        n0=game.n0 - c * game.g0,
        always_n=game.always_n - c * game.always_g,
    )


def from_scores(
    scores: tuple[Floats, Floats], values: tuple[Floats, Floats], groups: list[list[int]]
) -> RatioGame:
    """A head's game from attention scores and read-out values W_l v_t, each (T,) with all words (present,
    absent). Positions in no group are always there, as in the present ones."""
    peak = max(float(scores[0].max()), float(scores[1].max()))
    g1, g0 = np.exp(scores[0] - peak), np.exp(scores[1] - peak)
    always = np.ones(len(g1), dtype=bool)
    always[[t for group in groups for t in group]] = False

    def sums(x: Floats) -> Floats:
        return np.array([x[group].sum() for group in groups])

    return RatioGame(
        n1=sums(g1 * values[0]),
        n0=sums(g0 * values[1]),
        g1=sums(g1),
        g0=sums(g0),
        always_n=float((g1 * values[0])[always].sum()),
        always_g=float(g1[always].sum()),
    )


def _laplace_nodes(game: RatioGame) -> tuple[Floats, Floats]:
    """(x, dx): int_0^inf h(x) dx ~ sum dx h(x) for h that decays like exp(-x D)."""
    least = game.always_g + np.minimum(game.g1, game.g0).sum()
    most = game.always_g + np.maximum(game.g1, game.g0).sum()
    y = np.arange(np.log(1e-17 / most), np.log(REACH / least) + STEP, STEP)
    return np.exp(y), STEP * np.exp(y)


def coin_means(game: RatioGame, p: Floats) -> tuple[Floats, Floats, Floats]:
    """E_p[f] (P,), E_p[f | z_j = 1] (P, d) and E_p[f | z_j = 0] (P, d) for each p in (0, 1)."""
    x, dx = _laplace_nodes(game)
    e1, e0 = np.exp(-np.outer(x, game.g1)), np.exp(-np.outer(x, game.g0))  # (X, d)
    log_dx = np.log(dx) - x * game.always_g
    mean, with_j, without_j = (
        np.empty(len(p)),
        np.empty((len(p), len(game.g1))),
        np.empty((len(p), len(game.g1))),
    )
    for q, chance in enumerate(p):
        phi = chance * e1 + (1 - chance) * e0  # (X, d)
        share = np.maximum(phi, 1e-300)
        ratio = (chance * e1 * game.n1 + (1 - chance) * e0 * game.n0) / share  # mu / phi
        numerator = game.always_n + ratio.sum(1)  # (X,)
        rest = np.exp(log_dx + np.log(share).sum(1))  # (X,)
        mean[q] = rest @ numerator
        others = numerator[:, None] - ratio  # what the other words add (X, d)
        with_j[q] = ((rest[:, None] * e1 / share) * (others + game.n1)).sum(0)
        without_j[q] = ((rest[:, None] * e0 / share) * (others + game.n0)).sum(0)
    return mean, with_j, without_j


def shapley(game: RatioGame) -> Floats:
    """Shapley values (d,): they sum to f(all present) - f(all absent)."""
    return lime_limit.shapley_of_coins(partial(coin_means, centred(game)), len(game.g1))


def banzhaf(game: RatioGame) -> Floats:
    """Banzhaf values (d,): a word's mean effect when every other one is kept by the toss of a fair coin."""
    _, with_j, without_j = coin_means(centred(game), np.array([0.5]))
    return np.asarray((with_j - without_j)[0])


def lime(game: RatioGame, nu: float = lime_limit.PUBLISHED) -> Floats:
    """LIME's coefficients (d,) with endlessly many rows, for any bandwidth."""
    game, d = centred(game), len(game.g1)
    everything = float(game(np.ones((1, d), dtype=bool))[0])
    if d < 2:  # a line through two points
        return everything - game(np.zeros((1, d), dtype=bool)).repeat(d)
    return lime_limit.limit_of_coins(partial(coin_means, game), everything, d, nu)[1]
