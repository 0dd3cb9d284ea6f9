"""The first screen: words only by methods that passed, effects as measured, a sentence for every case."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

import heedful
from heedful.comparisons.result import Comparison
from heedful.core.document import Node, Table, UnitMap, inside
from heedful.core.evidence import Evidence
from heedful.core.internals import Internals, Removal
from heedful.core.target import Target
from heedful.reports import first_screen, terminal
from heedful.reports.comparison import shaded
from heedful.reports.comparison_parts.words import contradicted
from heedful.reports.contradictions import contradictions, first_contradictions
from heedful.reports.tested_methods import ordered
from heedful.reports.word_labels import numbered
from heedful.reports.word_table import word_table

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
        "For “positive”: “a” (+0.50). Against it: “b” (−0.30). "
        "Named by methods better than random, measured by deleting each (logit change)."
    )
    assert first_screen.better_than_random(one) == (
        "Better than random here: good (beat 99 of 99 random orders). Not proven better: bad."
    )
    assert ordered(one) == ["good", "bad", "random"]
    other = given(make, {"good": GOOD, "bad": BAD}, {"good": 40, "bad": 99}, EFFECTS)
    assert "“a”" not in first_screen.why(other)


def test_for_and_against_name_the_target_and_follow_the_measured_sign(make: Make) -> None:
    against = given(make, {"good": GOOD}, {"good": 99}, [-0.5, 0.0, *EFFECTS[2:]])
    only_for = given(make, {"good": GOOD}, {"good": 99}, [0.5, 0.0, *EFFECTS[2:]])
    assert first_screen.why(only_for).startswith("For “positive”: “a” (+0.50). Named by")
    assert "measured by deleting it (" in first_screen.why(only_for)
    none = given(make, {"good": GOOD}, {"good": 10}, [-0.5, 0.0, *EFFECTS[2:]])
    assert first_screen.why(none).startswith(
        "Against “positive”: “a” (−0.50). Measured by deleting each word"
    )
    assert "does not change the output that way" in first_screen.why(against), "claimed for, measured against"
    target = Target("regression", 0, "price")
    items = tuple(replace(item, target=target) for item in only_for.attributions)
    assert first_screen.why(replace(only_for, attributions=items)).startswith("Raise “price”: “a” (+0.50).")


def test_no_method_passed_gives_measured_facts_alone(make: Make) -> None:
    none = given(make, {"good": GOOD, "bad": BAD}, {"good": 50, "bad": 40}, EFFECTS)
    assert first_screen.why(none) == (
        "For “positive”: “a” (+0.50). Against it: “b” (−0.30). "
        "Measured by deleting each word (logit change); the text is shaded by these effects."
    )
    assert first_screen.none_better(none) == (
        "No method is proven better than random orders on this text. "
        "Use a longer text, or heedful audit on many texts."
    )
    assert first_screen.better_than_random(none) == "Tested against 99 random orders: good, bad."


def test_no_method_passed_shades_by_measured_effects_and_shows_no_other_column(make: Make) -> None:
    none = given(make, {"good": BAD, "bad": BAD}, {"good": 50, "bad": 40}, EFFECTS)
    first = shaded(none).options[0]
    assert first.title == "measured effect"
    drawn = first.nodes[0]
    assert isinstance(drawn, UnitMap)
    shares = [piece.share for piece in drawn.pieces if piece.unit >= 0]
    assert shares == pytest.approx([effect / 0.5 for effect in EFFECTS])
    heads = [column.title for column in word_table(none, few=True).columns]
    assert heads == ["word", "measured", "random (control)"]
    shown = [column.title for column in word_table(none).columns if column.shown]
    assert shown == ["word", "measured", "random (control)"]
    some = given(make, {"good": GOOD, "bad": BAD}, {"good": 99, "bad": 40}, EFFECTS)
    assert shaded(some).options[0].title == "good"
    heads = [column.title for column in word_table(some, few=True).columns]
    assert heads == ["word", "measured", "good", "random (control)"], "bad did not pass"
    unmeasured = replace(none, internals=Internals())
    plain = shaded(unmeasured).options[0].nodes[0]
    assert isinstance(plain, UnitMap)
    assert not any(piece.share for piece in plain.pieces), "no method that failed may shade the text"
    assert str(unmeasured)


def test_a_short_text_has_few_orders_and_one_word_has_none(make: Make) -> None:
    def alone(text: str, effects: Sequence[float]) -> Comparison:
        evidence = judged("m", 40, 99)
        base = make(text, methods=[("m", True, False), ("random", True, False)])
        return replace(base, evidence=evidence, internals=Internals((Removal("delete", tuple(effects)),)))

    few = first_screen.none_better(alone("a b c", [0.5, 0.1, 0.1]))
    assert few == (
        "No method is proven better than random orders on this text. It has only 3 words, so there are few "
        "orders to compare. Use a longer text, or heedful audit on many texts."
    )
    one = alone("good", [0.5])
    assert first_screen.none_better(one).startswith("One word has no orders to compare")
    assert first_screen.better_than_random(one) == ""
    said = terminal.as_text(one.document(), verbose=True)
    assert "1 words" not in said
    assert "beat 40 of 99" not in said.split("Evidence")[1]


def test_too_few_orders_for_a_test_are_counted(make: Make) -> None:
    few = given(make, {"good": GOOD, "bad": BAD}, {"good": 20, "bad": 12}, EFFECTS, draws=20)
    counts = "Beat all 20 random orders here: good. Beat fewer: bad (12). For a test of 2 methods, add"
    assert first_screen.better_than_random(few) == f"{counts} draws=39."
    typed = replace(few, settings={**few.settings, "command": "heedful explain x"})
    assert first_screen.better_than_random(typed) == f"{counts} --draws 39."
    assert "“a” (+0.50)" in first_screen.why(few)


def test_a_claim_with_the_wrong_sign_is_named(make: Make) -> None:
    wrong = [0.5, 0.3, *EFFECTS[2:]]  # "b" is claimed to be against, and is for
    one = given(make, {"good": GOOD}, {"good": 99}, wrong)
    (found,) = contradictions(one)
    assert str(found) == "“b”: good claims −4.00, but deleting it gives +0.30."
    assert "“b”" not in first_screen.why(one), "a contradicted word does not decide"
    assert contradictions(given(make, {"good": GOOD}, {"good": 99}, EFFECTS)) == []
    tiny = [0.5, 0.001, *EFFECTS[2:]]  # a sign that means nothing
    assert contradictions(given(make, {"good": GOOD}, {"good": 99}, tiny)) == []


def test_contradictions_are_of_all_methods_that_passed_grouped_by_word(make: Make) -> None:
    """Not of the method alone that shades the text, and never of one that failed."""
    effects = [0.5, -0.3, -0.2, -0.1, *[0.0] * 6]
    shading = [5.0, -4.0, *[0.1] * 8]
    others = [5.0, -4.0, 2.02, 0.1, *[0.1] * 6]
    alike = [5.0, -4.0, 1.98, 0.1, *[0.1] * 6]
    failed = [0.1, 0.1, 0.1, 9.0, *[0.1] * 6]
    scores = {"m1": shading, "m2": others, "m3": alike, "no": failed}
    one = given(make, scores, {"m1": 99, "m2": 99, "m3": 99, "no": 10}, effects)
    assert first_contradictions(one) == ["“c”: m2 and m3 claim about +2.0, but deleting it gives −0.20."]
    assert [each.word for each in contradictions(one)] == ["d", "c"], "the fold has those of all methods"
    rows = text_of(contradicted(one))
    assert ("c", "m2 and m3", "about +2.0", "−0.20") in rows
    apart = given(make, {**scores, "m3": [*alike[:2], 3.5, *alike[3:]]}, {"m2": 99, "m3": 99}, effects)
    assert first_contradictions(apart) == [
        "“c”: m2 and m3 claim +2.02 to +3.50, but deleting it gives −0.20."
    ]


def text_of(given: Sequence[Node]) -> list[tuple[str, ...]]:
    found = [each for top in given for each in inside(top) if isinstance(each, Table)]
    return [tuple(cell.text for cell in row.cells) for table in found for row in table.rows]


def test_contradictions_take_two_lines_at_most(make: Make) -> None:
    effects = [-0.5, 0.3, -0.4, *[0.0] * 7]
    names = ["a-very-long-name-of-a-method", "another-long-name-of-a-method", "a-third-name", "b"]
    many = given(make, dict.fromkeys(names, GOOD), dict.fromkeys(names, 99), effects)
    assert len(contradictions(many)) == 2
    assert len(first_contradictions(many)) == 1, "the first alone takes two lines"
    two = given(make, {"m": GOOD}, {"m": 99}, effects)
    assert len(first_contradictions(two)) == 2


def test_the_shading_method_is_the_one_that_beat_most_and_ties_go_to_the_cheaper(make: Make) -> None:
    one = given(make, {"x": GOOD, "y": GOOD, "z": BAD}, {"x": 99, "y": 99, "z": 98}, EFFECTS)
    cheap = tuple(
        replace(item, cost=replace(item.cost, forwards=1)) if item.method == "y" else item
        for item in one.attributions
    )
    assert ordered(replace(one, attributions=cheap)) == ["y", "x", "z", "random"]


def test_an_audit_s_recommendation_comes_first(make: Make) -> None:
    one = given(make, {"good": GOOD, "bad": BAD}, {"good": 99, "bad": 40}, EFFECTS)
    audit = {"use": "bad", "sentence": "Use bad: it beat random orders on 47 of 50 texts.", "run": "run"}
    told = replace(one, settings={**one.settings, "audit": audit})
    assert ordered(told)[0] == "bad"
    assert shaded(told).options[0].title == "bad"
    assert first_screen.which_to_use(told) == f"{audit['sentence']} (audit run)"
    assert "“a” (+0.50)" in first_screen.why(told), "words still come from a method that passed here"


def test_each_surface_says_what_to_type_there(make: Make) -> None:
    one = given(make, {"good": GOOD}, {"good": 99}, EFFECTS)
    typed = replace(one, settings={**one.settings, "command": "heedful explain x"})
    for said in (str(one), one.page(), one._repr_html_()):
        assert "audit=RUN" in said
        assert "--audit" not in said
    for said in (str(typed), typed.page()):
        assert "--audit RUN" in said
        assert "audit=RUN" not in said
    assert first_screen.which_to_use(one, "ask the page") == "ask the page"


def test_the_terminal_shows_the_words_with_the_largest_measured_effects(make: Make) -> None:
    text = " ".join(f"w{i}" for i in range(12))
    base = make(text, methods=[("m", True, False), ("random", True, False)])
    item = base["m"]
    scores = np.array([0.0, *[9.0] * 10, 0.1, 0.2, 0.0])  # the method names the first ten
    effects = tuple([0.01] * 2 + [0.1] * 8 + [0.3, -0.4])
    items = (replace(item, scores=scores), base["random"])
    found = replace(base, attributions=items, internals=Internals((Removal("delete", effects),)))
    rows = [row.cells[0].text for row in word_table(found, 10, few=True).rows]
    assert rows == [f"w{i}" for i in range(2, 12)]
    assert "10 of 12 words, by measured effect." in str(found)


@pytest.mark.parametrize("effects", [[math.nan] * 10, [0.0] * 10])
def test_unknown_and_missing_effects(make: Make, effects: list[float]) -> None:
    one = given(make, {"good": GOOD}, {"good": 99}, effects)
    assert "(+" not in first_screen.why(one)
    assert one.page()
    assert str(one)


def test_operators_that_differ_much_are_both_told(make: Make) -> None:
    """More than three times as large, or of the other sign; else one number is enough."""
    one = given(make, {"good": GOOD}, {"good": 99}, EFFECTS)
    other = [8.0, -0.5, *EFFECTS[2:]]
    both = replace(one, internals=Internals((*one.internals.removals, Removal("mask", tuple(other)))))
    told = first_screen.why(both)
    assert "“a” (+0.50; +8.00 by mask)" in told
    assert "“b” (−0.30)" in told
    turned = [0.5, 0.2, *EFFECTS[2:]]
    both = replace(one, internals=Internals((*one.internals.removals, Removal("mask", tuple(turned)))))
    told = first_screen.why(both)
    assert "“a” (+0.50)" in told
    assert "“b” (−0.30; +0.20 by mask)" in told


NOTHING = "Nothing that was removed changes the output"


def test_where_nothing_changes_nothing_is_shaded_or_compared(make: Make) -> None:
    one = given(make, {"good": GOOD}, {"good": 99}, [0.0] * 10)
    assert first_screen.why(one).startswith(NOTHING)
    assert first_screen.named_units(one) == []
    for silent in (first_screen.better_than_random, first_screen.none_better, first_screen.scored_lower):
        assert silent(one) == ""
    maps = [node for option in shaded(one).options for node in option.nodes if isinstance(node, UnitMap)]
    assert maps
    assert not any(piece.share for drawn in maps for piece in drawn.pieces)
    curves = {"good": ((0.0, 1.0), (0.5, 0.2), (1.0, 0.0))}  # single words do nothing, many do
    some = replace(one, internals=Internals((Removal("delete", (0.0,) * 10, curves),)))
    assert not first_screen.why(some).startswith(NOTHING)


def test_a_constant_picture_is_no_explanation_of_rounding() -> None:
    """Its patches are replaced by the same colour; single precision leaves differences of about 1e-7."""
    found = heedful.explain(
        "zoo:digits-vit", np.full((48, 48, 3), 128, np.uint8), ["occlusion", "grad-l2", "edges"]
    )
    for measured in found.internals.removals:
        assert all(value == 0 or math.isnan(value) for value in measured.leave_one_out)
    told = str(found)
    assert NOTHING in told
    assert "lower than edges" not in told
    assert "e-07" not in told


def test_a_function_that_never_changes_says_so() -> None:
    model = heedful.load(lambda texts: [[1.0, 0.0]] * len(texts), labels=["yes", "no"])
    assert NOTHING in str(heedful.explain(model, "a b c d", ["occlusion"]))


def test_words_that_repeat_are_numbered() -> None:
    assert numbered(["the", " cat", "the", " ", "The"]) == ["the₁", "cat", "the₂", "␣", "The"]
    assert numbered(["a"] * 12)[-1] == "a₁₂"
