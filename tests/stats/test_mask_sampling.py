"""Paired designs, the fit with standard errors, and surrogates whose explanations are known exactly."""

from __future__ import annotations

from itertools import product
from math import comb

import numpy as np
import pytest

from heedful.stats import control_variates, lime_limit, mask_sampling
from heedful.stats.control_variates import Bumps
from heedful.stats.mask_sampling import Estimate, MaskPairs


def masks(d: int) -> np.ndarray:
    return np.array(list(product([False, True], repeat=d)))


@pytest.mark.parametrize("d", [2, 3, 6, 7])
def test_pairs_enumerate_every_mask_once(d: int) -> None:
    pairs = MaskPairs(d, np.ones(d // 2), seed=0)
    keep, drawn = pairs.first(pairs.total)
    assert {tuple(row) for row in keep.tolist()} == {tuple(row) for row in masks(d)[1:-1].tolist()}
    assert len(keep) == 2**d - 2
    np.testing.assert_array_equal(keep[::2], ~keep[1::2])
    np.testing.assert_array_equal(drawn, 1.0)


def test_pairs_are_stratified_nested_and_seeded() -> None:
    d, pairs = 21, MaskPairs(21, np.ones(10), seed=3)
    few, _ = pairs.first(20)
    more, drawn = pairs.first(50)
    np.testing.assert_array_equal(more[:40], few)
    removed = np.minimum(d - more[::2].sum(1), more[::2].sum(1))
    np.testing.assert_array_equal(np.bincount(removed)[1:], 5)
    np.testing.assert_allclose(drawn, [5 / comb(d, int(s)) for s in removed])
    assert len({row.tobytes() for row in more}) == 100
    np.testing.assert_array_equal(MaskPairs(21, np.ones(10), seed=3).first(50)[0], more)
    assert (MaskPairs(21, np.ones(10), seed=4).first(50)[0] != more).any()
    again, share = pairs.first(20)  # fewer than were drawn: as if no more had been
    np.testing.assert_array_equal(again, few)
    assert share.max() == pytest.approx(2 / 21)


def test_every_word_is_removed_alike() -> None:
    keep, _ = MaskPairs(30, np.ones(15), seed=1).first(3000)
    assert np.abs(keep[::2][keep[::2].sum(1) == 20].mean(0) - 2 / 3).max() < 0.15  # sd 0.033 in 200 rows


def test_quotas_follow_the_shares_and_texts_may_be_long() -> None:
    keep, _ = MaskPairs(10, np.array([8.0, 4, 2, 1, 1]), seed=0).first(80)
    removed = np.bincount(np.minimum(keep[::2].sum(1), 10 - keep[::2].sum(1)))[1:]
    assert removed[0] == 10  # all there are
    assert removed[1] > removed[2] > removed[3] >= 1
    assert MaskPairs(2500, np.ones(1250), seed=0).first(1300)[0].shape == (2600, 2500)


def test_law_weights_stand_for_the_law() -> None:
    law = lime_limit.size_law(9, 0.25)
    law[[0, 9]] = 0
    keep, _ = MaskPairs(9, np.ones(4), seed=0).first(30)
    weights = mask_sampling.law_weights(keep, law)
    for m in range(1, 9):
        assert weights[keep.sum(1) == m].sum() == pytest.approx(law[m])
    few = keep[np.isin(keep.sum(1), (2, 7))]
    weights = mask_sampling.law_weights(few, law)  # 2 is nearest to 1, 3 and 4
    assert weights[few.sum(1) == 2].sum() == pytest.approx(law[1:5].sum())
    assert weights[few.sum(1) == 7].sum() == pytest.approx(law[5:9].sum())


def test_few_rows_a_word_are_not_spent_on_complements() -> None:
    d = 40
    many, few = (mask_sampling.pairs_for(d, rows, 0.25, seed=2) for rows in (6 * d, 6 * d - 1))
    keep, _ = many.first(100)
    np.testing.assert_array_equal(keep[::2], ~keep[1::2])
    keep, drawn = few.first(110)
    np.testing.assert_array_equal(keep[::2].sum(1), keep[1::2].sum(1))  # one stratum a pair
    assert (keep[::2] != ~keep[1::2]).any(1).all()
    assert len({row.tobytes() for row in keep}) == 220
    share = lime_limit.size_share(d)
    quota = 110 * share / share.sum()
    removed = np.bincount(d - keep[::2].sum(1), minlength=d)[1:]
    assert np.abs(removed - quota).max() < 1
    np.testing.assert_allclose(drawn, [removed[s - 1] / (comb(d, int(s)) // 2) for s in d - keep[::2].sum(1)])
    assert mask_sampling.pairs_for(12, 40, 0.25, seed=0).complements, "short texts may be enumerated"
    np.testing.assert_array_equal(mask_sampling.pairs_for(d, 200, 0.25, seed=2).first(110)[0], keep)


def test_fit_is_weighted_least_squares_and_certain_rows_add_no_error() -> None:
    rng = np.random.default_rng(0)
    design, values, weights = rng.standard_normal((41, 4)), rng.standard_normal(41), rng.random(41) + 0.1
    drawn = np.zeros(20)
    fitted = mask_sampling.fit(design, values, weights, drawn)
    found, stderr = fitted.coefficients, fitted.stderr
    gram = design.T * weights @ design
    np.testing.assert_allclose(found, np.linalg.solve(gram, design.T @ (weights * values)), atol=1e-12)
    assert (stderr > 0).all()
    np.testing.assert_array_equal(mask_sampling.fit(design, values, weights, np.ones(20)).stderr, 0)
    clustered = np.zeros((4, 4))  # without leverage correction and Student, by hand
    errors = weights * (values - design @ found)
    for g in range(20):
        score = errors[2 * g : 2 * g + 2] @ design[2 * g : 2 * g + 2]
        clustered += np.outer(score, score)
    plain = np.sqrt(np.diag(np.linalg.inv(gram) @ clustered @ np.linalg.inv(gram)))
    assert ((stderr > plain) & (stderr < 1.8 * plain)).all()


def test_fit_of_lower_rank_has_least_norm() -> None:
    keep, drawn = MaskPairs(6, np.ones(3), seed=0).first(12)
    design = keep - keep.mean(1, keepdims=True)
    found = mask_sampling.fit(design, keep @ np.arange(6.0), np.ones(24), drawn).coefficients
    assert found.sum() == pytest.approx(0, abs=1e-12)


def test_pairs_are_one_observation() -> None:
    """Partners that repeat each other must not halve the variance."""
    rng = np.random.default_rng(1)
    hits = []
    for _ in range(200):
        y = np.repeat(rng.standard_normal(30), 2)
        found = mask_sampling.fit(np.ones((60, 1)), y, np.ones(60), np.zeros(30))
        hits.append(abs(found.coefficients[0]) < 1.96 * found.stderr[0])
    assert 0.90 < np.mean(hits) < 0.99  # sd 0.015; treated as 60 rows it would be 0.83


@pytest.fixture
def bumps() -> Bumps:
    rng = np.random.default_rng(2)
    return Bumps(np.where(rng.random((9, 6)) < 0.5, -1.0, 1.0), rng.random(6) * 0.9)


def test_bumps_are_the_product_kernel(bumps: Bumps) -> None:
    row = masks(6)[37]
    t = 2.0 * row - 1
    want = [np.prod((1 + bumps.theta * t * c) / (1 + bumps.theta)) for c in bumps.centres]
    np.testing.assert_allclose(bumps(row[None])[0], want, atol=1e-12)


@pytest.mark.parametrize("nu", [0.1, 0.25, 1.0, np.inf])
def test_lime_lines_are_exact(bumps: Bumps, nu: float) -> None:
    keep, d = masks(6), 6
    law = np.array([0.0 if m == d else 1 / comb(d, m) for m in keep.sum(1).tolist()])
    root = np.sqrt(law * lime_limit.row_weights(keep, nu))[:, None]
    design = np.column_stack([np.ones(len(keep)), keep])
    want = np.linalg.lstsq(design * root, bumps(keep) * root, rcond=None)[0]
    np.testing.assert_allclose(control_variates.lime_lines(bumps, nu), want.T, atol=1e-9)


def test_shapley_lines_are_exact(bumps: Bumps) -> None:
    keep, d = masks(6), 6
    values, lines = bumps(keep), control_variates.shapley_lines(bumps)
    np.testing.assert_allclose(lines[:, 0], values[0], atol=1e-12)
    np.testing.assert_allclose(lines.sum(1), values[-1], atol=1e-12)
    for j in range(d):
        without = np.flatnonzero(~keep[:, j])
        share = np.array([1 / (d * comb(d - 1, m)) for m in keep[without].sum(1).tolist()])
        want = share @ (values[without + 2 ** (d - 1 - j)] - values[without])
        np.testing.assert_allclose(lines[:, 1 + j], want, atol=1e-12)


def test_one_inverse_leaves_out_every_pair() -> None:
    """Against solving anew without the pair, the slopes free: bordered systems."""
    rng = np.random.default_rng(4)
    keep, _ = MaskPairs(5, np.ones(2), seed=0).first(10)
    bumps = Bumps(control_variates.signs(keep), np.full(5, 0.4))
    system, design = bumps(keep) + 0.1 * np.eye(20), np.column_stack([np.ones(20), keep])
    values = rng.standard_normal(20)
    a, c, v = control_variates.leave_out(system, design, values)
    for u in range(10):
        rest = np.delete(np.arange(20), [2 * u, 2 * u + 1])
        border = np.block(
            [[system[np.ix_(rest, rest)], design[rest]], [design[rest].T, np.zeros((6, 6))]],
        )
        want = np.linalg.solve(border, np.append(values[rest], np.zeros(6)))[:18]
        without = a - c[:, 2 * u : 2 * u + 2] @ v[2 * u : 2 * u + 2]
        np.testing.assert_allclose(without[rest], want, rtol=1e-4, atol=1e-5)  # ALONE is in the blocks
        np.testing.assert_allclose(without[2 * u : 2 * u + 2], 0, atol=1e-4)


def test_controls_never_see_their_own_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        control_variates, "KINDS", control_variates.KINDS[:1]
    )  # the others take theta from all slopes
    rng = np.random.default_rng(5)
    keep, drawn = MaskPairs(8, np.ones(4), seed=0).first(30)
    values, weights = rng.standard_normal(60), np.full(60, 1 / 60)
    before = control_variates.controls(keep, values, weights, drawn, control_variates.shapley_lines).left_out
    values[10:12] += rng.standard_normal(2)
    after = control_variates.controls(keep, values, weights, drawn, control_variates.shapley_lines).left_out
    np.testing.assert_allclose(after[10:12], before[10:12], atol=1e-4 * np.abs(before).max())
    assert np.abs(after - before)[12:].max() > 1e-2 * np.abs(before).max()


@pytest.mark.parametrize("pairs", [40, 127])
def test_blended_controls_explain_nothing(pairs: int) -> None:
    """With every mask drawn they have no explanation at all, exactly; else what one has is blended in."""
    rng = np.random.default_rng(6)
    keep, drawn = MaskPairs(8, np.ones(4), seed=0).first(pairs)
    weights = mask_sampling.law_weights(
        keep, np.concatenate([[0.0], 7 / (np.arange(1, 8) * np.arange(7, 0, -1)), [0]])
    )
    found = control_variates.controls(
        keep, rng.standard_normal(2 * pairs), weights, drawn, control_variates.shapley_lines
    )
    full = np.repeat(drawn, 2) == 1
    assert (found.blended[~full] != found.left_out[~full]).all()
    if pairs == 127:
        share = keep.mean(1, keepdims=True)
        for h in found.blended.T:  # the constrained fit of h, whose values at both ends are its own line's
            slopes = mask_sampling.fit(keep - share, h, weights, drawn).coefficients
            np.testing.assert_allclose(slopes - slopes.mean(), 0, atol=1e-10)


def test_nothing_to_adjust_for_a_linear_function() -> None:
    keep, drawn = MaskPairs(8, np.ones(4), seed=0).first(30)
    found = control_variates.controls(
        keep, keep @ np.arange(8.0), np.ones(60), drawn, control_variates.shapley_lines
    )
    assert found.left_out.shape == found.blended.shape == (60, 0)


def test_surrogates_learn_from_so_many_rows_and_serve_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_variates, "MAX_CENTRES", 40)
    keep, drawn = MaskPairs(9, np.ones(4), seed=0).first(60)
    values = (keep[:, 0] & keep[:, 1] | keep[:, 2]).astype(float)
    found = control_variates.controls(keep, values, np.ones(120), drawn, control_variates.shapley_lines)
    assert found.left_out.shape == (120, 3)
    later = np.corrcoef(found.left_out[40:, 2], values[40:])[0, 1]
    assert later > 0.3


def test_rows_double_until_precise() -> None:
    asked: list[int] = []

    def estimate(count: int) -> Estimate:
        asked.append(count)
        return Estimate(np.ones(4), np.ones(4) / np.sqrt(count), count)

    assert mask_sampling.until_precise(estimate, 10, 1000, 0.2).pairs == 40
    assert asked == [10, 20, 40]
    assert mask_sampling.until_precise(estimate, 10, 25, 0.0).pairs == 25
    assert Estimate(np.zeros(2), np.ones(2), 1).precision == np.inf
