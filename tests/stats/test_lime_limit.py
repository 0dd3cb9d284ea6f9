"""LIME's limit and the ratio game against brute force over all 2^d masks, and the theory's consequences."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from math import comb

import numpy as np
import pytest
from scipy import stats

from heedful.core.errors import HeedfulError
from heedful.stats import lime_limit, ratio_game
from heedful.stats.ratio_game import RatioGame

Function = Callable[[np.ndarray], np.ndarray]
EXACT = 1e-10
WIDTHS = [0.1, 0.25, 1.0, np.inf]


def masks(d: int) -> np.ndarray:
    return np.array(list(product([False, True], repeat=d)))


def lime_by_enumeration(f: Function, d: int, nu: float) -> np.ndarray:
    """(d + 1,): intercept and slopes of weighted least squares over every mask, weighed by its chance."""
    keep = masks(d)
    removed = d - keep.sum(1)
    chance = np.array([0.0 if s == 0 else 1 / (d * comb(d, s)) for s in removed.tolist()])
    distance = 100 * (1 - np.sqrt(1 - removed / d))  # 100 x cosine distance
    kernel = np.sqrt(np.exp(-(distance**2) / (100 * nu) ** 2)) if np.isfinite(nu) else np.ones(len(keep))
    root = np.sqrt(chance * kernel)[:, None]
    design = np.column_stack([np.ones(len(keep)), keep])
    return np.linalg.lstsq(design * root, f(keep) * root[:, 0], rcond=None)[0]


def shapley_by_enumeration(f: Function, d: int) -> np.ndarray:
    """Mean over all orders of what each word adds, by its sets' sizes."""
    keep = masks(d)
    value = {tuple(row): v for row, v in zip(keep.tolist(), f(keep), strict=True)}
    found = np.zeros(d)
    for row, v in value.items():
        for j in [j for j in range(d) if not row[j]]:
            more = (*row[:j], True, *row[j + 1 :])
            found[j] += (value[more] - v) / (d * comb(d - 1, sum(row)))
    return found


def random_game(d: int, sd: float, seed: int = 0, repeated: int = 1) -> RatioGame:
    """A head over d words of `repeated` tokens and two tokens that always stay."""
    rng = np.random.default_rng(seed)
    length = repeated * d + 2
    groups = [[1 + j + d * k for k in range(repeated)] for j in range(d)]
    s1, s0, u1, u0 = rng.standard_normal((4, length))
    return ratio_game.from_scores((sd * s1, sd * s0), (u1, u0), groups)


def moments(f: Function, d: int, nu: float) -> tuple[float, np.ndarray]:
    """E[pi f] and E[pi z_j f] by enumeration."""
    keep = masks(d)
    law = lime_limit.size_law(d, nu)[keep.sum(1)] / np.array([comb(d, int(m)) for m in keep.sum(1)])
    law[keep.all(1)] = 0
    return float(law @ f(keep)), (law * f(keep)) @ keep


@pytest.mark.parametrize("nu", WIDTHS)
@pytest.mark.parametrize("d", [3, 4, 6, 8])
def test_limit_is_weighted_least_squares_over_every_mask(d: int, nu: float) -> None:
    table = np.random.default_rng(d).standard_normal(2**d)

    def f(keep: np.ndarray) -> np.ndarray:
        return table[keep @ (1 << np.arange(d))]

    want = lime_by_enumeration(f, d, nu)
    b0, b = lime_limit.limit(*moments(f, d, nu), nu)
    # at d = 3, nu = 0.1 the normal equations lose five digits
    np.testing.assert_allclose([b0, *b], want, atol=1e-8 if d == 3 else EXACT)


@pytest.mark.parametrize("nu", WIDTHS)
def test_alphas_are_moments(nu: float) -> None:
    d = 7
    keep = masks(d)
    for p, alpha in enumerate(lime_limit.alphas(d, nu, 4)):
        mean, _ = moments(lambda z, p=p: z[:, :p].all(1).astype(float), d, nu)
        assert alpha == pytest.approx(mean, abs=1e-15)
    assert len(keep) == 128
    np.testing.assert_array_equal(lime_limit.alphas(2, nu, 4)[3:], 0)  # three words of two are never kept


