"""From text to `TextInput`, for every kind of tokenizer and every kind of character."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from heedful.core.errors import HeedfulError
from heedful.modalities.encode import PAIR_SEPARATOR, encode, fit

HARD = [
    *(
        "the cat",
        "don't",
        "👨‍👩‍👧",
        "👍🏽",
        "🇩🇪",
        "é",
        "e\u0301",
        "\u0301",
        "שלום",
        "مرحبا",
        "你好",
        "世界",
        "ก็",
    ),
    *(
        "ﬁ",
        "½",
        "Å",
        "\x00",
        "\x07",
        "\x1b",
        "\u200b",
        "\u200d",
        "\ufeff",
        "\ufffd",
        "\u202e",
        " ",
        "  ",
        "\t",
    ),
    *(
        "\n",
        "\r\n",
        "\u00a0",
        "\u2003",
        "\u3000",
        "\u2028",
        "\u0085",
        "x" * 120,
        "…",
        "<0x41>",
        "▁",
        "Ġ",
        "##s",
    ),
    *(".", "ß", "İ", "𝔘", "\U0010ffff"),
]
texts = st.lists(st.one_of(st.sampled_from(HARD), st.text(max_size=4)), min_size=1, max_size=8).map("".join)
fixtures_are_constant = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def encoded_or_refused(tokenizer: Any, text: Any) -> Any:
    """TextInput, or skip the example: texts of which nothing reaches the model are refused, tested below."""
    try:
        return encode(tokenizer, text)
    except HeedfulError as error:
        assume("no token of the text" not in str(error) and "is empty" not in str(error))
        raise


def check_alignment(x: Any) -> None:
    covered: set[int] = set()
    for special, word, (start, end) in zip(x.special, x.words, x.offsets, strict=True):
        assert (word == -1) == special
        assert 0 <= start <= end <= len(x.text)
        if special:
            assert (start, end) == (0, 0)
            continue
        visible = {i for i in range(start, end) if not x.text[i].isspace()}
        covered |= visible
        low, high = x.word_spans[word]
        assert all(low <= i < high for i in visible)
    ends = [0, *(end for _, end in x.word_spans)]
    assert all(
        end <= start < stop for end, (start, stop) in zip(ends, x.word_spans, strict=False)
    )  # disjoint, in order
    assert covered <= {i for start, end in x.word_spans for i in range(start, end)}
    assert set(x.words) - {-1} == set(range(len(x.word_spans)))  # every word has a token


@fixtures_are_constant
@given(text=texts)
def test_every_token_lies_in_its_word(tokenizer: Any, text: str) -> None:
    check_alignment(encoded_or_refused(tokenizer, text))


@fixtures_are_constant
@given(first=texts, second=texts)
@example(first="a", second="  b")
@example(first="a ", second=" ")
def test_offsets_of_pairs_point_into_the_joined_text(tokenizer_of: Any, first: str, second: str) -> None:
    for name in ("wordpiece", "roberta", "unigram"):
        tokenizer = tokenizer_of(name)
        x = encoded_or_refused(tokenizer, (first, second))
        check_alignment(x)
        assert x.text == first + PAIR_SEPARATOR + second
        for segment, (start, end) in zip(x.segments, x.offsets, strict=True):
            if segment == 0:
                assert end <= len(first)
            if segment == 1:
                assert start > len(first)
        assert {s for s, special in zip(x.segments, x.special, strict=True) if special} <= {-1}


# --- byte-level BPE: the tokens spell the bytes of the text, so where each came from is a fact ------------


def byte_table() -> dict[str, int]:
    """GPT-2's byte-to-character table (Radford et al. 2019), inverted."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [b for b in range(256) if b not in plain]
    return {chr(b): b for b in plain} | {chr(256 + i): b for i, b in enumerate(rest)}


def spans_from_bytes(tokens: list[str], text: str, prefixed: bool) -> list[tuple[int, int]]:
    """Characters of each token, from bytes alone: every token that holds a byte of a character holds it."""
    table = byte_table()
    shown = (" " if prefixed else "") + text
    char_of_byte = [i for i, c in enumerate(shown) for _ in c.encode()]
    assert b"".join(bytes(table[c] for c in token) for token in tokens) == shown.encode()
    spans, cursor = [], 0
    for token in tokens:
        chars = char_of_byte[cursor : cursor + len(token)]
        cursor += len(token)
        spans.append((max(chars[0] - prefixed, 0), chars[-1] + 1 - prefixed))
    return spans


