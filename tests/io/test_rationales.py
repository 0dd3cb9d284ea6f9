"""Marks laid over units of every kind, and passages that keep them aligned."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import heedful
from heedful.core.errors import HeedfulError
from heedful.io.rationales import Marked, by_unit, joined, marks_of, passages, read, spans_of, telling
from heedful.modalities import text_windows

TEXT = "the plot is dull . but , oh , what a wonderful cast ! see it"
MARKS = [0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0]


def words_in(item: Marked) -> list[str]:
    return [item.text[a:b] for a, b in item.spans]


def test_marks_of_words_become_spans() -> None:
    item = Marked(TEXT, spans_of(TEXT, MARKS))
    assert words_in(item) == ["is dull", "wonderful cast"]


def test_marks_that_do_not_fit_are_refused() -> None:
    with pytest.raises(HeedfulError, match=r"3 marks: the text has 2 words .* 0 or 1 per word"):
        spans_of("two words", [0, 1, 0])
    for wrong in ("good", 3, [[1, 2, 3]], [0.5] * 2, [0, 2], [[True, False]], [[3, 1]], [[0, 10]], [[-1, 2]]):
        with pytest.raises(HeedfulError, match="rationale"):
            spans_of("two words", wrong)


def test_marks_are_spans_or_one_per_word() -> None:
    text = "it's good, really good"
    assert spans_of(text, [0, 1, 0, 1]) == ((5, 10), (18, 22)), "good, is one between spaces"
    assert spans_of(text, [False, True, False, False, True]) == ((5, 9), (18, 22)), (
        "words as heedful cuts them"
    )
    assert spans_of(text, np.array([0, 1, 0, 1])) == ((5, 10), (18, 22))
    assert spans_of(text, [[5, 7], (18, 22), [3, 3]]) == ((5, 7), (18, 22))
    assert spans_of(text, [0, 1], units=[(0, 10), (11, 22)]) == ((11, 22),), "or one for each unit"
    assert spans_of(text, None) == spans_of(text, []) == spans_of(text, [0] * 4) == ()


def test_marks_of_a_text_that_was_cut_stay_where_they_are(shared: Any) -> None:
    """Four words that are read must not take the marks of four that are not."""
    model = shared("bert").model
    text = "the cat, the cat, " * 20  # 80 words between spaces; 120 with commas apart
    x = model.encode(text.strip(), "truncate")
    units = len(x.units("word"))
    with pytest.raises(HeedfulError, match=f"{units} marks"):
        marks_of([1] * units, x)
    assert marks_of([1] + [0] * 79, x) == (True,) + (False,) * (units - 1)


def test_spans_are_joined() -> None:
    assert joined("abc def, ghi", [(4, 7), (0, 3), (5, 7), (9, 12)]) == ((0, 7), (9, 12))
    assert joined("abc", [(2, 2)]) == ()
    for wrong in ((-1, 2), (2, 1), (0, 99)):
        with pytest.raises(HeedfulError, match="the text has 3"):
            joined("abc", [wrong])


@pytest.fixture(scope="module")
def model() -> Any:
    return heedful.load(lambda texts: [float(len(t)) for t in texts])


def test_marks_by_word(model: Any) -> None:
    x = model.encode(TEXT)
    marks = by_unit(x, spans_of(TEXT, MARKS))
    assert [x.word_text(i) for i, mark in enumerate(marks) if mark] == ["is", "dull", "wonderful", "cast"]


def test_marks_by_sentence(model: Any) -> None:
    assert by_unit(model.encode(TEXT), spans_of(TEXT, MARKS), "sentence") == (True, True, False)


def test_any_visible_character_marks_its_word(model: Any) -> None:
    x = model.encode("abcd efgh ijkl")
    assert by_unit(x, [(0, 1), (8, 10)]) == (True, True, False), "the blank after efgh is nothing of ijkl"
    assert by_unit(x, [(4, 5), (9, 10)]) == (False, False, False)


def test_a_blank_before_a_word_marks_nothing_where_it_is_part_of_the_token() -> None:
    x = heedful.load("zoo:lm").encode("a little fox")
    assert [x.text[a:b] for a, b in x.offsets][:2] == ["a", " little"]
    assert by_unit(x, [(0, 2)]) == (True, False, False)
    assert by_unit(x, [(1, 3)], "token")[:3] == (False, True, False)


@given(spans=st.lists(st.tuples(st.integers(0, 36), st.integers(0, 36)).map(sorted), max_size=4))
def test_a_word_is_marked_where_one_of_its_tokens_is(shared: Any, spans: list[list[int]]) -> None:
    """And a sentence where one of its words is: no mark is lost, whatever the unit."""
    text = "unbelievable cats sat. hello  world !"
    for family in ("bert", "llama"):
        x = shared(family).model.encode(text)
        tokens, words, sentences = (marks_of(spans, x, unit) for unit in ("token", "word", "sentence"))
        at = {t: mark for (t,), mark in zip(x.units("token"), tokens, strict=True)}
        assert words == tuple(any(at[t] for t in ps) for ps in x.units("word"))
        assert sentences == tuple(any(at[t] for t in ps) for ps in x.units("sentence"))
        visible = any(not c.isspace() for a, b in spans for c in text[a:b])
        assert any(tokens) == visible


def test_every_tokenizer_marks_the_same_words(family: Any) -> None:
    """Pieces of a marked word are marked, special tokens are in no unit."""
    text = "the cat sat on the mat. hello world!"
    x = family.model.encode(text)
    spans = ((4, 11),)  # cat sat
    words = by_unit(x, spans, "word")
    assert [x.word_text(i).strip() for i, mark in enumerate(words) if mark] == ["cat", "sat"]
    tokens = by_unit(x, spans, "token")
    assert len(tokens) == sum(not special for special in x.special)
    content = [t for t, special in enumerate(x.special) if not special]
    assert {x.words[t] for t, mark in zip(content, tokens, strict=True) if mark} == {1, 2}


def test_windows_keep_their_marks(shared: Any) -> None:
    text = "the cat sat on the mat . " * 6
    x = shared("bert").model.encode(text)
    spans = [(k * 25 + 4, k * 25 + 11) for k in range(6)]
    whole = by_unit(x, spans)
    pieces = [by_unit(piece, spans) for piece, _ in text_windows.windows(x, 12)]
    assert len(pieces) > 1
    assert tuple(mark for piece in pieces for mark in piece) == whole


def test_passages_are_whole_sentences() -> None:
    pieces = passages(Marked(TEXT, spans_of(TEXT, MARKS), "NEG", "x"), words=9)
    assert [piece.text for piece in pieces] == [
        "the plot is dull .",
        "but , oh , what a wonderful cast !",
        "see it",
    ]
    assert [words_in(piece) for piece in pieces] == [["is dull"], ["wonderful cast"], []]
    assert pieces[1].label == "NEG"
    assert pieces[1].name == "x[19:53]"
    assert [piece.text for piece in passages(Marked(TEXT, ()), words=100)] == [TEXT]


def test_short_sentences_share_a_passage() -> None:
    assert [piece.text for piece in passages(Marked("a . b . c d e . f", ()), words=4)] == [
        "a . b .",
        "c d e .",
        "f",
    ]


@given(
    st.lists(st.sampled_from(["good", "bad", ".", "!", "film"]), min_size=1, max_size=60),
    st.integers(1, 20),
    st.data(),
)
def test_passages_lose_nothing(words: list[str], most: int, data: Any) -> None:
    marks = data.draw(st.lists(st.booleans(), min_size=len(words), max_size=len(words)))
    text = " ".join(words)
    pieces = passages(Marked(text, spans_of(text, marks)), most)
    assert " ".join(piece.text for piece in pieces) == text
    assert all(len(piece.text.split()) <= most for piece in pieces)
    marked = [word for piece in pieces for span in words_in(piece) for word in span.split()]
    assert marked == [word for word, mark in zip(words, marks, strict=True) if mark]


def test_only_telling_texts() -> None:
    items = [Marked("a b", ()), Marked("a b", ((0, 3),)), Marked("a b", ((0, 1),))]
    assert telling(items) == items[2:]


def test_files_are_read(tmp_path: Path) -> None:
    rows = [
        {"id": "one", "text": TEXT, "label": "POS", "rationale": MARKS},
        {"text": "fine film", "spans": [[0, 4]]},
    ]
    path = tmp_path / "marked.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)) + "\n\n")
    first, second = read(path)
    assert (first.name, first.label, words_in(first)) == ("one", "POS", ["is dull", "wonderful cast"])
    assert words_in(second) == ["fine"]


@pytest.mark.parametrize("line", ["{", '{"text": "a b"}', '{"text": "a b", "rationale": [1]}', "[]"])
def test_a_bad_line_is_told_by_its_number(line: str, tmp_path: Path) -> None:
    path = tmp_path / "marked.jsonl"
    path.write_text('{"text": "a b", "rationale": [0, 1]}\n' + line + "\n")
    with pytest.raises(HeedfulError, match=r"line 2 of marked\.jsonl"):
        list(read(path))
