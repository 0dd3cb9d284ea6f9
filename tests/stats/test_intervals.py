"""Intervals hold what they promise: by closed form where there is one, by simulation where there is none."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from heedful.stats.intervals import UNIT, bootstrap_ratio, max_t, mean_of, share_of, sign_flips, student

RNG = np.random.default_rng(3)


def test_student_is_the_textbook_interval() -> None:
    values = RNG.normal(size=(9, 2))
    found = student(values, claims=1)
    for m in range(2):
        error = values[:, m].std(ddof=1) / 3
        low, high = stats.t.interval(0.95, 8, values[:, m].mean(), error)
        assert (found.low[m], found.high[m]) == pytest.approx((low, high))


def test_student_for_many_claims_is_bonferroni() -> None:
    values = RNG.normal(size=(9, 1))
    low, high = stats.t.interval(1 - 0.05 / 40, 8, values.mean(), values.std(ddof=1) / 3)
    assert student(values, claims=40).low[0] == pytest.approx(low)
    assert student(values, claims=40).high[0] == pytest.approx(high)


def test_the_mean_of_one_row_of_draws() -> None:
    values = np.array([1.0, 2.0, 4.0])
    mean, span = mean_of(values)
    assert mean == pytest.approx(7 / 3)
    assert span == pytest.approx(stats.t.interval(0.95, 2, values.mean(), stats.sem(values)))


def test_a_mean_of_shares_stays_within_its_range() -> None:
    values = np.array([1.0, 1.0, 0.7])
    assert mean_of(values)[1][1] > 1
    assert mean_of(values, UNIT)[1] == (max(mean_of(values)[1][0], 0.0), 1.0)


@pytest.mark.parametrize("k", [0, 1, 7, 12])
def test_a_share_has_the_interval_of_clopper_and_pearson(k: int) -> None:
    share, span = share_of([True] * k + [False] * (12 - k))
    want = stats.binomtest(k, 12).proportion_ci(0.95, "exact")
    assert share == k / 12
    assert span == pytest.approx((want.low, want.high))
    wide = stats.binomtest(k, 12).proportion_ci(1 - 0.05 / 4, "exact")
    assert share_of(np.arange(12) < k, claims=4)[1] == pytest.approx((wide.low, wide.high))


def test_a_share_of_none_is_no_number() -> None:
    assert np.isnan(share_of([])[0])


def test_one_draw_says_nothing() -> None:
    assert np.isinf(student(np.ones((1, 2)), 1).low).all()
    assert np.isinf(max_t(np.ones((1, 2)), 0).high).all()


def test_bootstrap_of_a_ratio() -> None:
    """Large n: the delta method's interval of a ratio of sums."""
    under = RNG.integers(1, 5, 400).astype(float)
    over = RNG.binomial(under.astype(int), 0.3).astype(float)
    ratio = over.sum() / under.sum()
    error = np.sqrt(np.square(over - ratio * under).sum()) / under.sum()
    low, high = bootstrap_ratio(over, under, seed=0)
    # 2,000 draws: the ends move by about 0.05 standard errors
    assert (low, high) == pytest.approx((ratio - 1.96 * error, ratio + 1.96 * error), abs=0.2 * error)


def test_bootstrap_leaves_out_draws_without_examples() -> None:
    low, high = bootstrap_ratio(np.array([1.0, 0.0, 0.0]), np.array([1.0, 0.0, 0.0]), seed=0)
    assert (low, high) == (1.0, 1.0)


def test_max_t_covers_all_heads_together() -> None:
    """30 correlated columns with mean 0.2: in about 95 of 100 data sets no interval misses."""
    held = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        values = 0.2 + rng.normal(size=(25, 1)) + rng.normal(size=(25, 30))
        band = max_t(values, seed)
        held += bool(((band.low <= 0.2) & (band.high >= 0.2)).all())
    assert 90 <= held <= 100  # binomial(100, 0.95): below 90 once in 90
    single = max_t(values[:, :1], 0)
    assert band.high[0] - band.low[0] > 1.2 * (single.high[0] - single.low[0])


def test_sign_flips_against_full_enumeration() -> None:
    """6 units: all 64 signs can be written down."""
    values = RNG.normal(0.5, 1, size=(6, 3))
    signs = np.array(list(itertools.product([-1, 1], repeat=6)))
    flipped = signs[:, :, None] * values  # (64, 6, 3)
    t = np.abs(flipped.mean(1)) / (flipped.std(1, ddof=1) / np.sqrt(6))
    seen = np.abs(values.mean(0)) / (values.std(0, ddof=1) / np.sqrt(6))
    exact = (t.max(1)[:, None] >= seen * (1 - 1e-9)).mean(0)
    found = sign_flips(values, seed=0)
    assert found.p == pytest.approx(exact, abs=0.04)  # 2,000 draws: a standard error of at most 0.011
    assert found.largest == pytest.approx(np.quantile(np.abs(flipped.mean(1)).max(1), 0.95), rel=0.1)


def test_sign_flips_see_an_effect_and_nothing_in_nothing() -> None:
    values = np.stack([np.full(20, 0.1), np.zeros(20)], 1)
    found = sign_flips(values, seed=0)
    assert found.p[0] < 0.001
    assert found.p[1] == 1.0


def test_max_t_is_never_shorter_than_bonferroni() -> None:
    """Columns that are all alike need no correction, as the bootstrap sees; few units make it too bold."""
    values = np.repeat(RNG.normal(size=(12, 1)), 50, 1)
    found, least = max_t(values, 0), student(values, claims=50)
    assert found.high == pytest.approx(least.high)
    assert found.low == pytest.approx(least.low)


def test_max_t_grows_with_skewed_values() -> None:
    """Bonferroni trusts in bell shapes; the largest of many log-normal columns reaches further."""
    values = np.random.default_rng(5).lognormal(sigma=1.5, size=(15, 40))
    reach = max_t(values, 0).high - values.mean(0)
    bell = student(values, claims=40).high - values.mean(0)
    assert (reach > 1.05 * bell).all()  # 1.076 with this draw; 1 if the bootstrap had no say
