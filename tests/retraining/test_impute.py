"""What stands where a word was removed: by hand, and noisy linear against its own linear system."""

from __future__ import annotations

import numpy as np
import pytest

from heedful.core.errors import HeedfulError
from heedful.retraining.impute import masked, masked_text, mean_embedding, mean_vector, noisy_linear
from heedful.stats.linear_imputation import between

TABLE = np.random.default_rng(0).normal(2.0, 3.0, size=(7, 4))
IDS = (3, 1, 4, 1, 5, 6, 2, 0)
RNG = np.random.default_rng


def holes(*places: int) -> np.ndarray:
    gone = np.zeros(len(IDS), dtype=bool)
    gone[list(places)] = True
    return gone


def solved(vectors: np.ndarray, gone: np.ndarray) -> np.ndarray:
    """The definition: every removed vector is the mean of its neighbours, all at once."""
    count = len(gone)
    system, right = np.eye(count), np.where(gone[:, None], 0.0, vectors)
    for t in np.flatnonzero(gone):
        near = [u for u in (t - 1, t + 1) if 0 <= u < count]
        system[t, near] = -1 / len(near)
    return np.linalg.solve(system, right)


@pytest.mark.parametrize("places", [(), (2,), (1, 2, 3), (0, 1), (6, 7), (0, 2, 3, 7), (0, 1, 2, 4, 5, 6, 7)])
def test_the_line_solves_the_system_of_neighbours(places: tuple[int, ...]) -> None:
    vectors, gone = TABLE[list(IDS)], holes(*places)
    np.testing.assert_allclose(between(vectors, gone), solved(vectors, gone), atol=1e-12)


def test_noise_is_a_hundredth_of_the_spread_and_only_where_something_went() -> None:
    gone = holes(1, 2, 5)
    fill = noisy_linear(TABLE, TABLE.mean(0)).fill
    drawn = np.array([fill(IDS, gone, RNG(seed)) for seed in range(2000)])
    np.testing.assert_array_equal(drawn[0][~gone], TABLE[list(IDS)][~gone])
    # 2,000 draws: the sample deviation is within 6 % of the true one, four standard errors
    wanted = np.broadcast_to(0.01 * TABLE.std(0), (3, 4))
    np.testing.assert_allclose(drawn[:, gone].std(0), wanted, rtol=0.08)
    np.testing.assert_allclose(drawn[:, gone].mean(0), between(TABLE[list(IDS)], gone)[gone], atol=0.005)


def test_filling_leaves_the_table_alone() -> None:
    before = TABLE.copy()
    for imputer in (noisy_linear(TABLE, TABLE.mean(0)), mean_embedding(TABLE, TABLE.mean(0))):
        imputer.fill(IDS, holes(0, 4), RNG(0))
    np.testing.assert_array_equal(TABLE, before)


def test_where_nothing_is_kept_the_mean_stands() -> None:
    mean = np.arange(4.0)
    filled = noisy_linear(TABLE, mean, noise=0.0).fill(IDS, holes(*range(len(IDS))), RNG(0))
    np.testing.assert_array_equal(filled, np.tile(mean, (len(IDS), 1)))


def test_the_mean_counts_words_as_often_as_they_occur() -> None:
    np.testing.assert_allclose(
        mean_vector(TABLE, [(1, 1, 2), (3,)]), (2 * TABLE[1] + TABLE[2] + TABLE[3]) / 4
    )


def test_the_mean_stands_where_something_went() -> None:
    mean, gone = np.arange(4.0), holes(0, 3)
    filled = mean_embedding(TABLE, mean).fill(IDS, gone, RNG(0))
    np.testing.assert_array_equal(filled[gone], [mean, mean])
    np.testing.assert_array_equal(filled[~gone], TABLE[list(IDS)][~gone])


def test_masks_by_hand() -> None:
    gone = np.array([True, False, True])
    assert masked(9, 8).fill((1, 2, 3), gone, RNG(0)) == (9, 2, 9)
    assert masked(9, 8).pattern(gone) == (9, 8, 9)
    assert masked_text().fill(("not", "bad", "!"), gone, RNG(0)) == "[MASK] bad [MASK]"
    assert masked_text().pattern(gone) == "[MASK] word [MASK]"


def test_the_pattern_knows_places_and_nothing_else() -> None:
    for imputer in (noisy_linear(TABLE, TABLE.mean(0)), mean_embedding(TABLE, TABLE.mean(0))):
        shown = imputer.pattern(holes(2))
        assert len(np.unique(shown, axis=0)) == 2
        np.testing.assert_array_equal(shown[2], -shown[0])


def test_one_token_cannot_show_a_pattern() -> None:
    with pytest.raises(HeedfulError, match="two tokens"):
        masked(3, 3)
