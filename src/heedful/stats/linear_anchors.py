"""Anchors on a linear rule, without a search: precision in closed form, and the best anchor of every size.

The prediction stands while  bias + sum_t w_t z_t > 0,  z_t = 1 where position t is kept. Positions of the
anchor A are kept, the others with probability 1/2:

    precision(A) = P(bias + sum_{t in A} w_t + sum_{t not in A} w_t z_t > 0)
                 ~ Phi((bias + sum_A w_t + 1/2 sum_{not A} w_t) / sqrt(1/4 sum_{not A} w_t^2))   (Gaussian)

With TF-IDF, w_t = lambda_j idf_j at every place of word j: copies are positions of their own, so a frequent
word is not a better anchor. The best anchor of k positions holds the k largest w_t, whatever the law:
exchange t in A for a larger u outside; where both are kept nothing changes, and where only the one in the
anchor is, the sum is larger.

A head of attention is such a rule (`of_head`): f = N / D with D > 0 has the sign of N, which is linear in z.
Cost: exact 2^k for k free positions of weight; Gaussian O(T).

Lopardo, Precioso & Garreau, A Sea of Words: An In-Depth Analysis of Anchors for Text Data, AISTATS 2023.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from heedful.core.errors import HeedfulError
from heedful.stats.lime_limit import Floats, Masks
from heedful.stats.ratio_game import RatioGame

MAX_FREE_POSITIONS = 22  # free positions: four million sums


@dataclass(frozen=True)
class LinearRule:
    """A linear rule: a bias, and one weight per position towards the predicted class."""

    weights: Floats  # (T,)
    bias: float

    def __call__(self, keep: Masks) -> Floats:
        """Margin of each row (n, T) -> (n,)."""
        return np.asarray(self.bias + keep @ self.weights)


def of_head(game: RatioGame) -> LinearRule:
    """The rule a head of attention follows, word by word; the game is of a class less another."""
    return LinearRule(game.n1 - game.n0, float(game.always_n + game.n0.sum()))


def _split(rule: LinearRule, anchor: Collection[int]) -> tuple[float, Floats]:
    """What is always there, and the weights that come and go."""
    values = np.zeros(len(rule.weights), dtype=bool)
    values[list(anchor)] = True
    return rule.bias + float(rule.weights[values].sum()), rule.weights[~values]


def exact(rule: LinearRule, anchor: Collection[int]) -> float:
    """Precision by all ways to keep the rest."""
    there, free = _split(rule, anchor)
    free = free[free != 0]
    if len(free) > MAX_FREE_POSITIONS:
        raise HeedfulError(
            f"{len(free)} positions have too many subsets",
            fix=f"Use the Gaussian, or {MAX_FREE_POSITIONS} at most",
        )
    sums = np.array([there])
    for weight in free.tolist():
        sums = np.concatenate([sums, sums + weight])
    return float(np.mean(sums > 0))


def gaussian(rule: LinearRule, anchor: Collection[int]) -> float:
    """Precision if the sum of what comes and goes were normal."""
    there, free = _split(rule, anchor)
    spread = float(np.sqrt(np.square(free).sum()) / 2)
    middle = there + float(free.sum()) / 2
    return float(ndtr(middle / spread)) if spread else float(middle > 0)


Precision = Callable[[LinearRule, Collection[int]], float]


def shortest(rule: LinearRule, threshold: float = 0.95, precision: Precision = exact) -> tuple[int, ...]:
    """The fewest positions with so much precision, the largest weights first."""
    order = np.argsort(-rule.weights, kind="stable").tolist()
    for size in range(len(order) + 1):
        if precision(rule, order[:size]) >= threshold:
            return tuple(sorted(order[:size]))
    return tuple(sorted(order))