@pytest.mark.parametrize("name", ["byte-level", "byte-level-prefix", "byte-level-untrimmed", "roberta"])
@settings(fixtures_are_constant, max_examples=60)
@given(text=texts)
@example(text="a  b")
@example(text="   ")
@example(text="👨‍👩‍👧 x")
def test_byte_level_offsets_agree_with_the_bytes(tokenizer_of: Any, name: str, text: str) -> None:
    x = encoded_or_refused(tokenizer_of(name), text)
    content = [t for t, special in enumerate(x.special) if not special]
    prefixed = name == "byte-level-prefix" and text[0] != " "
    expected = spans_from_bytes([x.tokens[t] for t in content], text, prefixed)
    for t, span in zip(content, expected, strict=True):
        start, end = x.offsets[t]
        assert [i for i in range(start, end) if text[i] != " "] == [i for i in range(*span) if text[i] != " "]
        assert span[0] <= start <= end <= span[1]
        if text[slice(*span)] and text[slice(*span)].strip(" ") == "":
            assert start < end  # a token of blanks alone keeps some


def test_one_character_in_several_tokens_is_one_word(tokenizer_of: Any) -> None:
    x = encode(tokenizer_of("byte-level"), "👍 ok")
    thumbs = [t for t, span in enumerate(x.offsets) if span == (0, 1)]
    assert len(thumbs) == 4
    assert {x.words[t] for t in thumbs} == {0}
    assert x.word_text(0) == "👍"


# --- control tokens, empty texts, wrong types -----------------------------------------------------------


def test_control_tokens_in_the_text_are_noted(tokenizer_of: Any) -> None:
    x = encode(tokenizer_of("wordpiece"), "the [MASK] sat")
    assert x.notes == ("the text holds [MASK], which the model reads as control, not as words",)
    assert [x.word_text(w) for w in sorted(set(x.words) - {-1})] == ["the", "[MASK]", "sat"]
    assert encode(tokenizer_of("wordpiece"), "the cat sat").notes == ()


def test_a_text_that_brings_its_own_bos_gets_no_second(tokenizer_of: Any) -> None:
    tokenizer = tokenizer_of("byte-fallback")
    assert encode(tokenizer, "<s>the cat").ids.count(tokenizer.bos_token_id) == 1
    assert encode(tokenizer, "the cat").ids.count(tokenizer.bos_token_id) == 1


@pytest.mark.parametrize("empty", ["", " ", "\n\t\u3000"])
def test_empty_text_is_refused(tokenizer: Any, empty: str) -> None:
    with pytest.raises(HeedfulError, match="the text is empty"):
        encode(tokenizer, empty)
    with pytest.raises(HeedfulError, match="the text is empty"):
        encode(tokenizer, ("a", empty))


def test_text_the_tokenizer_drops_is_refused(tokenizer_of: Any) -> None:
    with pytest.raises(HeedfulError, match="no token of the text reaches the model"):
        encode(tokenizer_of("wordpiece"), "\x00\x07")


@pytest.mark.parametrize("wrong", [3, None, b"bytes", ["a", "b"], ("a", "b", "c"), ("a", 1), [], [{}]])
def test_wrong_types_are_refused(tokenizer_of: Any, wrong: Any) -> None:
    with pytest.raises(HeedfulError):
        encode(tokenizer_of("byte-fallback"), wrong)


def test_lone_surrogates_are_refused(tokenizer: Any) -> None:
    with pytest.raises(HeedfulError, match=r"surrogate.*position 2"):
        encode(tokenizer, "ab\ud800")


def test_slow_tokenizers_are_refused() -> None:
    class Slow:
        is_fast = False

    with pytest.raises(HeedfulError, match=r"no character offsets.*fast tokenizer"):
        encode(Slow(), "a")


# --- chat -----------------------------------------------------------------------------------------------

TURNS = [
    {"role": "system", "content": "not bad"},
    {"role": "user", "content": "the cat sat"},
]


def turn_texts(x: Any) -> dict[int, str]:
    """What each turn's tokens cover."""
    found: dict[int, str] = {}
    for turn in sorted(set(x.segments) - {-1}):
        spans = [x.offsets[t] for t, s in enumerate(x.segments) if s == turn]
        found[turn] = x.text[min(a for a, _ in spans) : max(b for _, b in spans)]
    return found


def test_chat_is_rendered_once_through_the_template(tokenizer_of: Any) -> None:
    tokenizer = tokenizer_of("byte-fallback")
    x = encode(tokenizer, TURNS)
    rendered = tokenizer.apply_chat_template(TURNS, tokenize=False, add_generation_prompt=True)
    assert x.text == rendered
    assert list(x.ids) == tokenizer(rendered, add_special_tokens=False)["input_ids"]
    assert x.ids.count(tokenizer.bos_token_id) == 1
    assert [segment == -1 for segment in x.segments] == list(x.special)
    assert turn_texts(x) == {0: "not bad", 1: "the cat sat"}
    assert x.notes == ()


