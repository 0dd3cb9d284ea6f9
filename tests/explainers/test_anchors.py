"""Anchors on functions whose anchors are known, bounds against a root finder, precision by enumeration."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import binom, binomtest

import heedful
from heedful.engine.question import run_explainer
from heedful.explainers.anchors import Arm, Sampler, find, judge, kl, kl_lower, kl_upper, top_arms


def classifier(rule):  # type: ignore[no-untyped-def]
    """A two-column function: [1, 0] where the rule holds for the set of words, [0, 1] elsewhere."""
    return heedful.load(
        lambda texts: [[1, 0] if rule(set(t.split())) else [0, 1] for t in texts], labels=["yes", "no"]
    )


def run(rule, text: str, **params: object):  # type: ignore[no-untyped-def]
    model = classifier(rule)
    x = model.encode(text)
    return run_explainer("anchors", model, x, model.target(x), **params)


def inside(found: heedful.Attribution) -> set[str]:
    return {word.text for word in found.words() if word.score}


def test_one_word_rule() -> None:
    found = run(lambda words: "good" in words, "a good film with an odd end")
    assert inside(found) == {"good"}
    assert "rule: good; precision 1.000" in found.notes[0]
    assert "coverage 0.5 (exact)" in found.notes[0]
    assert found.params["precision"] == 1.0
    assert found.params["coverage"] == 0.5


def test_two_words_are_needed() -> None:
    found = run(lambda words: {"not", "bad"} <= words, "this is not a bad film")
    assert inside(found) == {"not", "bad"}
    assert "coverage 0.25 (exact)" in found.notes[0]
    assert len(found.notes) == 1  # verified


def test_four_words_are_needed() -> None:
    """Candidates that are alike do not take the rows that longer rules need."""
    words = set("abcd")
    found = [run(lambda kept: words <= kept, "a b c d e f", seed=seed) for seed in range(5)]
    assert [inside(one) for one in found] == [words] * 5
    assert all(len(one.notes) == 1 for one in found)


def test_a_prediction_that_always_holds_needs_no_anchor() -> None:
    found = run(lambda words: True, "whatever it says")
    assert inside(found) == set()
    assert "the prediction holds by itself" in found.notes[0]


LETTERS = "a b c d e f g h i j k l"  # hardly a row is drawn twice: the function is asked each time


def test_an_unreachable_threshold_is_admitted() -> None:
    flips = np.random.default_rng(0)
    model = heedful.load(
        lambda texts: [[1, 0] if t == LETTERS or flips.random() < 0.6 else [0, 1] for t in texts],
        labels=["y", "n"],
    )
    x = model.encode(LETTERS)
    found = run_explainer("anchors", model, x, model.target(x), samples=300, threshold=1.0)
    assert found.notes[-1].startswith("not verified") or inside(found) == set(LETTERS.split())


def test_another_label_than_the_predicted_is_refused() -> None:
    model = classifier(lambda words: "good" in words)
    x = model.encode("a good film")
    with pytest.raises(heedful.HeedfulError, match="not what the model predicts"):
        run_explainer("anchors", model, x, model.target(x, "no"))


def test_regression_is_refused() -> None:
    model = heedful.load(lambda texts: [len(t) for t in texts])
    x = model.encode("a good film")
    with pytest.raises(heedful.HeedfulError, match="need a predicted class"):
        run_explainer("anchors", model, x, model.target(x))


@pytest.mark.parametrize("p", [0.0, 0.1, 0.5, 0.97, 1.0])
@pytest.mark.parametrize("level", [0.01, 0.3])
def test_bounds_are_the_roots_of_the_divergence(p: float, level: float) -> None:
    low, high = kl_lower(p, level), kl_upper(p, level)
    if p > 0:
        assert low == pytest.approx(brentq(lambda q: kl(p, q) - level, 1e-12, p or 1e-12), abs=1e-9)
    if p < 1:
        assert high == pytest.approx(brentq(lambda q: kl(p, q) - level, p, 1 - 1e-12), abs=1e-9)
    assert 0 <= low <= p <= high <= 1


def test_intervals_cover_the_enumerated_precision() -> None:
    """Chernoff bounds at level delta = 0.1 miss in at most 20 % of runs (both sides), usually far fewer."""
    rule = lambda words: len(words & {"a", "b", "c", "d", "e"}) >= 3  # noqa: E731
    words = ["a", "b", "c", "d", "e"]
    exact = np.mean(
        [
            rule({"a", *(w for w, k in zip(words[1:], kept, strict=True) if k)})
            for kept in product([0, 1], repeat=4)
        ]
    )
    rng = np.random.default_rng(0)
    missed = 0
    for _ in range(200):
        sampler = Sampler(5, lambda keep: keep.sum(1) >= 3, rng, 10_000)
        arm = Arm((0,))
        sampler.draw(arm, 64)
        level = np.log(10) / arm.trials
        missed += not kl_lower(arm.mean, level) <= exact <= kl_upper(arm.mean, level)
    assert missed <= 40


def test_lucb_finds_the_best_arms() -> None:
    """Keeping a heavy word holds a weighted vote more often: the top two arms are the two heaviest words."""
    weights = np.array([0.5, 3.0, 0.5, 3.0, 0.5, 0.5])  # precision 0.97 for the heavy, 0.75 for the others
    wins = 0
    for seed in range(20):
        sampler = Sampler(6, lambda keep: keep @ weights > 3.2, np.random.default_rng(seed), 20_000)
        best = top_arms(sampler, [Arm((u,)) for u in range(6)], 2, 0.1)
        wins += {arm.units[0] for arm in best} == {1, 3}
    assert wins >= 18  # it may err in a share delta = 0.1 of the runs


def test_seeded() -> None:
    notes = [run(lambda w: len(w) >= 4, "a b c d e f", seed=seed).notes for seed in (3, 3)]
    assert notes[0] == notes[1]


def vote(keep: np.ndarray) -> np.ndarray:
    """Seven of twelve equal words: none is better than another, so the best-looking one was lucky."""
    return keep.sum(1) >= 7


def exact_precision(arm: Arm) -> float:
    """Of `vote`: enough of the words that are not in the anchor are kept."""
    rest = 12 - len(arm.units)
    return float(binom.sf(6 - len(arm.units), rest, 0.5))


def test_intervals_hold_for_the_rule_that_was_chosen() -> None:
    """At level 90 %, 100 runs may miss 17 times (99 % of the binomial law); 11 did. Intervals of the same
    kind from the rows that chose the rule missed 21 times, and 38 with more rows to choose by."""
    missed = flattered = 0
    for seed in range(100):
        sampler = Sampler(12, vote, np.random.default_rng(seed), 300)
        arm = find(sampler, 0.8, 0.1, 4)
        truth = exact_precision(arm)
        own = binomtest(arm.hits, arm.trials).proportion_ci(0.9, method="exact")
        flattered += not own.low <= truth <= own.high
        sampler.most = 400
        found = judge(sampler, arm, 0.1)
        assert (found.rows, found.exact) == (100, False)
        missed += not found.low <= truth <= found.high
    assert missed <= 17
    assert flattered > 17  # the same seeds: a judge that looks at these rows would be caught


@pytest.mark.parametrize("hits", [0, 7, 20])
def test_the_interval_is_clopper_and_pearsons(hits: int) -> None:
    answers = iter([np.arange(20) < hits])
    sampler = Sampler(9, lambda keep: next(answers), np.random.default_rng(0), 20)
    found = judge(sampler, Arm((1,)), 0.1)
    expected = binomtest(hits, 20).proportion_ci(0.9, method="exact")
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=1e-9)
    assert "90% interval" in found.told(0.9)


def test_few_ways_to_remove_the_rest_are_all_tried() -> None:
    sampler = Sampler(12, vote, np.random.default_rng(0), 16)
    found = judge(sampler, Arm(tuple(range(8))), 0.1)
    assert (found.precision, found.low, found.high) == (1.0, 1.0, 1.0)
    sampler = Sampler(12, lambda keep: keep.sum(1) >= 9, np.random.default_rng(0), 16)
    found = judge(sampler, Arm(tuple(range(8))), 0.1)
    assert (found.precision, found.low, found.high) == (15 / 16, 15 / 16, 15 / 16)
    assert found.exact
    assert sampler.asked == 16


@pytest.mark.parametrize("budget", [3, 4, 8, 20, 60, 1500])
def test_a_small_budget_is_kept_and_told(budget: int) -> None:
    rule = lambda words: {"not", "bad"} <= words  # noqa: E731
    model = classifier(rule)
    text = "this is not at all what i would call a bad film or book"
    found = heedful.explain(model, text, "anchors", budget=budget)["anchors"]
    assert found.cost.unique <= budget
    low, high = found.params["interval"]
    kept = inside(found)
    truth = 0.25 * 2 ** len(kept & {"not", "bad"})
    assert low <= truth <= high  # seeded: holds here; how often it does is tested above
    if low < 0.9:
        assert found.notes[-1].startswith("not verified")
    if budget <= 8:
        assert high - low > 0.5
    if budget == 1500:
        assert kept == {"not", "bad"}


def test_a_budget_without_a_row_to_judge_by_is_refused() -> None:
    found = heedful.explain(classifier(lambda words: True), "a b c", ["anchors", "occlusion"], budget=6)
    assert "anchors" not in found
    assert "budget" in found.skipped["anchors"]


def test_the_operator_is_the_one_asked_for(shared) -> None:  # type: ignore[no-untyped-def]
    model = shared("bert").model
    x = model.encode("the cat sat on the mat")
    asked = []
    values = model.values

    def recorded(x, target, keep, operator=None, unit="word", *rest):  # type: ignore[no-untyped-def]
        asked.append(operator)
        return values(x, target, keep, operator, unit, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(model, "values", recorded)
        found = run_explainer("anchors", model, x, model.target(x), samples=40, operator="delete")
    assert set(asked) == {"delete"}
    assert found.params["operator"] == "delete"
    with pytest.raises(heedful.HeedfulError, match="cannot be removed by 'burn'"):
        run_explainer("anchors", model, x, model.target(x), samples=40, operator="burn")
