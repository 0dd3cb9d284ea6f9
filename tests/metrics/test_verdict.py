"""The verdict on values whose truth is known: it finds what is there and claims nothing that is not."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from bench.verdicts import rates
from bench.verdicts.laws import CELLS, LAWS, pools
from scipy import stats

from heedful.core.arrays import Floats
from heedful.core.defaults import MIN_COMPARED_TEXTS, MIN_TEXTS
from heedful.metrics.random_orders import (
    MetricCell,
    Pools,
    beaten,
    by_family,
    exchanged,
    joined,
    merged_scores,
    standard,
)
from heedful.metrics.verdict import DELTA, MethodFacts, judge, judging_operators
from heedful.metrics.verdict_sentences import PROMISE, answer, as_good
from heedful.stats.best_comparison import best_methods, decide, differences, sparse_low
from heedful.stats.exchange_test import exchange_p, holm
from heedful.stats.rounding import merged, output_step
from heedful.stats.sequential_tests import _wealth, best_at_all_times, better_p, reach

NORMAL = LAWS["symmetric"]
FEW = 2000  # exchanges, where many verdicts are made: the test is exact with any number


def drawn(quality: list[float], n: int = 50, seed: int = 0, law: str = "symmetric") -> Pools:
    return pools(LAWS[law], np.array(quality), n, np.random.default_rng(seed))


def at_most(false: int, of: int, rate: float = 0.05) -> bool:
    """Whether a count is one that `rate` explains: its lower Clopper-Pearson limit (99.9 %) is not above."""
    return false == 0 or float(stats.beta.ppf(0.001, false, of - false + 1)) <= rate


# --- the words -------------------------------------------------------------------------------------------


def test_the_headline_is_one_sentence_that_names_a_certified_method() -> None:
    found = judge(drawn([2.5, 0.0, 1.0]), MethodFacts({"method-0": 10.0, "method-1": 1.0, "method-2": 1.0}))
    best = found["method-0"]
    assert found.use == "method-0"
    assert found.certified
    assert answer(found) == [
        f"Use method-0: it beat random orders on {best.won} of 50 texts.",
        "No method is better.",
        "Better than random, too: method-2.",
        "Not proven better: method-1.",
    ]
    assert found.headline == answer(found)[0] == str(found).splitlines()[0]
    assert str(found).count(PROMISE) == 1


def test_of_methods_as_good_the_one_with_fewest_model_inputs_is_used() -> None:
    many = drawn([2.0, 2.0, 2.0, 0.0], 800)
    for cheap in range(3):
        inputs = {f"method-{place}": 100.0 - 99 * (place == cheap) for place in range(4)}
        found = judge(many, MethodFacts(inputs), exchanges=FEW)
        assert found.use == f"method-{cheap}"
        assert 0 <= found[found.use].gap <= DELTA
    assert found[found.use].gap > 0
    limit = max(found[f"method-{place}"].gap for place in range(3))
    assert answer(found)[1] in {
        f"{first} and {second} are as good: no method is better by more than "
        f"{np.ceil(100 * limit) / 100:.2f} standard deviations of random orders."
        for first, second in (("method-0", "method-1"), ("method-1", "method-0"))
    }
    assert not any(line.startswith("Better than random, too") for line in answer(found))
    assert "Not proven better: method-3." in answer(found)
    assert "above their mean" not in " ".join(answer(found))
    assert "standard deviations of random orders above their mean." in str(found)
    unknown = judge(many, MethodFacts({"method-1": 5.0}), exchanges=FEW)
    assert unknown.use == "method-1", "an unknown cost is no low cost"


def test_without_a_certificate_the_best_mean_is_called_so() -> None:
    found = judge(drawn([1.2, 1.2, 1.2, 0.0], 20, 3))
    assert found.use
    assert not found.certified
    one = found[found.use]
    assert found.headline == (
        f"Use {one.method}, not certified: it beat random orders on {one.won} of {one.texts} texts."
    )
    assert f"another method may be better by up to {np.ceil(100 * one.gap) / 100:.2f} " in answer(found)[1]
    assert "as good" not in str(found)
    assert found.use == max(found.methods, key=lambda one: one.z).method


def test_as_good_is_said_only_of_certified_methods_that_may_be_the_best() -> None:
    """Whatever the gaps are: no method outside the limit, and none that is worse than the best for sure."""
    found = judge(drawn([2.0, 2.0, 1.9, 0.9, 0.0], 800), MethodFacts({"method-1": 1.0}), exchanges=FEW)
    assert found.certified
    seen = set()
    for gap, certified, inside in [(0.1, True, True), (0.9, False, True), (0.2, True, False)]:
        changed = tuple(
            replace(one, gap=gap, certified=certified, may_be_best=inside)
            if one.method == "method-2"
            else one
            for one in found.methods
        )
        same = as_good(replace(found, methods=changed))
        assert ("method-2" in same) == (certified and inside)
        line = answer(replace(found, methods=changed))[1]
        assert ("method-2" in line) == (certified and inside)
        too = next(each for each in answer(replace(found, methods=changed)) if each.startswith("Better than"))
        assert ("method-2" in too) != ("method-2" in same)
        seen.add("method-2" in same)
    assert seen == {True, False}
    for seed in range(20):
        found = judge(drawn([2.0, 1.9, 1.5, 1.0, 0.0], 60, seed), exchanges=FEW)
        for name in as_good(found):
            assert found[name].better
            assert found[name].may_be_best
            assert found[name].gap <= DELTA


def test_none_better_than_random_is_the_headline() -> None:
    found = judge(drawn([0.0, 0.0]))
    assert found.headline == "No method is proven better than a random order on this model (50 texts)."
    assert not found.use


@pytest.mark.parametrize("n", [1, 2, MIN_TEXTS - 1])
def test_few_texts_claim_nothing(n: int) -> None:
    found = judge(drawn([9.0, 9.0], n))
    assert not found.better
    assert not found.use
    assert f"at least {MIN_TEXTS} are needed" in found.headline
    assert PROMISE not in str(found)


@pytest.mark.parametrize("n", [MIN_TEXTS, MIN_COMPARED_TEXTS - 1])
def test_below_twenty_texts_nothing_is_said_between_methods(n: int) -> None:
    found = judge(drawn([4.0, 0.8], n))
    assert "method-0" in found.better
    assert not found.use
    assert not found.may_be_best
    assert np.isnan(found["method-0"].gap)
    assert "better than random orders on these" in found.headline
    assert f"at least {MIN_COMPARED_TEXTS} texts are needed" in answer(found)[1]


def test_one_method_alone() -> None:
    assert judge(drawn([3.0])).headline == "Use method-0: it beat random orders on 50 of 50 texts."
    assert answer(judge(drawn([3.0])))[1:] == ["It is the only method that was judged."]
    assert "No method is proven better" in judge(drawn([0.0])).headline


def test_nothing_to_compare() -> None:
    flat = drawn([0.0, 0.0])
    flat = replace(flat, values=np.ones_like(flat.values), orders=np.ones_like(flat.orders))
    assert judge(flat).headline == "Nothing to compare: on 50 texts every order of words did the same."
    none = Pools(("a",), (), np.empty((30, 1, 0)), np.empty((30, 0, 0)))
    assert "was not measured" in judge(none).headline


def test_a_method_that_ran_on_few_texts_does_not_cost_the_others_theirs() -> None:
    given = drawn([2.0, 2.0, 0.0], 40)
    values = given.values.copy()
    values[:20, 1] = np.nan
    found = judge(replace(given, values=values))
    assert [one.method for one in found.methods] == ["method-0", "method-2"]
    assert "method-1 takes no part: it has scores on too few inputs." in str(found)
    assert found["method-0"].texts == 40


def test_the_same_seed_gives_the_same_verdict_and_names_do_not_matter() -> None:
    given = drawn([1.0, 0.7, 0.0], 40)
    assert judge(given, seed=3) == judge(given, seed=3)
    turned = replace(given, methods=given.methods[::-1], values=given.values[:, ::-1])
    assert {m.method: (m.better, m.won) for m in judge(turned, seed=3).methods} == {
        m.method: (m.better, m.won) for m in judge(given, seed=3).methods
    }


# --- what was wrong, each with the mend ------------------------------------------------------------------


def test_contrary_evidence_counts() -> None:
    """Best in one cell, and the reverse in the other three: nothing to recommend, whatever leads there."""
    given = drawn([0.0], 60)
    values, orders = given.values.copy(), given.orders
    values[:, 0, 0] = orders[:, :, 0].max(1) + 1
    values[:, 0, 1:] = orders[:, :, 1:].min(1) - 1
    found = judge(replace(given, values=values))
    assert found["method-0"].share == pytest.approx(0.25)
    assert not found.better


def test_near_twins_speak_with_one_voice() -> None:
    """Every cell of a family repeated three times: the same verdict, to the last digit."""
    given = drawn([0.8, 0.0], 30)
    first = [place for place, cell in enumerate(CELLS) if cell.family == "remove-top"]
    more = [*range(len(CELLS)), *first, *first]
    cells = tuple(
        replace(CELLS[place], metric=f"{CELLS[place].metric}-{at}") for at, place in enumerate(more)
    )
    twins = Pools(given.methods, cells, given.values[:, :, more], given.orders[:, :, more])
    one, other = judge(given), judge(twins)
    for name in given.methods:
        assert one[name].share == pytest.approx(other[name].share, abs=1e-12)
        assert one[name].z == pytest.approx(other[name].z, abs=1e-12)


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_one_rounding_step_is_no_claim(scale: float) -> None:
    """Outputs that agree but for their last bits, the method always one step above."""
    rng = np.random.default_rng(0)
    base = scale * np.abs(rng.normal(3.0, 1.0, size=200))
    for dtype in (np.float32, np.float64):
        for value in base.astype(dtype):
            above = np.nextafter(value, dtype(np.inf))
            outputs = np.array([above, *[value] * 20], dtype=np.float64)
            assert len(set(merged(outputs, output_step(outputs)).tolist())) == 1
    half = np.array([7.0, 7.03125, *[7.0] * 19])  # one step of bfloat16
    assert len(set(merged(scale * half, output_step(scale * half, 8)).tolist())) == 1
    real = scale * np.array([1.0, 1.001, 1.002])
    assert len(set(merged(real, output_step(real)).tolist())) == 3, "what differs stays different"


def test_merging_is_of_neighbours_and_keeps_the_order() -> None:
    values = np.array([3.0, 1.0, 1.0 + 1e-12, 2.0, 3.0 - 1e-12])
    found = merged(values, 1e-11)
    assert found.tolist() == [3.0 - 1e-12, 1.0, 1.0, 2.0, 3.0 - 1e-12]
    assert merged_scores(np.array([0.3, 0.1 + 0.2, 0.30001])).tolist() == [0.3, 0.3, 0.30001]
    assert merged(np.array([1.0]), 1.0).tolist() == [1.0]


@pytest.mark.parametrize("n", [10, 30])
@pytest.mark.parametrize("law", LAWS)
def test_a_method_that_knows_nothing_is_seldom_better_than_random(law: str, n: int) -> None:
    """Skewed, heavy-tailed, tied and rare values alike: a method is one order beside others, never a mean."""
    false = 0
    for seed in range(80):
        given = pools(LAWS[law], np.zeros(3), n, np.random.default_rng([seed, n]))
        false += bool((holm(_p(given, draws=400)) <= 0.025).any())
    assert at_most(false, 80, 0.025)


def _p(given: Pools, draws: int) -> Floats:
    every = range(len(given.methods))
    return np.array(
        [exchange_p(exchanged(given.values[:, m], given.orders, given.cells) - 0.5, 0, draws) for m in every]
    )


@pytest.mark.parametrize(("n", "methods"), [(20, 4), (12, 1), (30, 12)])
def test_right_on_half_and_the_reverse_on_the_others_is_not_better(n: int, methods: int) -> None:
    """Many methods ask for a small p, where a variance about the mean would be too small."""
    false = 0
    for seed in range(200):
        found = rates._half(n, methods, np.random.default_rng([seed, 7]))
        # the method that is right most often has the smallest p: it alone decides whether any is claimed
        reached = (found.values > found.orders.max(1, keepdims=True))[:, :, 0].sum(0) - n / 2
        top = int(np.argmax(reached))
        s = exchanged(found.values[:, top], found.orders, found.cells) - 0.5
        false += bool(exchange_p(s, seed, 2000) <= 0.025 / methods)
    assert at_most(false, 200, 0.025)


# --- oracles ---------------------------------------------------------------------------------------------


def test_shares_and_standard_scores_by_hand() -> None:
    values, orders = np.array([[[2.0], [5.0]]]), np.array([[[1.0], [2.0], [3.0], [6.0]]])
    assert beaten(values, orders)[0, :, 0].tolist() == [1.5 / 4, 3 / 4]
    spread = np.std([1, 2, 3, 6], ddof=1)
    assert standard(values, orders)[0, :, 0].tolist() == pytest.approx([-1 / spread, 2 / spread])
    alike = np.full((1, 4, 1), 0.1)
    assert standard(np.array([[[0.1], [0.2]]]), alike)[0, :, 0].tolist() == [0.0, 2.0]
    cells = (MetricCell("a", "x", "o"), MetricCell("a", "y", "o"), MetricCell("b", "z", "o"))
    assert by_family(np.array([[1.0, 3.0, 8.0]]), cells) == pytest.approx([(2 + 8) / 2])


def test_shares_of_a_pool_are_those_of_each_member_beside_the_others() -> None:
    given = drawn([0.5], 6, 4, "ties")
    found = exchanged(given.values[:, 0], given.orders, given.cells)
    whole = np.concatenate([given.values, given.orders], axis=1)
    for k in range(whole.shape[1]):
        alone = beaten(whole[:, [k]], np.delete(whole, k, 1))
        assert found[:, k] == pytest.approx(by_family(alone, given.cells)[:, 0])
    assert found.mean(1) == pytest.approx(0.5), "shares of a pool are one half on average"


def test_p_is_the_share_of_all_exchanges() -> None:
    """Three texts and three random orders: all 64 exchanges counted."""
    rng = np.random.default_rng(5)
    s = exchanged(rng.normal(size=(3, 4)) + 0.5, rng.normal(size=(3, 3, 4)), CELLS) - 0.5
    variance = np.square(s).mean(1).sum()

    def statistic(chosen: tuple[int, ...]) -> float:
        x = s[np.arange(3), list(chosen)]
        return float(x.sum() / np.sqrt(max(variance, np.square(x).sum())))

    every = [statistic(chosen) for chosen in itertools.product(range(4), repeat=3)]
    exact = float(np.mean(np.array(every) >= statistic((0, 0, 0)) - 1e-9))
    assert exchange_p(s, draws=40_000) == pytest.approx(exact, abs=4 * np.sqrt(exact / 40_000) + 1e-4)


def test_many_texts_have_the_normal_law() -> None:
    given = drawn([0.06], 3000)
    s = exchanged(given.values[:, 0], given.orders, given.cells) - 0.5
    assert exchange_p(s) == pytest.approx(exchange_p(s, draws=6000), abs=0.02)


def test_holm_is_closed_testing_with_bonferroni() -> None:
    rng = np.random.default_rng(1)
    for _ in range(50):
        p = rng.uniform(0, 0.1, size=4)
        closed = [
            max(
                min(1.0, len(group) * min(p[list(group)]))
                for size in range(1, 5)
                for group in itertools.combinations(range(4), size)
                if one in group
            )
            for one in range(4)
        ]
        assert holm(p) == pytest.approx(closed)


def test_two_methods_are_compared_as_student_does() -> None:
    z = np.random.default_rng(0).normal(size=(400, 2))
    found = best_methods(z)
    assert found.critical == pytest.approx(stats.t.ppf(0.975, 399), abs=0.12)  # 4,000 draws of a quantile
    assert found.error[0, 1] == pytest.approx((z[:, 0] - z[:, 1]).std(ddof=1) / 20)


def test_many_methods_are_compared_as_dunnett_does() -> None:
    """Equal, independent methods: differences with one of them correlate by one half."""
    z = np.random.default_rng(1).normal(size=(500, 7))
    rng = np.random.default_rng(2)
    shared = rng.normal(size=(200_000, 1)) + rng.normal(size=(200_000, 6))
    assert best_methods(z).critical == pytest.approx(
        np.quantile((shared / np.sqrt(2)).max(1), 0.975), abs=0.15
    )


def test_the_certificate_holds_and_the_best_stays() -> None:
    """Gaps of five methods with known means, unequal spreads: all hold at once in 97.5 %."""
    means, spreads = np.array([1.0, 1.0, 0.9, 0.5, 0.0]), np.array([0.5, 1.0, 2.0, 0.5, 1.0])
    wrong = gone = 0
    for seed in range(80):
        z = means + spreads * np.random.default_rng(seed).normal(size=(30, 5))
        found = best_methods(z, seed, 1000)
        wrong += bool((found.gap < 1.0 - means - 1e-12).any())
        gone += not found.inside[0]
    assert at_most(wrong, 80, 0.025)
    assert at_most(gone, 80, 0.025)


def test_methods_that_copy_each_other_do_not_set_the_bar() -> None:
    z = np.random.default_rng(3).normal(size=(40, 3))
    copies = np.concatenate([z, z, z[:, :1]], axis=1)
    assert best_methods(copies).critical.max() <= best_methods(z).critical.max() + 0.35
    mean, error = differences(copies)
    assert mean[0, 3] == error[0, 3] == 0


def test_a_constant_lift_is_no_chance() -> None:
    z = np.repeat(np.random.default_rng(0).normal(size=(30, 1)), 3, axis=1)
    z[:, 1] += 1.0
    found = best_methods(z)
    assert found.inside.tolist() == [False, True, False]
    assert found.gap == pytest.approx([1.0, 0.0, 1.0])


@pytest.mark.parametrize("rare", [0.03, 0.05, 0.1])
@pytest.mark.parametrize("n", [20, 50])
def test_methods_that_differ_on_few_texts_are_not_called_as_good(n: int, rare: float) -> None:
    """A copy of a good method that is the worst on a few texts: most often none of these has come."""
    wrong, always = 0, 0
    for seed in range(60):
        rng = np.random.default_rng([seed, n])
        good = 2 + rng.normal(size=n)
        copy = np.where(rng.random(n) < rare, -2.0, good)
        z = np.stack([good, copy, rng.normal(size=n)], 1)
        wrong += bool(best_methods(z, seed, 1000).gap[1] < 4 * rare)
        always += bool(best_at_all_times(z).gap[1] < 4 * rare)
    assert at_most(wrong, 60, 0.025)
    assert at_most(always, 60, 0.025)


def test_few_differences_are_bounded_by_hand() -> None:
    """None of 40 texts differs: the share of those that do is below 1 - 0.0125^(1/40); two comparisons."""
    z = np.zeros((40, 3))
    z[:, 2] = np.linspace(-1, 3, 40)
    low = sparse_low(z, 0.025)
    assert low[0, 1] == pytest.approx(-(1 - 0.0125 ** (1 / 40)) * 4)
    assert np.isinf(low[0, 2])


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_claims_nothing(bad: float) -> None:
    given = drawn([0.0, 0.0, 0.0], 30)
    orders = given.orders.copy()
    orders[3, 5, 1] = bad
    found = judge(replace(given, orders=orders))
    assert found == judge(replace(given, orders=orders))
    assert {one.texts for one in found.methods} == {29}
    assert not found.better
    assert np.isnan(merged(np.array([1.0, 2.0, np.nan]), 0.1)).tolist() == [False, False, True]
    assert exchange_p(np.full((5, 3), np.nan)) == 1.0


def test_texts_are_counted_for_each_method() -> None:
    """Ten texts, of which a method has eight: nothing is claimed of it."""
    given = drawn([4.0, 4.0], 10)
    values = given.values.copy()
    values[:2, 0] = np.nan
    assert judge(replace(given, values=values)).better == ["method-1"]
    many = drawn([4.0, 4.0, 4.0, 4.0, 4.0], 60)
    values = many.values.copy()
    for place in range(5):
        values[12 * place : 12 * place + 12, place] = np.nan
    told = str(judge(replace(many, values=values)))
    assert "at least 20 texts are needed on which all have scores; there are 0." in told


def test_what_fitted_a_method_is_not_known_so_every_operator_must_agree() -> None:
    """Far ahead under one operator, its own perhaps, and like random orders under the other."""
    given = drawn([0.0], 60, 2)
    own = np.array([cell.operator == "delete" for cell in given.cells])
    values = given.values + 4 * own * given.orders.std(1, keepdims=True)
    lifted = replace(given, values=values)
    assert judge(lifted, MethodFacts(fitted_by={"method-0": ()})).better == ["method-0"]
    assert not judge(lifted, MethodFacts(fitted_by={"method-0": None})).better
    assert not judge(lifted, MethodFacts(fitted_by={"method-0": None}), always=True).better
    real = judge(drawn([3.0], 60), MethodFacts(fitted_by={"method-0": None}))
    assert real.better
    assert "method-0 removed words is unknown, so they must beat random orders with each operator." in str(
        real
    )


def test_pools_are_joined_text_by_text() -> None:
    whole = drawn([1.0, 0.0], 9)
    parts = [
        Pools(whole.methods, whole.cells, whole.values[a:b], whole.orders[a:b]) for a, b in ((0, 4), (4, 9))
    ]
    again = joined(parts, whole.methods)
    assert np.array_equal(again.values, whole.values)
    assert np.array_equal(again.orders, whole.orders)
    fewer = joined([parts[0], replace(parts[1].only(whole.methods, ["swap"]))], whole.methods)
    swap = [place for place, cell in enumerate(whole.cells) if cell.operator == "swap"]
    assert np.array_equal(fewer.values[4:, :, swap], whole.values[4:, :, swap])
    assert np.isnan(np.delete(fewer.values[4:], swap, axis=2)).all()
    one = whole.only(["method-1"], ["delete"])
    assert one.methods == ("method-1",)
    assert {cell.operator for cell in one.cells} == {"delete"}


def test_the_decision_by_hand() -> None:
    mean = np.array([[0.0, 0.5, 2.0], [-0.5, 0.0, 1.5], [-2.0, -1.5, 0.0]])
    found = decide(mean, np.full((3, 3), 0.1), np.array([3.0, 3.0, 3.0]))
    assert found.inside.tolist() == [True, False, False]
    assert found.gap == pytest.approx([0.0, 0.8, 2.3])


# --- looked at after every text --------------------------------------------------------------------------


def test_a_fair_bet_neither_wins_nor_loses_on_average() -> None:
    """All 2^10 games with gains of ±1 and of -0.5 or +0.25: the mean of the stakes stays at 1 at most."""
    for low, high in ((-1.0, 1.0), (-0.5, 0.25)):
        chance = -low / (high - low)  # of a win, for a mean of zero
        total = 0.0
        for wins in itertools.product((0, 1), repeat=10):
            gains = np.where(np.array(wins) == 1, high, low)[:, None]
            bets = np.exp(np.cumsum(_logs(gains)))[-1]
            total += float(bets) * chance ** sum(wins) * (1 - chance) ** (10 - sum(wins))
        assert total == pytest.approx(1.0, abs=1e-12)


def _logs(gains: Floats) -> Floats:
    """Steps of the logarithm of the stakes, with the bets written as the paper has them."""
    steps = []
    for t in range(len(gains)):
        before = gains[:t, 0]
        m1, m2 = (before.sum() + 0.5) / (t + 2), (np.square(before).sum() + 2 / 3) / (t + 2)
        steps.append(np.log1p(np.clip(m1 / m2, 0, 0.9) * gains[t, 0]))
    return np.array(steps)


def test_the_stakes_are_those_of_the_formula() -> None:
    for high in (1.0, 0.3):  # fair, and losing: no bet is placed on being worse
        gains = np.random.default_rng(0).uniform(-1, high, size=(30, 1))
        assert _wealth(gains)[:, 0] == pytest.approx(np.maximum(np.cumsum(_logs(gains)), 0.0))
    worse = np.full((30, 1), -0.5)
    assert _wealth(worse).max() == 0.0


def test_p_never_grows_and_a_good_method_wins_soon() -> None:
    w = by_family(beaten((given := drawn([2.5, 0.0], 60)).values, given.orders), given.cells)
    every = np.array([better_p(w[:n]) for n in range(1, 61)])
    assert (np.diff(every, axis=0) <= 1e-15).all()
    assert every[25, 0] < 0.001
    assert every[-1, 1] > 0.05


def test_intervals_at_all_times_hold_at_all_times() -> None:
    """Walks of 300 normal steps, looked at after every step from the twentieth on."""
    rng, level = np.random.default_rng(0), 0.025
    bars = np.array([reach(n, level) for n in range(20, 301)])
    steps = rng.normal(size=(2000, 300))
    n = np.arange(1, 301)
    sums, squares = np.cumsum(steps, axis=1), np.cumsum(np.square(steps), axis=1)
    spread = np.sqrt((squares - sums**2 / n) / np.maximum(n - 1, 1))
    t = (sums / np.sqrt(n) / np.maximum(spread, 1e-9))[:, 19:]
    assert at_most(int((t > bars).any(1).sum()), 2000, level)
    wider = best_at_all_times(rng.normal(size=(40, 4))).critical[0]
    assert wider > best_methods(rng.normal(size=(40, 4))).critical.max()


def test_a_verdict_at_all_times_says_what_is_open() -> None:
    given = drawn([3.0, 0.0, 0.4], 60)
    found = judge(given, always=True)
    assert found.looked_always
    assert found.use == "method-0"
    clear = judge(drawn([4.0, -2.0], 60), always=True)
    assert all(one.settled for one in clear.methods)
    assert "It was settled after 60 texts, looked at one by one." in str(clear)
    near = judge(drawn([1.0, 1.0], 25, 1), always=True)
    assert "It cannot be settled with this many texts: " in str(near)


# --- who judges ------------------------------------------------------------------------------------------


def test_operators_that_fitted_nothing_judge() -> None:
    fitted = {"occlusion": ("mask",), "grad": (), "mine": None}
    assert judging_operators(("delete", "mask", "swap"), fitted) == (("delete", "swap"), {})
    only, out = judging_operators(("mask",), fitted)
    assert only == ("mask",)
    assert out == {"occlusion": "mask judges here, and fitted it"}
    both = {"a": ("mask",), "b": ("mask",), "c": ("delete",)}
    assert judging_operators(("mask", "delete"), both)[0] == ("delete",)
    assert list(judging_operators(("mask", "delete"), both)[1]) == ["c"]


def test_families_and_operators_that_disagree_are_shown() -> None:
    given = drawn([2.0, 0.0], 40)
    worse = np.array([cell.family == "keep-top" for cell in given.cells])
    values = given.values - 2.5 * worse[None, None] * given.orders.std(1)[:, None]
    found = judge(replace(given, values=values))
    said = [line for line in found.sentences if line.startswith("Of random orders method-0 beat ")]
    assert len(said) == 1
    assert "% by removing its top words and " in said[0]
    assert "% by keeping its top words alone" in said[0]
