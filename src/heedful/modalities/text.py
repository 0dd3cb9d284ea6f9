"""A text as the model reads it: token ids, and which characters, words and sentences they are."""

from __future__ import annotations

import json
from dataclasses import astuple, dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from heedful.core.arrays import Span
from heedful.core.errors import HeedfulError
from heedful.core.input import NEVER, Input, Units
from heedful.modalities.text_spans import split_sentences

UNITS = ("token", "word", "sentence")


@dataclass(frozen=True, eq=False)
class TextInput(Input):
    """A text as the model reads it: tokens, and the characters that each token came from.

    Parameters
    ----------
    text
        The text.
    ids
        Token ids.
    tokens
        Tokens as text.
    offsets
        Per token: the characters (start, end) that it came from. (0, 0) for special tokens.
    special
        Per token: whether it is a special token.
    words
        For each token: the number of its word, or -1 for special tokens.
    word_spans
        Per word: its characters (start, end).
    segments
        Per token: the part of a pair or the turn of a chat. -1 for tokens that a template or tokenizer
        added.
    type_ids
        Token type ids, if the model uses them.
    notes
        Remarks, such as truncation.

    Examples
    --------
    >>> import heedful
    >>> x = heedful.load("zoo:sentiment").encode("The food was great")
    >>> len(x), x.special[0]
    (6, True)
    >>> x.units("word").labels
    ('The', 'food', 'was', 'great')
    """

    modality: ClassVar[str] = "text"
    noun: ClassVar[str] = "text"
    atom: ClassVar[str] = "token"

    text: str
    ids: tuple[int, ...]
    tokens: tuple[str, ...]
    offsets: tuple[Span, ...]
    special: tuple[bool, ...]
    words: tuple[int, ...]
    word_spans: tuple[Span, ...]
    segments: tuple[int, ...]
    type_ids: tuple[int, ...] | None = None  # token_type_ids, for models that want them
    notes: tuple[str, ...] = ()  # what was done to the text that the reader must know (truncation, windows)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def raw(self) -> str:
        """The text."""
        return self.text

    def content(self) -> bytes:
        return json.dumps(astuple(replace(self, notes=()))).encode()

    def word_text(self, word: int) -> str:
        """The characters of one word."""
        start, end = self.word_spans[word]
        return self.text[start:end]

    @property
    def default_unit(self) -> str:
        return "word"

    def units(self, name: str = "") -> Units:
        """The tokens, words or sentences of the text. Special tokens are in no unit."""
        name = name or self.default_unit
        if name not in UNITS:
            raise HeedfulError(f"unknown unit {name!r}", fix=f"Use one of: {', '.join(UNITS)}")
        if name not in self._partitions:
            self._partitions[name] = _partition(self, name)
        return self._partitions[name]

    @cached_property
    def _partitions(self) -> dict[str, Units]:
        return {}  # filled as they are asked for


def text_of(x: Input) -> TextInput:
    """The input as a `TextInput`. An input that is not a text gives an error."""
    if not isinstance(x, TextInput):
        raise HeedfulError(f"this model reads text, and the input is of the kind {x.modality!r}")
    return x


def _partition(x: TextInput, name: str) -> Units:
    content = [t for t, is_special in enumerate(x.special) if not is_special]
    if name == "token":
        labels = content
    elif name == "word":
        labels = [x.words[t] for t in content]
    else:
        sentences = _sentence_of_words(x)
        labels = [sentences[x.words[t]] for t in content]
    numbers = {label: number for number, label in enumerate(sorted(set(labels)))}
    owner = np.full(len(x), NEVER)
    owner[content] = [numbers[label] for label in labels]
    regions = _regions(x, name, content, [numbers[label] for label in labels])
    return Units(name, tuple(x.text[start:end] for start, end in regions), regions, owner)


def _regions(x: TextInput, name: str, content: list[int], unit_of: list[int]) -> tuple[Span, ...]:
    """Characters of each unit: a word's own, and all that a token or the tokens of a sentence came from."""
    if name == "word":
        return tuple(x.word_spans[word] for word in sorted({x.words[t] for t in content}))
    spans: dict[int, Span] = {}
    for t, unit in zip(content, unit_of, strict=True):
        start, end = x.offsets[t]
        before = spans.get(unit, (start, end))
        spans[unit] = (min(before[0], start), max(before[1], end))
    return tuple(spans[unit] for unit in range(len(spans)))


def _sentence_of_words(x: TextInput) -> tuple[int, ...]:
    """Sentence number of each word: the sentence in which the word starts."""
    sentences = split_sentences(x.text)
    numbers, current = [], 0
    for start, _ in x.word_spans:
        while current + 1 < len(sentences) and sentences[current + 1][0] <= start:
            current += 1
        numbers.append(current)
    return tuple(numbers)
