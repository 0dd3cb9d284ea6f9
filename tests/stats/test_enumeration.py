"""Brute force against games whose values are known by hand, and against the quadrature."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from heedful.core.errors import HeedfulError
from heedful.stats import enumeration, ratio_game
from heedful.stats.ratio_game import RatioGame

RNG = np.random.default_rng(0)


def test_masks_count_in_binary() -> None:
    assert enumeration.every_mask(2).tolist() == [[False, False], [False, True], [True, False], [True, True]]
    assert len({row.tobytes() for row in enumeration.every_mask(5)}) == 32


@pytest.mark.parametrize("d", [2, 3, 6])
def test_a_linear_function_is_its_own_explanation(d: int) -> None:
    weights = RNG.normal(size=d)
    values = 0.7 + enumeration.every_mask(d) @ weights
    np.testing.assert_allclose(enumeration.shapley(values), weights, atol=1e-12)
    np.testing.assert_allclose(enumeration.banzhaf(values), weights, atol=1e-12)
    for nu in (0.25, 1.0, np.inf):
        intercept, slopes = enumeration.lime(values, nu)
        assert intercept == pytest.approx(0.7, abs=1e-9)
        np.testing.assert_allclose(slopes, weights, atol=1e-9)


def test_shapley_is_the_mean_over_all_orders() -> None:
    d, values = 4, RNG.normal(size=16)
    want = np.zeros(d)
    orders = list(itertools.permutations(range(d)))
    for order in orders:
        row = 0
        for word in order:
            want[word] += (values[row + (1 << (d - 1 - word))] - values[row]) / len(orders)
            row += 1 << (d - 1 - word)
    np.testing.assert_allclose(enumeration.shapley(values), want, atol=1e-12)


def test_a_majority_of_unequal_votes() -> None:
    """Votes 4, 2, 1 of 7, four needed: the first decides alone, whatever the weights of the others say."""
    values = (enumeration.every_mask(3) @ np.array([4, 2, 1]) >= 4).astype(float)
    assert enumeration.shapley(values).tolist() == [1, 0, 0]
    assert enumeration.banzhaf(values).tolist() == [1, 0, 0]


@pytest.mark.parametrize("sharpness", [0.5, 2.0, 4.0])
def test_the_quadrature_needs_no_subset(sharpness: float) -> None:
    d = 9
    (s1, s0), u = sharpness * RNG.normal(size=(2, d)), RNG.normal(size=(2, d))
    game = RatioGame(np.exp(s1) * u[0], np.exp(s0) * u[1], np.exp(s1), np.exp(s0), 0.3, 1.0)
    values = game(enumeration.every_mask(d))
    np.testing.assert_allclose(ratio_game.shapley(game), enumeration.shapley(values), atol=1e-10)
    np.testing.assert_allclose(ratio_game.banzhaf(game), enumeration.banzhaf(values), atol=1e-10)
    for nu in (0.25, np.inf):
        np.testing.assert_allclose(ratio_game.lime(game, nu), enumeration.lime(values, nu)[1], atol=1e-9)


def test_what_is_not_a_game_is_refused() -> None:
    with pytest.raises(HeedfulError, match="too many subsets"):
        enumeration.every_mask(40)
    with pytest.raises(HeedfulError, match="not those of all subsets"):
        enumeration.shapley(np.zeros(7))
