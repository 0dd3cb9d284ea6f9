"""Paired designs, the fit with standard errors, and surrogates whose explanations are known exactly."""

from __future__ import annotations

from itertools import product
from math import comb

import numpy as np
import pytest

from heedful.theory import adjust, lime_limit, sampling
from heedful.theory.adjust import Surrogate
from heedful.theory.sampling import Estimate, Pairs


def masks(d: int) -> np.ndarray:
    return np.array(list(product([False, True], repeat=d)))


@pytest.mark.parametrize("d", [2, 3, 6, 7])
def test_pairs_enumerate_every_mask_once(d: int) -> None:
    pairs = Pairs(d, np.ones(d // 2), seed=0)
    keep, drawn = pairs.first(pairs.total)
    assert {tuple(row) for row in keep.tolist()} == {tuple(row) for row in masks(d)[1:-1].tolist()}
    assert len(keep) == 2**d - 2
    np.testing.assert_array_equal(keep[::2], ~keep[1::2])
    np.testing.assert_array_equal(drawn, 1.0)


def test_pairs_are_stratified_nested_and_seeded() -> None:
    d, pairs = 21, Pairs(21, np.ones(10), seed=3)
    few, _ = pairs.first(20)
    more, drawn = pairs.first(50)
    np.testing.assert_array_equal(more[:40], few)
    removed = np.minimum(d - more[::2].sum(1), more[::2].sum(1))
    np.testing.assert_array_equal(np.bincount(removed)[1:], 5)
    np.testing.assert_allclose(drawn, [5 / comb(d, int(s)) for s in removed])
    assert len({row.tobytes() for row in more}) == 100
    np.testing.assert_array_equal(Pairs(21, np.ones(10), seed=3).first(50)[0], more)
    assert (Pairs(21, np.ones(10), seed=4).first(50)[0] != more).any()
    again, share = pairs.first(20)  # fewer than were drawn: as if no more had been
    np.testing.assert_array_equal(again, few)
    assert share.max() == pytest.approx(2 / 21)


def test_every_word_is_removed_alike() -> None:
    keep, _ = Pairs(30, np.ones(15), seed=1).first(3000)
    assert np.abs(keep[::2][keep[::2].sum(1) == 20].mean(0) - 2 / 3).max() < 0.15  # sd 0.033 in 200 rows


def test_quotas_follow_the_shares_and_texts_may_be_long() -> None:
    keep, _ = Pairs(10, np.array([8.0, 4, 2, 1, 1]), seed=0).first(80)
    removed = np.bincount(np.minimum(keep[::2].sum(1), 10 - keep[::2].sum(1)))[1:]
    assert removed[0] == 10  # all there are
    assert removed[1] > removed[2] > removed[3] >= 1
    assert Pairs(2500, np.ones(1250), seed=0).first(1300)[0].shape == (2600, 2500)


def test_law_weights_stand_for_the_law() -> None:
    law = lime_limit.size_law(9, 0.25)
    keep, _ = Pairs(9, np.ones(4), seed=0).first(30)
    weights = sampling.law_weights(keep, law)
    for m in range(1, 9):
        assert weights[keep.sum(1) == m].sum() == pytest.approx(law[m])


def test_fit_is_weighted_least_squares_and_certain_rows_add_no_error() -> None:
    rng = np.random.default_rng(0)
    design, values, weights = rng.standard_normal((41, 4)), rng.standard_normal(41), rng.random(41) + 0.1
    drawn = np.zeros(20)
    found, stderr = sampling.fit(design, values, weights, drawn)
    gram = design.T * weights @ design
    np.testing.assert_allclose(found, np.linalg.solve(gram, design.T @ (weights * values)), atol=1e-12)
    assert (stderr > 0).all()
    np.testing.assert_array_equal(sampling.fit(design, values, weights, np.ones(20))[1], 0)
    clustered = np.zeros((4, 4))  # without leverage correction and Student, by hand
    errors = weights * (values - design @ found)
    for g in range(20):
        score = errors[2 * g : 2 * g + 2] @ design[2 * g : 2 * g + 2]
        clustered += np.outer(score, score)
    plain = np.sqrt(np.diag(np.linalg.inv(gram) @ clustered @ np.linalg.inv(gram)))
    assert ((stderr > plain) & (stderr < 1.8 * plain)).all()


def test_fit_of_lower_rank_has_least_norm() -> None:
    keep, drawn = Pairs(6, np.ones(3), seed=0).first(12)
    design = keep - keep.mean(1, keepdims=True)
    found, _ = sampling.fit(design, keep @ np.arange(6.0), np.ones(24), drawn)
    assert found.sum() == pytest.approx(0, abs=1e-12)


def test_pairs_are_one_observation() -> None:
    """Partners that repeat each other must not halve the variance."""
    rng = np.random.default_rng(1)
    hits = []
    for _ in range(200):
        y = np.repeat(rng.standard_normal(30), 2)
        found, stderr = sampling.fit(np.ones((60, 1)), y, np.ones(60), np.zeros(30))
        hits.append(abs(found[0]) < 1.96 * stderr[0])
    assert 0.90 < np.mean(hits) < 0.99  # sd 0.015; treated as 60 rows it would be 0.83


@pytest.fixture
def surrogate() -> Surrogate:
    rng = np.random.default_rng(2)
    centres = np.where(rng.random((9, 6)) < 0.5, -1.0, 1.0)
    return Surrogate(centres, rng.standard_normal(9), rng.random(6) * 0.9)


def test_surrogate_is_the_product_kernel(surrogate: Surrogate) -> None:
    row = masks(6)[37]
    t = 2.0 * row - 1
    want = sum(
        a * np.prod((1 + surrogate.theta * t * c) / (1 + surrogate.theta))
        for a, c in zip(surrogate.coefficients, surrogate.centres, strict=True)
    )
    assert surrogate(row[None])[0] == pytest.approx(want, abs=1e-12)


def test_surrogate_means_and_lines_are_exact(surrogate: Surrogate) -> None:
    keep = masks(6)
    values, kept, d = surrogate(keep), keep.sum(1), 6
    mean, with_j, without_j = surrogate.coin_means(np.array([0.3]))
    chance = 0.3**kept * 0.7 ** (d - kept)
    assert mean[0] == pytest.approx(chance @ values, abs=1e-12)
    np.testing.assert_allclose(with_j[0], (chance * values) @ keep / 0.3, atol=1e-12)
    np.testing.assert_allclose(without_j[0], (chance * values) @ ~keep / 0.7, atol=1e-12)

    law = np.array([0.0 if m == d else 1 / comb(d, m) for m in kept.tolist()])
    root = np.sqrt(law * lime_limit.row_weights(keep, 0.25))[:, None]
    design = np.column_stack([np.ones(len(keep)), keep])
    want = np.linalg.lstsq(design * root, values * root[:, 0], rcond=None)[0]
    b0, b = adjust.lime_line(surrogate, 0.25)
    np.testing.assert_allclose([b0, *b], want, atol=1e-10)

    b0, b = adjust.shapley_line(surrogate)
    assert b0 == pytest.approx(values[0])
    assert b0 + b.sum() == pytest.approx(values[-1], abs=1e-12)
    j, without = 2, np.flatnonzero(~keep[:, 2])
    share = np.array([1 / (d * comb(d - 1, m)) for m in kept[without].tolist()])
    assert b[j] == pytest.approx(share @ (values[without + 2 ** (d - 1 - j)] - values[without]), abs=1e-12)


def test_controls_never_see_their_own_pair() -> None:
    rng = np.random.default_rng(5)
    keep, _ = Pairs(8, np.ones(4), seed=0).first(30)
    values, weights, fold = rng.standard_normal(60), np.full(60, 1 / 60), adjust.folds(30, 0, 0)
    before = adjust.controls(keep, values, weights, fold, adjust.shapley_line)
    np.testing.assert_array_equal(fold[::2], fold[1::2])
    own = fold == fold[0]
    values[own] += rng.standard_normal(own.sum())
    after = adjust.controls(keep, values, weights, fold, adjust.shapley_line)
    np.testing.assert_array_equal(after[own], before[own])
    assert (after[~own] != before[~own]).any()


def test_nothing_to_adjust_for_a_linear_function() -> None:
    keep, _ = Pairs(8, np.ones(4), seed=0).first(30)
    fold = adjust.folds(30, 0, 0)
    found = adjust.controls(keep, keep @ np.arange(8.0), np.ones(60), fold, adjust.shapley_line)
    assert found.shape == (60, 0)


def test_rows_double_until_precise() -> None:
    asked: list[int] = []

    def estimate(count: int) -> Estimate:
        asked.append(count)
        return Estimate(np.ones(4), np.ones(4) / np.sqrt(count), count)

    assert sampling.until_precise(estimate, 10, 1000, 0.2).pairs == 40
    assert asked == [10, 20, 40]
    assert sampling.until_precise(estimate, 10, 25, 0.0).pairs == 25
    assert Estimate(np.zeros(2), np.ones(2), 1).precision == np.inf
