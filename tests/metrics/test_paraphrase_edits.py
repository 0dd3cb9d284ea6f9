"""Edits keep every other word in its place, and only those that keep the prediction count."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import heedful
from heedful.core import registry
from heedful.engine.question import run_explainer
from heedful.metrics import paraphrase_edits as e
from heedful.metrics.metric_input import MetricInput
from heedful.metrics.paraphrase_edits import TextEdit
from heedful.metrics.score import score_explanations

SENTENCE = "The movie is not bad - it's my favourite. I do not like the theatre"


def by_kind(text: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for edit in e.edits_of(text):
        found.setdefault(edit.name, []).append(edit.apply(text))
    return found


def test_each_kind_by_hand() -> None:
    found = by_kind(SENTENCE)
    assert found["case"] == [SENTENCE.replace("The movie", "the movie"), SENTENCE.lower()]
    assert found["spacing"] == [SENTENCE.replace(" ", "  ")]
    assert found["typography"] == [
        SENTENCE.replace("'", "\u2019"),
        SENTENCE.replace(" - ", " \u2013 "),
        SENTENCE.replace(" - ", " \u2014 "),
    ]
    assert found["punctuation"] == [SENTENCE + "."]
    assert found["contraction"] == [
        SENTENCE.replace("is not", "isn't").replace("do not", "don't"),
        SENTENCE.replace("it's", "it is"),
    ]
    assert found["spelling"] == [SENTENCE.replace("favourite", "favorite").replace("theatre", "theater")]
    assert found["synonym"] == [SENTENCE.replace("movie", "film")]


@pytest.mark.parametrize(
    ("text", "kind", "wanted"),
    [
        ("Movie night", "synonym", ["Film night"]),  # a capital stays
        ("moviegoers and remake", "synonym", None),  # whole words alone
        ("it is good it isn't", "contraction", ["it's good it isn't", "it is good it is not"]),
        ("all ends.", "punctuation", ["all ends"]),
        ("wait...", "punctuation", None),
        ("wait...", "typography", ["wait\u2026"]),
        ("a  b   c", "spacing", ["a b c"]),
        ("big film", "synonym", ["large film", "big movie"]),  # one place at a time
        ("42", "case", None),
    ],
)
def test_odd_places(text: str, kind: str, wanted: list[str] | None) -> None:
    assert by_kind(text).get(kind) == wanted


@given(st.text(alphabet="ab .'-\u2019Tdonti\u00e9", max_size=40))
def test_what_an_edit_left_alone_reads_the_same_where_it_says(text: str) -> None:
    """Any stretch that `place` finds in the new text is the old stretch."""
    for edit in e.edits_of(text):
        new = edit.apply(text)
        assert new != text
        for start in range(len(text)):
            for end in range(start + 1, min(len(text), start + 6) + 1):
                if (span := edit.place((start, end))) is not None:
                    assert new[span[0] : span[1]] == text[start:end]


def test_places_by_hand() -> None:
    edit = TextEdit("x", ((2, 4, "longer"), (6, 6, "!"), (8, 9, "")))
    assert edit.apply("0123456789") == "01longer45!679"
    assert edit.place((0, 2)) == (0, 2)
    assert edit.place((4, 6)) == (8, 10)
    assert edit.place((6, 8)) == (11, 13)
    assert edit.place((9, 10)) == (13, 14)
    assert edit.place((3, 5)) is None


def weights_of(text: str) -> dict[str, float]:
    return {"good": 3.0, "movie": 1.0, "film": 1.05, "not": -1.0, "don't": -9.0, "do": 0.0, "big": 2.0}


def function(texts: list[str]) -> list[float]:
    """A sum over words, and 1: case matters not, the final stop adds a little."""
    return [1 + sum(weights_of(t).get(w.strip("."), 0.0) for w in t.lower().split()) for t in texts]


def subject_of(model: Any, text: str, method: str = "occlusion", **params: Any) -> MetricInput:
    entry = registry.get(method)
    x = model.encode(text)
    item = run_explainer(entry, model, x, model.target(x), **params)
    return MetricInput(model, item, lambda m, y, t, seed: run_explainer(entry, m, y, t, **params))


def test_the_trail_says_what_counts_and_why_not() -> None:
    model = heedful.load(function)
    subject = subject_of(model, "I do not like a good big movie", operator="delete")
    told = {(t.edit, t.text.split(" ")[-1]): t for t in e.trail(subject)}
    film = told["synonym", "film"]
    assert film.why == ""
    assert film.change == pytest.approx(0.05 / 5)
    assert film.distance == pytest.approx(0, abs=1e-12), "the other words keep their scores in a sum"
    contraction = next(t for t in e.trail(subject) if t.edit == "contraction")
    assert contraction.why == "it changes the output by 160% of the text's effect"
    assert np.isnan(contraction.distance)
    lower = next(t for t in e.trail(subject) if t.edit == "case")
    assert lower.why == ""
    assert e.edit_sensitivity(subject, np.random.default_rng(0)) == pytest.approx(0, abs=1e-12)


def test_the_value_is_the_largest_change_over_unchanged_words() -> None:
    model = heedful.load(function)
    subject = subject_of(model, "a good movie", operator="delete")
    assert subject.scores.tolist() == pytest.approx([0, 3, 1])

    def again(m: Any, x: Any, target: Any, seed: int) -> Any:
        """Whatever the text, 4 for "good" and 7 for the last word."""
        scores = np.array([4.0 if "good" in token else 0.0 for token in x.tokens])
        scores[-1] = 7.0
        return replace(subject.item, x=x, scores=scores)

    moved = replace(subject, again=again)
    by_text = {t.text: t.distance for t in e.trail(moved) if not t.why}
    assert by_text["a good film"] == pytest.approx(1 / 3), "good: 3 to 4; film is not compared with movie"
    assert by_text["A good movie"] == pytest.approx(np.hypot(1, 6) / np.hypot(3, 1))
    assert e.edit_sensitivity(moved, np.random.default_rng(0)) == max(by_text.values())


def test_units_are_matched_by_place_not_by_number() -> None:
    model = heedful.load(function)
    old = model.encode("I do not see a good movie")
    edit = next(x for x in e.edits_of(old.text) if x.name == "contraction")
    new = model.encode(edit.apply(old.text))
    words = lambda x: [x.text[a:b] for a, b in x.word_spans]  # noqa: E731
    pairs = e.aligned(old, new, edit, "word")
    assert [(words(old)[i], words(new)[j]) for i, j in pairs] == [
        (word, word) for word in ("I", "see", "a", "good", "movie")
    ]


def test_an_edit_that_touches_most_words_does_not_count() -> None:
    model = heedful.load(function)
    subject = subject_of(model, "GOOD MOVIE", operator="delete")
    lower = next(t for t in e.trail(subject) if t.text == "good movie")
    assert lower.why == "it leaves 0 of 2 units alone"


def test_what_the_tokenizer_does_not_see_does_not_count(shared: Any) -> None:
    model = shared("bert").model  # lower case, any white space
    subject = subject_of(model, "The cat sat on the mat", "grad-l2")
    told = {(t.edit, t.why) for t in e.trail(subject)}
    assert ("case", "the tokenizer does not see it") in told
    assert ("spacing", "the tokenizer does not see it") in told


@pytest.mark.parametrize("family", ["gpt2", "llama-classifier", "t5-classifier", "roberta"])
def test_blanks_inside_tokens_do_not_break_the_alignment(family: str, shared: Any) -> None:
    model = shared(family).model
    for unit in ("word", "token"):
        old = model.encode("the cat sat on a big mat")
        edit = next(x for x in e.edits_of(old.text) if x.apply(old.text).endswith("large mat"))
        new = model.encode(edit.apply(old.text))
        pairs = e.aligned(old, new, edit, unit)
        spans = e._spans(old, unit), e._spans(new, unit)
        texts = [(old.text[slice(*spans[0][i])], new.text[slice(*spans[1][j])]) for i, j in pairs]
        assert all(a == b for a, b in texts)
        assert {"cat", "sat", "mat"} <= {a for a, _ in texts} or unit == "token"


def test_pairs_and_positions_have_no_trail(shared: Any) -> None:
    model = shared("bert").model
    x = model.encode(("the cat", "sat on the mat"))
    entry = registry.get("grad-l2")
    pair = MetricInput(
        model,
        run_explainer(entry, model, x, model.target(x)),
        lambda m, y, t, seed: run_explainer(entry, m, y, t),
    )
    assert e.trail(pair) == []
    assert np.isnan(e.edit_sensitivity(pair, np.random.default_rng(0)))
    lm = shared("gpt2").model
    x = lm.encode("the cat sat on the mat")
    item = run_explainer(entry, lm, x, lm.target(x, {"position": 2}))
    assert e.trail(MetricInput(lm, item, pair.again)) == []


def test_methods_beat_the_control_on_a_trained_model() -> None:
    model = heedful.load("zoo:sentiment")
    subject = subject_of(model, "the film is not bad at all, but the ending was a great disappointment")
    (score,) = score_explanations(model, [subject.item], ["edit-sensitivity"])
    assert 0 < score.value < score.low