@pytest.mark.parametrize("content", ["user", "system", "assistant", "s", "<|im_start|>", " user ", "not bad"])
def test_content_that_looks_like_scaffolding_is_found_where_it_stands(
    tokenizer_of: Any, content: str
) -> None:
    x = encode(tokenizer_of("byte-fallback"), [TURNS[0], {"role": "user", "content": content}])
    first = x.text.index("<|im_start|>user\n") + len("<|im_start|>user\n")
    inside = range(first, first + len(content))
    turn = [t for t, s in enumerate(x.segments) if s == 1]
    assert turn
    assert all(set(range(*x.offsets[t])) & set(inside) for t in turn)
    assert turn_texts(x)[0] == "not bad"


def test_control_tokens_inside_a_turn_are_noted(tokenizer_of: Any) -> None:
    x = encode(tokenizer_of("byte-fallback"), [{"role": "user", "content": "a <|im_end|> b"}])
    assert "<|im_end|>" in x.notes[0]


def test_a_template_that_strips_its_content(tokenizer_of: Any) -> None:
    import copy

    tokenizer = copy.deepcopy(tokenizer_of("byte-fallback"))
    tokenizer.chat_template = "{% for m in messages %}[{{ m.role }}] {{ m.content | trim }}\n{% endfor %}"
    x = encode(tokenizer, [{"role": "user", "content": "  the cat \n"}])
    assert x.text == "[user] the cat\n"
    assert turn_texts(x)[0].strip() == "the cat"


def test_chat_ending_with_the_assistant_gets_no_new_prompt(tokenizer_of: Any) -> None:
    x = encode(tokenizer_of("byte-fallback"), [*TURNS, {"role": "assistant", "content": "ok"}])
    assert x.text.endswith("ok<|im_end|>\n")


def test_chat_without_template_or_with_bad_messages_is_refused(tokenizer_of: Any) -> None:
    with pytest.raises(HeedfulError, match="no chat template"):
        encode(tokenizer_of("byte-level"), TURNS)
    with pytest.raises(HeedfulError, match="not a chat message"):
        encode(tokenizer_of("byte-fallback"), [{"role": "user"}])
    with pytest.raises(HeedfulError):
        encode(tokenizer_of("byte-fallback"), [{"role": "user", "content": "  "}])


# --- longer than the window -----------------------------------------------------------------------------


def test_too_long_says_exactly_how_long(tokenizer_of: Any) -> None:
    x = encode(tokenizer_of("wordpiece"), "the cat sat on the mat")
    assert len(x) == 8
    with pytest.raises(
        HeedfulError, match=r"the text has 8 tokens \(22 characters\).*reads at most 5.*3 too many"
    ):
        fit(x, 5, "error")
    assert fit(x, 8, "error") is x
    assert fit(x, None, "error") is x


@pytest.mark.parametrize(("keep", "text"), [("start", "the cat sat"), ("end", "on the mat")])
def test_truncation_keeps_the_special_tokens_and_one_end(tokenizer_of: Any, keep: str, text: str) -> None:
    tokenizer = tokenizer_of("wordpiece")
    x = fit(encode(tokenizer, "the cat sat on the mat"), 5, "truncate", keep=keep)
    assert list(x.ids) == tokenizer(text)["input_ids"]
    assert [x.word_text(w) for w in x.words if w >= 0] == text.split()
    assert x.notes == (f"truncated: the {'first' if keep == 'start' else 'last'} 5 of 8 tokens were read",)


def test_truncation_that_leaves_no_word_is_refused(tokenizer_of: Any) -> None:
    with pytest.raises(HeedfulError, match="window of 2 tokens contains no word"):
        fit(encode(tokenizer_of("wordpiece"), "the cat"), 2, "truncate")


def test_windows_are_noted_with_their_number(tokenizer_of: Any) -> None:
    x = fit(encode(tokenizer_of("wordpiece"), "the cat sat on the mat"), 5, "window")
    assert len(x) == 8
    assert x.notes == ("8 tokens read in 2 windows of at most 5; the outputs are averaged",)


def test_unknown_setting_is_refused_even_for_short_texts(tokenizer_of: Any) -> None:
    with pytest.raises(HeedfulError, match="long='cut'"):
        fit(encode(tokenizer_of("wordpiece"), "the"), 5, "cut")
