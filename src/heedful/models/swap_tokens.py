"""The operator "swap" on tokens: the ids of the words that stand for units.

Words are read as they would be in a text, after a space ("a word"), since many tokenizers write that space
into the token; a unit at the beginning of a text or a line is replaced by the word alone. A unit that holds
the white space before it as a token of its own is replaced with it. Special tokens are never put in.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from heedful.modalities.swap_words import replacements, swap_words
from heedful.modalities.text import TextInput
from heedful.modalities.tokenizer_calls import tokenized

Ids = tuple[int, ...]
BEFORE = "a"  # a word of its own in every tokenizer, whose tokens are left out


@lru_cache(maxsize=16)
def swaps(tokenizer: Any, x: TextInput, unit: str, words: tuple[str, ...]) -> tuple[Ids, ...]:
    """Ids that stand for each unit of x, drawn from `words`. Kept, since all rows of a text ask for them."""
    groups = x.units(unit)
    with swap_words(words):
        drawn = replacements(
            x.text, [_text(x, group) for group in groups], usable=lambda word: _usable(tokenizer, word)
        )
    return tuple(_ids(tokenizer, new, _start(x, group)) for new, group in zip(drawn, groups, strict=True))


def fitted(new: Sequence[Ids], groups: Sequence[Sequence[int]], room: int | None) -> Sequence[Ids]:
    """The same, none longer than its unit where all together would take more than `room` tokens more.

    That depends on the whole text, never on a row, so that all rows agree about a unit.
    """
    pairs = list(zip(new, groups, strict=True))
    if room is None or sum(max(0, len(ids) - len(group)) for ids, group in pairs) <= room:
        return new
    return [ids[: len(group)] for ids, group in pairs]


def _text(x: TextInput, group: Sequence[int]) -> str:
    return x.text[x.offsets[group[0]][0] : x.offsets[group[-1]][1]]


def _start(x: TextInput, group: Sequence[int]) -> int | None:
    """From which character of "a word" on tokens are taken: 1, with the space, or 2; None: the word alone."""
    start, end = x.offsets[group[0]]
    if x.text[start:end].isspace():
        return 1  # the space is a token of the unit, and goes with it
    if start == end or x.text[start].isspace():
        return 2
    return None if start == 0 or x.text[start - 1] == "\n" else 2


def _ids(tokenizer: Any, drawn: str, start: int | None) -> Ids:
    """Of several words each but the first brings its space."""
    first, *others = drawn.split()
    return sum((_word_ids(tokenizer, word, 1) for word in others), _word_ids(tokenizer, first, start))


def _usable(tokenizer: Any, word: str) -> bool:
    """Whether the tokenizer can write every part of it in any place, and not by the unknown-word token."""
    unknown = tokenizer.unk_token_id
    ways = [_word_ids(tokenizer, part, start) for part in word.split() for start in (None, 2)]
    return all(any(i != unknown for i in ids) for ids in ways)


@lru_cache(maxsize=8192)
def _word_ids(tokenizer: Any, word: str, start: int | None) -> Ids:
    """Token ids of a word; none where it holds a special token. One that grows together with the word before
    it is read alone."""
    text = word if start is None else f"{BEFORE} {word}"
    result = tokenized(tokenizer, text, add_special_tokens=False, return_offsets_mapping=True)
    pairs = list(zip(result["input_ids"], result["offset_mapping"], strict=True))
    if start is not None:
        pairs = [(i, (a, b)) for i, (a, b) in pairs if b > start]
        if any(a < len(BEFORE) for _, (a, _) in pairs):
            return _word_ids(tokenizer, word, None)
    ids = tuple(int(i) for i, _ in pairs)
    control = set(tokenizer.all_special_ids) - {tokenizer.unk_token_id}
    return () if control & set(ids) else ids
