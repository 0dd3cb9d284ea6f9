"""Characters, words, sentences and windows, without any tokenizer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heedful.core.errors import HeedfulError
from heedful.modalities import text_spans, text_windows
from heedful.modalities.text import TextInput


def encoded(
    text: str, spans: list[tuple[int, int]], special: list[bool] | None = None, segments=None
) -> TextInput:
    special = special or [False] * len(spans)
    words, word_spans = text_spans.align_words(text, spans, special)
    return TextInput(
        text=text,
        ids=tuple(range(len(spans))),
        tokens=tuple(text[a:b] for a, b in spans),
        offsets=tuple(spans),
        special=tuple(special),
        words=tuple(words),
        word_spans=tuple(word_spans),
        segments=tuple(segments or [0] * len(spans)),
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("don't stop", ["don't", "stop"]),
        ("hello, world!", ["hello", ",", "world", "!"]),
        ("你好 世界", ["你", "好", "世", "界"]),
        ("a👨‍👩‍👧b", ["a", "👨‍👩‍👧", "b"]),
        ("🇩🇪🇫🇷", ["🇩🇪", "🇫🇷"]),
        ("שלום עולם", ["שלום", "עולם"]),
        ("3.14 e\u0301a", ["3.14", "e\u0301a"]),
        (" \t\n\u00a0\u2003", []),
        ("", []),
        ("a\x00b", ["a", "\x00", "b"]),
    ],
)
def test_words_are_those_of_unicode(text: str, words: list[str]) -> None:
    assert [text[a:b] for a, b in text_spans.split_words(text)] == words


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("One. Two! (Three?) four", ["One.", "Two!", "(Three?)", "four"]),
        ("你好。世界！", ["你好。", "世界！"]),
        ("pi is 3.14 today", ["pi is 3.14 today"]),
        ("a\n\nb", ["a", "b"]),
        ("   ", []),
    ],
)
def test_sentences(text: str, sentences: list[str]) -> None:
    assert [text[a:b] for a, b in text_spans.split_sentences(text)] == sentences


@given(st.text())
def test_words_and_sentences_hold_every_visible_character_once(text: str) -> None:
    for spans in (text_spans.split_words(text), text_spans.split_sentences(text)):
        held = [i for a, b in spans for i in range(a, b)]
        assert held == sorted(set(held))
        assert {i for i, c in enumerate(text) if not c.isspace()} <= set(held)


def test_a_token_that_straddles_words_joins_them() -> None:
    x = encoded("ab cd ef", [(0, 1), (1, 4), (4, 5), (5, 8)])  # b| c joins ab and cd
    assert [x.word_text(w) for w in range(len(x.word_spans))] == ["ab cd", "ef"]
    assert x.words == (0, 0, 0, 1)


def test_joins_chain_from_right_to_left_too() -> None:
    spans = [(4, 7), (1, 4), (0, 1), (7, 8)]  # out of order on purpose: b-c first, then a-b
    words, word_spans = text_spans.align_words("aa bb cc", spans, [False] * 4)
    assert word_spans == [(0, 8)]
    assert words == [0, 0, 0, 0]


def test_white_space_belongs_to_the_word_that_follows_else_to_the_last() -> None:
    x = encoded("a  b ", [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)])
    assert x.words == (0, 1, 1, 1, 1)


def test_white_space_alone_is_one_blank_word() -> None:
    assert text_spans.align_words(" \n", [(0, 0), (0, 1), (1, 2)], [True, False, False]) == (
        [-1, 0, 0],
        [(0, 2)],
    )


def test_trimmed_space_tokens_get_their_space_back() -> None:
    spans = [(0, 0), (0, 1), (2, 2), (3, 3), (4, 5), (0, 0)]
    special = [True, False, False, False, False, True]
    assert text_spans.repair_offsets("a   b", spans, special) == [
        (0, 0),
        (0, 1),
        (1, 2),
        (2, 3),
        (4, 5),
        (0, 0),
    ]


def test_a_token_of_no_character_stays_empty() -> None:
    assert text_spans.repair_offsets("ab", [(0, 0), (0, 2)], [False, False]) == [(0, 0), (0, 2)]


def test_units() -> None:
    x = encoded("ab cd. ef", [(0, 0), (0, 1), (1, 2), (3, 5), (5, 6), (7, 9)], [True] + [False] * 5)
    assert list(x.units("token")) == [[1], [2], [3], [4], [5]]
    assert list(x.units("word")) == [[1, 2], [3], [4], [5]]
    assert list(x.units("sentence")) == [[1, 2, 3, 4], [5]]
    with pytest.raises(HeedfulError, match="unknown unit 'paragraph'"):
        x.units("paragraph")


@given(st.lists(st.integers(1, 6), min_size=1, max_size=12), st.integers(3, 12))
def test_windows_read_every_token_once_and_fit(lengths: list[int], size: int) -> None:
    text = " ".join("x" * n for n in lengths)
    spans = [(i, i + 1) for i, c in enumerate(text) if c == "x"]
    x = encoded(text, [(0, 0), *spans, (0, 0)], [True, *[False] * len(spans), True])
    pieces = text_windows.windows(x, size)
    content = [p for _, positions in pieces for p in positions if not x.special[p]]
    assert content == list(range(1, len(x) - 1))
    for piece, positions in pieces:
        assert len(piece) == len(positions) <= size
        assert [x.ids[p] for p in positions] == list(piece.ids)
        assert piece.special[0]
        assert piece.special[-1]
        assert [piece.text[a:b] for a, b in piece.offsets] == [
            x.text[a:b] for a, b in map(x.offsets.__getitem__, positions)
        ]
        for position, t in enumerate(positions):  # words are renumbered, not changed
            word = piece.words[position]
            assert (piece.word_spans[word] if word >= 0 else None) == (
                x.word_spans[x.words[t]] if x.words[t] >= 0 else None
            )
    if max(lengths) <= size - 2:  # no word is cut that fits
        cut = [positions[-2] for _, positions in pieces[:-1]]
        assert all(x.words[t] != x.words[t + 1] for t in cut)


def test_windows_refuse_pairs_and_tiny_windows() -> None:
    with pytest.raises(HeedfulError, match="not on a pair"):
        text_windows.windows(encoded("a b", [(0, 1), (2, 3)], segments=[0, 1]), 1)
    with pytest.raises(HeedfulError, match="window of 1 tokens has no room for words next to 1"):
        text_windows.windows(encoded("a b", [(0, 0), (0, 1), (2, 3)], [True, False, False]), 1)
