"""The first screen: words only by methods that passed, effects as measured, a sentence for every case."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from heedful.comparisons.result import Comparison
from heedful.core.evidence import Evidence
from heedful.core.internals import Internals, Removal
from heedful.reports import first_screen
from heedful.reports.word_labels import numbered

Make = Callable[..., Comparison]
TEXT = "a b c d e f g h i j"


def judged(method: str, beat: int, draws: int) -> tuple[Evidence, ...]:
    """Evidence that a method beat so many of so many random orders, by both families alike."""
    orders = tuple(0.0 if n < beat else 2.0 for n in range(draws))
    numbers = (1.0, 0.5, 2.0, 0.5, (math.nan, math.nan), 1, (0.0, 2.0))
    return tuple(
        Evidence(metric, "delete", method, *numbers, orders=orders, family=family)  # type: ignore[arg-type]
        for metric, family in (("comprehensiveness", "remove-top"), ("sufficiency", "keep-top"))
    )


def given(
    make: Make,
    scores: Mapping[str, Sequence[float]],
    beat: Mapping[str, int],
    effects: Sequence[float],
    draws: int = 99,
) -> Comparison:
    """Methods with these scores of ten words, of which some beat so many random orders."""
    base = make(TEXT, methods=[(name, True, False) for name in [*scores, "random"]])
    items = [
        replace(item, scores=np.array([0.0, *scores[item.method], 0.0])) if item.method in scores else item
        for item in base.attributions
    ]
    evidence = tuple(e for method, count in beat.items() for e in judged(method, count, draws))
    internals = Internals((Removal("delete", tuple(effects)),))
    return replace(base, attributions=tuple(items), evidence=evidence, internals=internals)


GOOD = [5.0, -4.0, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1]
BAD = [0.1, 0.1, 9.0, 8.0, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1]
EFFECTS = [0.5, -0.3, 0.01, 0.02, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]


def test_words_are_named_by_methods_that_passed_and_never_by_others(make: Make) -> None:
    one = given(make, {"good": GOOD, "bad": BAD}, {"good": 99, "bad": 40}, EFFECTS)
    assert first_screen.why(one) == (
        "“a” (+0.50) and “b” (−0.30) decide it, measured by deleting each of them (change of the logit)."
    )
    assert first_screen.better_than_random(one) == (
        "Better than random here: good (beat 99 of 99 random orders). Not proven better: bad."
    )
    assert first_screen.ordered(one) == ["good", "bad", "random"]
    other = given(make, {"good": GOOD, "bad": BAD}, {"good": 40, "bad": 99}, EFFECTS)
    assert "“a”" not in first_screen.why(other)


def test_no_method_passed_gives_measured_facts_alone(make: Make) -> None:
    none = given(make, {"good": GOOD, "bad": BAD}, {"good": 50, "bad": 40}, EFFECTS)
    assert first_screen.why(none) == (
        "Deleting one word at a time, “a” (+0.50) and “b” (−0.30) change the answer most. "
        "No method is better than random orders on this text."
    )
    assert first_screen.better_than_random(none) == "Tested against 99 random orders: good, bad."


def test_too_few_orders_for_a_test_are_counted(make: Make) -> None:
    few = given(make, {"good": GOOD, "bad": BAD}, {"good": 20, "bad": 12}, EFFECTS, draws=20)
    assert first_screen.better_than_random(few) == (
        "Beat all 20 random orders here: good. Beat fewer: bad (12). For a test of 2 methods, add --draws 39."
    )
    assert "“a” (+0.50)" in first_screen.why(few)


def test_a_claim_with_the_wrong_sign_is_named(make: Make) -> None:
    wrong = [0.5, 0.3, *EFFECTS[2:]]  # "b" is claimed to be against, and is for
    one = given(make, {"good": GOOD}, {"good": 99}, wrong)
    (found,) = first_screen.contradictions(one)
    assert str(found) == "“b”: good claims −4.00, but deleting it gives +0.30."
    assert "“b”" not in first_screen.why(one), "a contradicted word does not decide"
    assert first_screen.contradictions(given(make, {"good": GOOD}, {"good": 99}, EFFECTS)) == []
    tiny = [0.5, 0.001, *EFFECTS[2:]]  # a sign that means nothing
    assert first_screen.contradictions(given(make, {"good": GOOD}, {"good": 99}, tiny)) == []


def test_the_shading_method_is_the_one_that_beat_most_and_ties_go_to_the_cheaper(make: Make) -> None:
    one = given(make, {"x": GOOD, "y": GOOD, "z": BAD}, {"x": 99, "y": 99, "z": 98}, EFFECTS)
    cheap = tuple(
        replace(item, cost=replace(item.cost, forwards=1)) if item.method == "y" else item
        for item in one.attributions
    )
    assert first_screen.ordered(replace(one, attributions=cheap)) == ["y", "x", "z", "random"]


def test_an_audit_s_recommendation_comes_first(make: Make) -> None:
    one = given(make, {"good": GOOD, "bad": BAD}, {"good": 99, "bad": 40}, EFFECTS)
    audit = {"use": "bad", "sentence": "Use bad: it beat random orders on 47 of 50 texts.", "run": "run"}
    told = replace(one, settings={**one.settings, "audit": audit})
    assert first_screen.ordered(told)[0] == "bad"
    assert first_screen.which_to_use(told) == f"{audit['sentence']} (audit run)"
    assert first_screen.which_to_use(one).startswith("Which method to use: heedful audit")
    assert "“a” (+0.50)" in first_screen.why(told), "words still come from a method that passed here"


@pytest.mark.parametrize("effects", [[math.nan] * 10, [0.0] * 10])
def test_unknown_and_missing_effects(make: Make, effects: list[float]) -> None:
    one = given(make, {"good": GOOD}, {"good": 99}, effects)
    assert "(+" not in first_screen.why(one)
    assert one.page()
    assert str(one)


def test_words_that_repeat_are_numbered() -> None:
    assert numbered(["the", " cat", "the", " ", "The"]) == ["the₁", "cat", "the₂", "␣", "The"]
    assert numbered(["a"] * 12)[-1] == "a₁₂"
