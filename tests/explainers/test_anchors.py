"""Anchors on functions whose anchors are known, bounds against a root finder, precision by enumeration."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.optimize import brentq

import heedful
from heedful.explainers.anchors import Arm, Sampler, anchors, kl, kl_lower, kl_upper, top_arms


def classifier(rule):  # type: ignore[no-untyped-def]
    """A two-column function: [1, 0] where the rule holds for the set of words, [0, 1] elsewhere."""
    return heedful.load(
        lambda texts: [[1, 0] if rule(set(t.split())) else [0, 1] for t in texts], labels=["yes", "no"]
    )


def run(rule, text: str, **params: object):  # type: ignore[no-untyped-def]
    model = classifier(rule)
    x = model.encode(text)
    return anchors(model, x, model.target(x), **params)


def inside(found: heedful.Attribution) -> set[str]:
    return {word.text for word in found.words() if word.score}


def test_one_word_rule() -> None:
    found = run(lambda words: "good" in words, "a good film with an odd end")
    assert inside(found) == {"good"}
    assert "rule: good; precision 1.000" in found.notes[0]
    assert "coverage 0.5 (exact)" in found.notes[0]


def test_two_words_are_needed() -> None:
    found = run(lambda words: {"not", "bad"} <= words, "this is not a bad film")
    assert inside(found) == {"not", "bad"}
    assert "coverage 0.25 (exact)" in found.notes[0]


def test_a_prediction_that_always_holds_needs_no_anchor() -> None:
    found = run(lambda words: True, "whatever it says")
    assert inside(found) == set()
    assert "the prediction holds by itself" in found.notes[0]


def test_an_unreachable_threshold_is_admitted() -> None:
    flips = np.random.default_rng(0)
    model = heedful.load(
        lambda texts: [[1, 0] if t == "a b c d" or flips.random() < 0.6 else [0, 1] for t in texts],
        labels=["y", "n"],
    )
    x = model.encode("a b c d")
    found = anchors(model, x, model.target(x), samples=300, threshold=1.0)
    assert found.notes[-1].startswith("not verified") or inside(found) == {"a", "b", "c", "d"}


def test_another_label_than_the_predicted_is_refused() -> None:
    model = classifier(lambda words: "good" in words)
    x = model.encode("a good film")
    with pytest.raises(heedful.HeedfulError, match="not what the model predicts"):
        anchors(model, x, model.target(x, "no"))


def test_regression_is_refused() -> None:
    model = heedful.load(lambda texts: [len(t) for t in texts])
    x = model.encode("a good film")
    with pytest.raises(heedful.HeedfulError, match="need a class"):
        anchors(model, x, model.target(x))


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
    exact = np.mean([rule({"a", *(w for w, k in zip(words[1:], kept, strict=True) if k)})
                     for kept in product([0, 1], repeat=4)])  # fmt: skip
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
