"""Methods beside controls, picture by picture: the p values by hand, and how often a claim is false."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from bench.verdicts import rates
from bench.verdicts.laws import LAWS
from bench.verdicts.laws import pools as pools_of_law
from scipy import stats

from heedful.core.defaults import AUDIT_CONTROLS
from heedful.metrics.random_orders import Pools
from heedful.metrics.verdict import MethodFacts, judge
from heedful.metrics.verdict_types import Verdict
from heedful.stats.best_comparison import ALPHA, MAX_RESAMPLED_TEXTS
from heedful.stats.paired_test import paired_p, paired_p_at_all_times
from heedful.stats.sequential_tests import reach


def test_p_is_at_least_the_share_of_all_flips() -> None:
    for seed in range(5):
        gaps = np.random.default_rng(seed).normal(0.8, 1.0, size=(8, 1))
        flips = [np.mean(np.array(s) * gaps[:, 0]) for s in itertools.product((1, -1), repeat=8)]
        exact = float(np.mean(np.array(flips) >= gaps.mean() - 1e-9))
        assert paired_p(gaps, draws=20_000)[0] >= exact - 4 * np.sqrt(exact * (1 - exact) / 20_000)


def test_a_clear_difference_has_the_smallest_p_and_the_reverse_has_none() -> None:
    gaps = np.random.default_rng(1).normal(3.0, 1.0, size=(24, 1))
    assert paired_p(gaps, draws=999)[0] == pytest.approx(1 / 1000)
    assert paired_p(-gaps, draws=999)[0] == 1.0
    assert (
        paired_p(1e9 * gaps, draws=999)[0] == paired_p(1e-9 * gaps, draws=999)[0] == pytest.approx(1 / 1000)
    )


def test_a_copy_of_the_control_is_not_better_and_a_constant_lift_is() -> None:
    assert paired_p(np.zeros((24, 1)), draws=999)[0] == 1.0
    assert paired_p(np.full((24, 1), 0.5), draws=999)[0] == pytest.approx(1 / 1000)
    assert paired_p_at_all_times(np.zeros((24, 1)))[0] == 1.0


def test_one_picture_and_none_claim_nothing() -> None:
    for n in (0, 1):
        assert paired_p(np.ones((n, 3))).tolist() == [1.0] * 3
        assert paired_p_at_all_times(np.ones((n, 3))).tolist() == [1.0] * 3


def test_many_pictures_have_the_law_of_student() -> None:
    gaps = np.random.default_rng(2).normal(0.03, 1.0, size=(MAX_RESAMPLED_TEXTS + 1, 1))
    wanted = stats.ttest_1samp(gaps[:, 0], 0.0, alternative="greater").pvalue
    assert paired_p(gaps)[0] == pytest.approx(float(wanted))


def test_p_at_all_times_is_the_level_whose_bound_is_reached() -> None:
    gaps = np.random.default_rng(3).normal(1.0, 1.0, size=(40, 1))
    t = float(gaps.mean() / (gaps.std(ddof=1) / np.sqrt(40)))
    p = float(paired_p_at_all_times(gaps)[0])
    assert p < ALPHA
    assert reach(40, p * 1.001) <= t <= reach(40, p / 1.001)


# --- in a verdict ------------------------------------------------------------------------------------------


def audited(quality: list[float], controls: list[float], n: int = 30, seed: int = 0) -> Pools:
    """Methods and controls of known quality."""
    every = np.array([*quality, *controls])
    found = pools_of_law(LAWS["symmetric"], every, n, np.random.default_rng(seed))
    names = (*found.methods[: len(quality)], *AUDIT_CONTROLS)
    return Pools(names, found.cells, found.values, found.orders)


def told(found: Verdict) -> str:
    return "\n".join(found.sentences)


def test_a_control_is_never_recommended_certified_or_listed() -> None:
    """The control is far better than every method."""
    found = judge(audited([1.0, 1.0], [4.0, 0.0], 60), MethodFacts({"edges": 0.0, "method-0": 5.0}))
    assert found.use in {"method-0", "method-1"}
    for names in (found.better, found.not_proven, found.may_be_best):
        assert not set(names) & set(AUDIT_CONTROLS)
    assert [one.control for one in found.controls] == list(AUDIT_CONTROLS)
    assert found.controls[0].share > 0.9
    for line in found.sentences:
        assert not line.startswith("Better than random, too") or "edges" not in line


def test_the_first_sentence_says_that_the_method_is_not_shown_better() -> None:
    found = judge(audited([1.5, 0.0], [3.0, 0.0]))
    assert found.use == "method-0"
    assert "not shown better than edges:" in found.headline
    assert "Not shown better than edges: method-0." in found.sentences
    assert "Not shown better than edges or smooth-random: method-1." in found.sentences
    assert found.not_shown_better == {"edges": ["method-0", "method-1"], "smooth-random": ["method-1"]}
    assert "92.5 %" in told(found)
    assert "95 %" not in told(found)


def test_a_method_above_all_controls_has_no_limit_in_its_first_sentence() -> None:
    found = judge(audited([3.0, 0.5], [1.0, 0.0], 40))
    assert found.headline.startswith("Use method-0: it beat random orders on ")
    assert "Better than edges and smooth-random on 40 pictures: method-0." in told(found).replace(
        "texts", "pictures"
    )
    assert found["method-0"].not_shown_better == ()


def test_of_certified_methods_one_above_the_controls_is_used_though_it_costs_more() -> None:
    """Both are certified; one stays on the level of the control on the pictures where it counts."""
    pools = audited([2.0, 2.0], [1.9, 0.0], 300)
    values = np.array(pools.values)
    values[:, 1] = values[:, 2] + 0.01 * np.where(np.arange(300) % 2, 1.0, -1.0)[:, None]  # copies edges
    values[:, 0] = values[:, 2] + 0.1
    copied = Pools(pools.methods, pools.cells, values, pools.orders)
    found = judge(copied, MethodFacts({"method-0": 100.0, "method-1": 1.0}))
    assert found["method-0"].certified
    assert found["method-1"].certified
    assert found["method-1"].not_shown_better == ("edges",)
    assert found.use == "method-0"


@pytest.mark.parametrize("n", [10, 19])
def test_below_twenty_pictures_nothing_is_said_of_controls(n: int) -> None:
    found = judge(audited([3.0, 3.0], [0.0, 0.0], n))
    assert found.controlled == 0
    assert not any(one.against for one in found.methods)
    assert "with each other and with edges and smooth-random, at least 20" in told(found)
    alone = judge(audited([3.0], [0.0, 0.0], n))
    assert alone.use == "method-0"
    assert "To compare with edges and smooth-random, which do not look at the model, at least 20" in told(
        alone
    )


def test_without_controls_nothing_changes() -> None:
    pools = audited([2.0, 0.5], [1.0, 0.0], 40)
    with_controls = judge(pools)
    without = judge(pools.only(pools.methods[:2], {cell.operator for cell in pools.cells}))
    assert without.controls == ()
    assert [(one.p, one.z, one.gap, one.better) for one in without.methods] == [
        (one.p, one.z, one.gap, one.better) for one in with_controls.methods
    ]
    assert "95 %" in told(without)


def test_a_method_of_unknown_origin_must_be_above_under_every_operator() -> None:
    pools = audited([1.5], [0.0, 0.0], 60)
    values = np.array(pools.values)
    swap = [cell.operator == "swap" for cell in pools.cells]
    values[:, 0, swap] = values[:, 1, swap]  # under one operator it does as the control
    mixed = Pools(pools.methods, pools.cells, values, pools.orders)
    assert judge(mixed)["method-0"].not_shown_better == ()
    unknown = judge(mixed, MethodFacts(fitted_by={"method-0": None}))
    assert "edges" in unknown["method-0"].not_shown_better


def _errors(law: str, audits: int, n: int = 20, always: bool = False) -> int:
    return sum(
        rates.false_above(
            judge(
                rates.controlled(law, n, np.random.default_rng([seed, n])),
                seed=seed,
                always=always,
                exchanges=999,
            )
        )
        for seed in range(audits)
    )


@pytest.mark.parametrize("law", ["symmetric", "rare wins"])
def test_a_method_like_the_control_is_seldom_shown_better(law: str) -> None:
    """At 2.5 %, more than 7 of 60 audits would come in one of 10,000 tests."""
    assert _errors(law, 60) <= stats.binom.isf(1e-4, 60, ALPHA)


@pytest.mark.slow
@pytest.mark.parametrize("law", list(LAWS))
def test_the_rate_of_false_claims_over_controls(law: str) -> None:
    errors = _errors(law, 1000)
    assert rates.Rate("", errors, 1000).interval[0] <= ALPHA


@pytest.mark.slow
@pytest.mark.parametrize("law", ["symmetric", "rare wins", "heavy tails"])
def test_the_rate_when_looked_at_after_every_picture(law: str) -> None:
    """From the twentieth to the sixtieth picture, any claim at any time counts."""
    errors = 0
    for seed in range(200):
        pools = rates.controlled(law, 60, np.random.default_rng([seed, 60]))
        looks = (judge(rates.first(pools, n), always=True) for n in range(20, 61, 5))
        errors += any(rates.false_above(look) for look in looks)
    assert rates.Rate("", errors, 200).interval[0] <= ALPHA
