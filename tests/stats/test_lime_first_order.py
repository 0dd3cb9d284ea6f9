"""The closed forms against the exact limit and against derivatives of f."""

from __future__ import annotations

import numpy as np
import pytest

from heedful.stats import lime_first_order, ratio_game
from heedful.stats.ratio_game import RatioGame


def drawn(spread: float, d: int = 60, others: int = 40, seed: int = 0) -> RatioGame:
    rng = np.random.default_rng(seed)
    scores, values = spread * rng.standard_normal((2, d + others)), rng.standard_normal((2, d + others))
    return ratio_game.from_scores((scores[0], scores[1]), (values[0], values[1]), [[j] for j in range(d)])


def error(found: np.ndarray, want: np.ndarray) -> float:
    return float(np.linalg.norm(found - want) / np.linalg.norm(want))


@pytest.mark.parametrize("nu", [0.25, np.inf])
def test_centred_converges_to_the_limit_as_attention_spreads(nu: float) -> None:
    errors = [
        error(lime_first_order.centred(game), ratio_game.lime(game, nu))
        for game in (drawn(0.3, d, 2 * d) for d in (10, 40, 160))
    ]
    assert errors[0] > 2 * errors[1] > 4 * errors[2]
    assert errors[2] < 0.005


def test_equal_scores_leave_no_error() -> None:
    game = drawn(0.0)
    exact = ratio_game.lime(game)
    np.testing.assert_allclose(lime_first_order.centred(game), exact, atol=1e-10)
    np.testing.assert_allclose(lime_first_order.plain(game), exact, atol=1e-10)
    assert error(lime_first_order.published(game), exact) == pytest.approx(0.5, abs=1e-9)


def test_centred_is_the_derivative_of_f_at_one_half() -> None:
    """f with every word there by halves, and one of them a little more: by finite differences."""
    game = drawn(2.0, d=7, others=3)
    step = 1e-6

    def f(share: np.ndarray) -> float:
        n = game.always_n + (share * game.n1 + (1 - share) * game.n0).sum()
        return float(n / (game.always_g + (share * game.g1 + (1 - share) * game.g0).sum()))

    half = np.full(7, 0.5)
    slopes = [(f(half + step * row) - f(half - step * row)) / (2 * step) for row in np.eye(7)]
    np.testing.assert_allclose(lime_first_order.centred(game), slopes, rtol=1e-6)


def test_plain_is_the_words_share_of_two_texts() -> None:
    game = drawn(1.0, d=5, others=2)
    everything, nothing = game(np.repeat([[True], [False]], 5, axis=1))
    rest = game.always_n / (game.always_g + game.g1.sum()) - game.always_n / (game.always_g + game.g0.sum())
    assert lime_first_order.plain(game).sum() == pytest.approx(everything - nothing - rest)
