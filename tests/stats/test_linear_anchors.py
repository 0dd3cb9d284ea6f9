"""Precision on a linear rule against enumeration and draws; the best anchor against all anchors."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from scipy import stats

from heedful.core.errors import HeedfulError
from heedful.stats import linear_anchors, ratio_game
from heedful.stats.linear_anchors import LinearRule


def drawn(seed: int, count: int = 9) -> LinearRule:
    weights = np.random.default_rng(seed).standard_normal(count)
    return LinearRule(weights, 0.2 - float(np.minimum(weights, 0).sum()) / 2)


@pytest.mark.parametrize("anchor", [(), (2,), (0, 5)])
def test_exact_is_a_count_of_all_ways(anchor: tuple[int, ...]) -> None:
    rule = drawn(0)
    keep = np.array(list(product([False, True], repeat=9)))
    keep = keep[keep[:, list(anchor)].all(1)]
    assert linear_anchors.exact(rule, anchor) == float(np.mean(rule(keep) > 0))


def test_gaussian_is_the_normal_law_of_the_same_mean_and_variance() -> None:
    rule = drawn(1, 300)
    keep = np.random.default_rng(2).random((40_000, 300)) < 0.5
    keep[:, [3, 4]] = True
    margins = rule(keep)
    want = stats.norm.sf(0, margins.mean(), margins.std())
    assert linear_anchors.gaussian(rule, (3, 4)) == pytest.approx(want, abs=0.01)  # of the draws
    assert float(np.mean(margins > 0)) == pytest.approx(want, abs=0.02)


def test_gaussian_with_counts_and_idf_is_the_published_formula() -> None:
    weight, copies, kept, bias = np.array([1.5, -0.7, 0.4]), np.array([2, 3, 1]), np.array([1, 0, 1]), 0.3
    rule = LinearRule(np.repeat(weight, copies), bias)
    anchor = [0, 5]  # a copy of the first word and the only one of the third
    upper = bias + (weight * (copies + kept)).sum() / 2
    lower = np.sqrt((weight**2 * (copies - kept)).sum() / 4)
    assert linear_anchors.gaussian(rule, anchor) == pytest.approx(stats.norm.cdf(upper / lower))


@pytest.mark.parametrize("seed", range(4))
def test_largest_weights_are_the_best_anchor_of_every_size(seed: int) -> None:
    rule = drawn(seed, 7)
    order = np.argsort(-rule.weights)
    for size in range(8):
        best = max(linear_anchors.exact(rule, some) for some in combinations(range(7), size))
        assert linear_anchors.exact(rule, order[:size].tolist()) == best


def test_shortest_is_the_shortest() -> None:
    rule = drawn(3, 8)
    found = linear_anchors.shortest(rule, 0.9)
    assert linear_anchors.exact(rule, found) >= 0.9
    smaller = list(combinations(range(8), len(found) - 1))
    assert all(linear_anchors.exact(rule, some) < 0.9 for some in smaller)


def test_a_head_has_the_sign_of_its_numerator() -> None:
    rng = np.random.default_rng(0)
    scores, values = 3 * rng.standard_normal((2, 8)), rng.standard_normal((2, 8))
    game = ratio_game.from_scores((scores[0], scores[1]), (values[0], values[1]), [[t] for t in range(1, 8)])
    keep = np.array(list(product([False, True], repeat=7)))
    rule = linear_anchors.of_head(game)
    signs = np.sign(game(keep))
    assert {-1.0, 1.0} <= set(signs.tolist())
    np.testing.assert_array_equal(np.sign(rule(keep)), signs)


def test_nothing_left_to_chance_and_too_much() -> None:
    rule = LinearRule(np.array([1.0, 0.0]), 0.5)
    assert linear_anchors.gaussian(rule, (0,)) == linear_anchors.exact(rule, (0,)) == 1.0
    with pytest.raises(HeedfulError, match="too many subsets"):
        linear_anchors.exact(drawn(0, 30), ())