def test_wide_bandwidth_constants() -> None:
    for d in (2, 5, 40):
        p = np.arange(4)
        np.testing.assert_allclose(lime_limit.alphas(d, np.inf, 3), np.maximum(d - p, 0) / ((p + 1) * d))
        k = lime_limit.constants(d, np.inf)
        assert k.s0 == pytest.approx(2 * (2 * d - 1) / (d + 1))
        assert k.s1 == pytest.approx(-6 / (d + 1))
        assert k.s2 == pytest.approx(6 * (d**2 - 2 * d + 3) / (d**2 - 1))
        assert k.s3 == pytest.approx(-6 * (d - 3) / (d**2 - 1))


@pytest.mark.parametrize("d", [4, 6, 8])
def test_finite_d_corollary_and_how_wrong_its_usual_form_is(d: int) -> None:
    """b_j = 3(d-1)/(d+1) m_j - 3(d-3)/(d(d+1)) sum m_k - 6/(d+1) m, with m_j = E[f | j kept]."""
    f = random_game(d, 1.0, seed=d)
    mean, mean_with = moments(f, d, np.inf)
    m_j = mean_with / lime_limit.alphas(d, np.inf)[1]
    exact = 3 * (d - 1) / (d + 1) * m_j - 3 * (d - 3) / (d * (d + 1)) * m_j.sum() - 6 / (d + 1) * mean
    np.testing.assert_allclose(exact, lime_by_enumeration(f, d, np.inf)[1:], atol=EXACT)
    usual = 3 * m_j - 3 / d * m_j.sum()
    assert np.abs(usual - exact).max() > 0.02  # equality holds up to O(1/d) only


@pytest.mark.parametrize("nu", WIDTHS)
def test_linear_functions_are_recovered_and_indicators_are_one_word(nu: float) -> None:
    rng = np.random.default_rng(1)
    slopes = rng.standard_normal(6)
    b0, b = lime_limit.limit(*moments(lambda z: 0.7 + z @ slopes, 6, nu), nu)
    np.testing.assert_allclose([b0, *b], [0.7, *slopes], atol=EXACT)
    _, b = lime_limit.limit(*moments(lambda z: z[:, 2].astype(float), 6, nu), nu)
    np.testing.assert_allclose(b, np.eye(6)[2], atol=EXACT)


def test_limit_is_linear_in_f() -> None:
    f, g = random_game(5, 2.0, 1), random_game(5, 2.0, 2)
    one, two = (lime_limit.limit(*moments(h, 5, 0.25), 0.25)[1] for h in (f, g))
    both = lime_limit.limit(*moments(lambda z: 3 * f(z) - g(z) + 5, 5, 0.25), 0.25)[1]
    np.testing.assert_allclose(both, 3 * one - two, atol=EXACT)


@pytest.mark.parametrize("nu", WIDTHS)
def test_a_small_tree_from_alphas(nu: float) -> None:
    """1_a + (1 - 1_a) 1_b 1_c has its limit in closed form from alpha_0 .. alpha_4."""
    d = 7
    a = lime_limit.alphas(d, nu, 4)
    mean = a[1] + a[2] - a[3]
    with_j = np.full(d, a[2] + a[3] - a[4])
    with_j[0], with_j[1:3] = a[1], a[2] + a[2] - a[3]
    want = lime_by_enumeration(lambda z: z[:, 0] + (1.0 - z[:, 0]) * z[:, 1] * z[:, 2], d, nu)[1:]
    np.testing.assert_allclose(lime_limit.limit(mean, with_j, nu)[1], want, atol=EXACT)


@pytest.mark.parametrize("nu", WIDTHS)
@pytest.mark.parametrize("d", [2, 3, 10, 60, 250])
def test_coin_mixture_has_the_size_law(d: int, nu: float) -> None:
    p, w = lime_limit.coin_mixture(d, nu)
    law = stats.binom.pmf(np.arange(d + 1)[:, None], d, p) @ w
    target = lime_limit.size_law(d, nu)
    if (
        np.isinf(nu) and d // 2 + 1 > lime_limit.NODES
    ):  # sizes one by one ask for more nodes than smooth means
        law, target = law[:-1:10].cumsum(), target[:-1:10].cumsum()
    np.testing.assert_allclose(law, target, atol=1e-11)
    assert np.abs(w).sum() < 2  # signed, but tame: no digits are lost


