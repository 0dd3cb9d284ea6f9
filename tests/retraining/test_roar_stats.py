"""Intervals over seeds and texts hold what they promise, and words claim no more than they carry."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import heedful
from heedful.retraining.roar_stats import RightAnswers, conclude, gap_between, leaking, mean_of


def crossed(rng: np.random.Generator, seeds: int, texts: int, sd: tuple[float, float, float]) -> np.ndarray:
    """Seed effect + text effect + noise, mean zero."""
    by_seed, by_text, each = sd
    return (
        by_seed * rng.normal(size=(seeds, 1))
        + by_text * rng.normal(size=(1, texts))
        + each * rng.normal(size=(seeds, texts))
    )


@pytest.mark.parametrize("sd", [(0.1, 1.0, 0.5), (0.3, 0.2, 1.0), (1.0, 0.1, 0.1), (0.0, 0.0, 1.0)])
def test_nineteen_intervals_of_twenty_hold_the_mean(sd: tuple[float, float, float]) -> None:
    rng = np.random.default_rng(0)
    held = []
    for _ in range(1000):
        low, high = mean_of(crossed(rng, 5, 60, sd)).interval()
        held.append(low <= 0 <= high)
    # 1,000 draws at 95 %: four standard errors are 2.8 %; more than 95 % is caution, not an error
    assert np.mean(held) > 0.922


def test_without_text_effects_it_is_students_interval_of_the_seeds() -> None:
    by_seed = np.array([0.5, 0.7, 0.6, 0.9, 0.4])
    found = mean_of(np.repeat(by_seed[:, None], 50, axis=1)).interval()
    np.testing.assert_allclose(found, stats.t.interval(0.95, 4, by_seed.mean(), stats.sem(by_seed)))


def test_without_seed_effects_it_is_students_interval_of_the_texts() -> None:
    by_text = np.random.default_rng(1).normal(size=30)
    found = mean_of(np.repeat(by_text[None], 5, axis=0)).interval()
    np.testing.assert_allclose(found, stats.t.interval(0.95, 29, by_text.mean(), stats.sem(by_text)))


def test_more_comparisons_make_wider_intervals() -> None:
    mean = mean_of(crossed(np.random.default_rng(2), 5, 40, (0.1, 1.0, 1.0)))
    ends = [mean.interval(count)[0] for count in (1, 3, 10)]
    assert ends == sorted(ends, reverse=True)
    wanted = stats.t.ppf(1 - 0.05 / 20, mean.freedom) * mean.error
    assert mean.value - mean.interval(10)[0] == pytest.approx(wanted)


def drawn(accuracy: dict[str, float], seeds: int = 5, texts: int = 300, seed: int = 0) -> RightAnswers:
    """Right answers at one share, easier texts being easier for all; nothing told by the pattern."""
    rng = np.random.default_rng(seed)
    ease = rng.normal(size=texts)
    right = [
        [ease + rng.normal(size=(seeds, texts)) < stats.norm.ppf(p, scale=np.sqrt(2))]
        for p in accuracy.values()
    ]
    told = rng.random((len(accuracy), 1, seeds, texts)) < 0.5
    whole = rng.random((seeds, texts)) < 0.95
    return RightAnswers(tuple(accuracy), (0.5,), np.array(right), told, whole, rng.random(texts) < 0.5)


def test_groups_are_found() -> None:
    shown = conclude(
        drawn({"good": 0.5, "twin": 0.5, "fair": 0.7, "noise": 0.9, "bad": 0.99, "random": 0.9}), "mask"
    )
    assert set(shown.lead) == {"good", "twin"}
    assert shown.behind == ("fair",)
    assert shown.not_faster == ("noise",)
    assert shown.slower == ("bad",)
    said = str(shown)
    assert "retrained 5 times and tested on 300 texts (imputation of removed words: mask)" in said
    assert "lowers the accuracy faster than random removal; these methods do not differ significantly" in said
    assert "Removal by fair also lowers it faster, but less than the fastest method" in said
    assert "noise does not differ significantly from random" in said
    assert "Removal by bad lowers it more slowly than random" in said
    assert [c.method for c in shown.curves][-1] == "random"


def test_equal_methods_are_seldom_told_apart() -> None:
    claims = 0
    for seed in range(100):
        shown = conclude(drawn(dict.fromkeys(("a", "b", "c", "random"), 0.7), texts=100, seed=seed), "mask")
        claims += bool(shown.lead or shown.slower)
    assert claims <= 11  # at most 5 of 100 expected; 11 is the 99 % point


def test_one_seed_claims_nothing() -> None:
    shown = conclude(drawn({"good": 0.1, "random": 0.9}, seeds=1), "mask")
    assert (shown.lead, shown.slower) == ((), ())
    assert "nothing is claimed" in str(shown)


def leaky(method: float, control: float, seed: int = 0) -> tuple[bool, bool]:
    """Accuracy from the pattern of one method and of the control: which of them is flagged."""
    rng = np.random.default_rng(seed)
    told = np.array([[rng.random((5, 400)) < p for _ in range(3)] for p in (method, control)])
    first, last = leaking(told, rng.random(400) < 0.5).tolist()
    return first, last


def test_a_pattern_that_tells_is_flagged_beyond_what_random_patterns_tell() -> None:
    assert leaky(0.7, 0.5) == (True, False)
    assert leaky(0.5, 0.5) == (False, False)
    assert leaky(0.7, 0.7) == (False, True), "length alone: no fault of the method"
    assert leaky(0.3, 0.5) == (False, False)


def test_false_flags_are_rare() -> None:
    assert sum(leaky(0.5, 0.5, seed)[0] for seed in range(100)) <= 6


def test_a_flagged_method_is_not_called_slow() -> None:
    answers = drawn({"sly": 0.9, "fair": 0.5, "random": 0.9})
    assert answers.told is not None
    answers.told[0] = True  # the pattern tells everything
    shown = conclude(answers, "mask")
    assert (shown["sly"].leaks, shown["fair"].leaks) == (True, False)
    said = str(shown)
    assert (
        "sly is flagged: the positions it removes predict the label by themselves with accuracy 1.00" in said
    )
    assert "sly does not differ" not in said


def test_a_task_that_is_not_learnt_is_told() -> None:
    answers = drawn({"a": 0.5, "random": 0.5})
    answers.whole[:] = answers.usual
    assert "not above chance" in str(conclude(answers, "mask"))


def test_a_gap_between_two_imputers_is_paired() -> None:
    """The same texts: what both get right or wrong has no part in the interval."""
    one = drawn({"a": 0.5, "random": 0.5})
    lower = one.right.copy()
    lower[0, 0, :, :30] = False
    lost = (one.right & ~lower)[0, 0].astype(float)
    first, second = conclude(one, "mean"), conclude(replace(one, right=lower), "linear")
    share = one.shares[0]
    gap = gap_between(first, second, "a", share)
    assert gap == mean_of(lost)
    assert 0 < gap.interval()[0] < gap.value < 0.1
    assert gap_between(second, first, "a", share).value == -gap.value
    assert gap_between(first, second, "random", share).interval() == (0, 0)
    with pytest.raises(heedful.HeedfulError, match="does not know which answers"):
        gap_between(replace(first, answers=None), second, "a", share)
