"""Rules: what was planted in texts is what they find, in words a reader understands."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from heedful.features.interpretation.rules import Rules, TokenRule, atoms, classes, fit, told
from heedful.features.reading.examples import Context, Snippet

SAID = """the a of to in on take takes taking house dog cat mat walk walking talking king sing 12 7 1999 Paris
London NASA and or but , . ! ( ) naïve self help old new"""
WORDS = SAID.split()


def snippets(fires: Callable[[list[str], int], float], seed: int = 0, count: int = 150) -> list[Snippet]:
    """Random texts of known words; the feature fires by the rule given."""
    rng = np.random.default_rng(seed)
    out = []
    for number in range(count):
        words = [str(w) for w in rng.choice(WORDS, 14)]
        pieces = tuple(" " + w for w in words)
        values = tuple(fires(words, at) for at in range(14))
        first = int(rng.integers(0, 40)) if number % 3 else 0
        at = int(np.argmax(values)) if max(values) else 5
        out.append(Snippet(Context(tuple(range(14)), pieces, first), values, at, number))
    return out


PLANTED = {
    "token": (lambda w, i: float(w[i] == "dog"), {("token", " dog")}),
    "two tokens": (lambda w, i: float(w[i] in ("dog", "cat")), {("token", " dog"), ("token", " cat")}),
    "digits": (lambda w, i: float(w[i].isdigit()), {("class", "digits")}),
    "suffix": (
        lambda w, i: float(w[i].endswith("ing")),
        {("ends", "ing"), ("token", " king"), ("token", " sing")},
    ),
    "prefix": (lambda w, i: float(w[i].startswith("tak")), {("begins", "tak"), ("begins", "ta")}),
    "after": (lambda w, i: float(i > 0 and w[i - 1] == "self"), {("after", " self")}),
    "capitals": (lambda w, i: float(w[i] == "NASA"), {("token", " NASA")}),
    "pair": (lambda w, i: float(i > 0 and w[i - 1 : i + 1] == ["the", "dog"]), {("pair", " the", " dog")}),
}


@pytest.mark.parametrize("name", [n for n in PLANTED if n != "pair"])
def test_planted_rules_are_found(name: str):
    fires, allowed = PLANTED[name]
    rule = fit(snippets(fires))
    assert rule.atoms
    assert set(rule.atoms) & allowed
    right = wrong = total = 0
    for s in snippets(fires, seed=1):
        for at in range(1, 14):
            predicted = rule.at(s.context, at) > 0
            total += s.values[at] > 0
            right += predicted and s.values[at] > 0
            wrong += predicted and s.values[at] == 0
    assert right >= 0.95 * total
    assert wrong == 0


def test_pairs_are_found_where_each_half_is_common():
    """ " the dog" fires; "the" and "dog" by themselves do not. Few of them occur: more texts."""
    fires, allowed = PLANTED["pair"]
    rule = fit(snippets(fires, count=1200))
    assert rule.atoms == tuple(allowed)


def test_places_are_found():
    found = snippets(lambda w, i: 0.0, count=90)
    marked = [
        Snippet(s.context, tuple(float(s.context.first + i < 2) for i in range(14)), 0, s.window)
        for s in found
    ]
    assert fit(marked).atoms == (("within", "2"),)


def test_strength_is_predicted():
    rule = fit(snippets(lambda w, i: {"dog": 5.0, "cat": 1.0}.get(w[i], 0.0)))
    found = dict(zip(rule.atoms, rule.strength, strict=True))
    assert found[("token", " dog")] == pytest.approx(5.0)
    assert found[("token", " cat")] == pytest.approx(1.0)


def test_strong_firings_are_not_hidden_behind_broad_classes():
    """It fires weakly on half of all words and strongly on one: the one must be in the rule."""
    rng = np.random.default_rng(5)
    rule = fit(snippets(lambda w, i: 9.0 if w[i] == "take" else 0.3 * float(rng.random() < 0.5)))
    assert ("token", " take") in rule.atoms


def test_noise_gives_no_rule_that_predicts():
    rng = np.random.default_rng(0)
    rule = fit(snippets(lambda w, i: float(rng.random() < 0.1)))
    fresh = snippets(lambda w, i: float(rng.random() < 0.1), seed=9)
    pairs = [(rule.at(s.context, at) > 0, s.values[at] > 0) for s in fresh for at in range(14)]
    fired = np.array([f for _, f in pairs])
    said = np.array([p for p, _ in pairs])
    assert (said[fired].mean() + (~said[~fired]).mean()) / 2 == pytest.approx(0.5, abs=0.06)


def test_an_atom_must_be_seen_in_two_windows():
    one = Snippet(Context((1, 2, 3), (" a", " rare", " b")), (0.0, 4.0, 0.0), 1, 7)
    same = Snippet(Context((1, 2, 3), (" a", " rare", " b")), (0.0, 4.0, 0.0), 1, 7)
    silent = [Snippet(Context((1, 3), (" a", " b")), (0.0, 0.0), 0, n) for n in range(8, 20)]
    assert fit([one, same, *silent]) == TokenRule((), ())


def test_nothing_to_cover_is_said():
    silent = [Snippet(Context((1,), ("a",)), (0.0,), 0, n) for n in range(5)]
    explanation = Rules().explain(silent)
    assert "no rule" in explanation.text
    assert Rules().predict(explanation, [silent[0].context]) == [[0.0]]


def test_rules_read_only_what_came_before():
    context = Context(tuple(range(6)), (" the", " old", " dog", " and", " new", " cat"))
    cut = Context(context.ids[:3], context.pieces[:3])
    assert list(atoms(context, 2)) == list(atoms(cut, 2))


def test_classes():
    assert list(classes(" 1999", " in")) == ["digits"]
    assert list(classes(" Paris", " in")) == ["capitalised words", "beginnings of words"]
    assert list(classes(" NASA", " in")) == ["capital letters", "beginnings of words"]
    assert list(classes("ing", " walk")) == ["parts inside words"]
    assert list(classes(" (", " walk")) == ["punctuation and signs"]
    assert list(classes("\n", "a")) == ["line breaks"]
    assert list(classes("é", None)) == ["characters beyond ASCII"]


def test_rules_are_told_in_words():
    rule = TokenRule(
        (("token", " dog"), ("token", "\n"), ("ends", "ing"), ("pair", " the", " dog")), (1.0,) * 4
    )
    assert told(rule) == 'the token "␣dog" or "\\n"; or words that end in "ing"; or "␣the" then "␣dog"'