@pytest.mark.parametrize("sd", [0.5, 2.0, 4.0])
@pytest.mark.parametrize("d", [1, 2, 3, 7, 10])
def test_ratio_game_against_enumeration(d: int, sd: float) -> None:
    game = random_game(d, sd, seed=d, repeated=2)
    values = ratio_game.shapley(game)
    np.testing.assert_allclose(values, shapley_by_enumeration(game, d), atol=EXACT)
    ends = game(np.array([[True] * d, [False] * d]))
    assert values.sum() == pytest.approx(ends[0] - ends[1], abs=EXACT)
    for nu in WIDTHS if d > 3 else [0.25, np.inf] if d > 1 else []:
        np.testing.assert_allclose(
            ratio_game.lime(game, nu), lime_by_enumeration(game, d, nu)[1:], atol=EXACT
        )
    if d == 1:
        np.testing.assert_allclose(ratio_game.lime(game), ends[:1] - ends[1:], atol=EXACT)


def test_long_texts_stay_exact() -> None:
    """d = 120: efficiency, and the mean of 40,000 rows within five of its standard errors."""
    d = 120
    game = random_game(d, 2.0, seed=5)
    ends = game(np.array([[True] * d, [False] * d]))
    assert ratio_game.shapley(game).sum() == pytest.approx(ends[0] - ends[1], abs=EXACT)
    rng = np.random.default_rng(0)
    p = np.array([0.2, 0.9])
    mean, with_j, without_j = ratio_game.coin_means(game, p)
    np.testing.assert_allclose(p[:, None] * with_j + (1 - p[:, None]) * without_j, mean[:, None] + 0 * with_j)
    for chance, want in zip(p, mean, strict=True):
        drawn = game(rng.random((40_000, d)) < chance)
        assert abs(drawn.mean() - want) < 5 * drawn.std() / 200


def test_erratum_three_halves_is_off_by_half_where_it_is_claimed() -> None:
    """Diffuse attention: the leading constant of LIME's limit is 1 with centred values, not 3/2."""
    rng = np.random.default_rng(0)
    d, padding = 99, 156
    s1, s0 = rng.uniform(-0.5, 0.5, (2, d + padding))
    u1, u0 = rng.standard_normal((2, d + padding))
    game = ratio_game.from_scores((s1, s0), (u1, u0), [[j] for j in range(d)])
    exact = ratio_game.lime(game, np.inf)
    full = game.always_g + game.g1.sum()
    published = 1.5 * (game.n1 - game.n0) / full  # 3/2 (alpha_t v_t - alpha_ht v_ht)
    half_g = game.always_g + (game.g1 + game.g0).sum() / 2
    half_f = (game.always_n + (game.n1 + game.n0).sum() / 2) / half_g
    centred = (game.n1 - game.n0 - half_f * (game.g1 - game.g0)) / half_g

    def error(guess: np.ndarray) -> float:
        return float(np.linalg.norm(guess - exact) / np.linalg.norm(exact))

    assert 0.40 < error(published) < 0.60
    assert error(published / 1.5) < 0.15
    assert error(centred) < 0.005


def test_equal_scores_make_the_constant_exactly_one() -> None:
    u1, u0 = np.random.default_rng(3).standard_normal((2, 12))
    game = ratio_game.from_scores((np.zeros(12), np.zeros(12)), (u1, u0), [[j] for j in range(1, 11)])
    for nu in WIDTHS:
        np.testing.assert_allclose(ratio_game.lime(game, nu), (u1 - u0)[1:11] / 12, atol=EXACT)


@pytest.mark.parametrize("nu", [0.25, np.inf])
def test_limit_of_pairs(nu: float) -> None:
    pairs = np.random.default_rng(2).standard_normal((6, 6))
    pairs = (pairs + pairs.T) * (1 - np.eye(6))
    want = lime_by_enumeration(lambda z: np.einsum("nk,kl,nl->n", z, pairs, z) / 2, 6, nu)
    b0, b = lime_limit.limit_of_pairs(pairs, nu)
    np.testing.assert_allclose([b0, *b], want, atol=EXACT)


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(HeedfulError, match="bandwidth"):
        lime_limit.psi(np.array([0.5]), 0.0)
    with pytest.raises(HeedfulError, match="too narrow"):
        lime_limit.constants(3, 0.05)
    with pytest.raises(HeedfulError, match="two words"):
        lime_limit.constants(1, 0.25)
    with pytest.raises(HeedfulError, match="too far apart"):
        ratio_game.from_scores(
            (np.array([0.0, 2000.0]), np.array([0.0, 0.0])), (np.ones(2), np.ones(2)), [[1]]
        )
