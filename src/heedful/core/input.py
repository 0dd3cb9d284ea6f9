"""An input as the model reads it: token ids, and which characters and words they are."""

from __future__ import annotations

from dataclasses import dataclass

from heedful.core.arrays import Span
from heedful.core.errors import HeedfulError
from heedful.core.result import NotebookRepr
from heedful.core.text_spans import UNITS, Unit, split_sentences


@dataclass(frozen=True)
class Encoded(NotebookRepr):
    """A text as the model sees it, with the way back to the characters.

    `offsets[t]` are the characters of `text` that token t came from ((0, 0) for special tokens);
    `words[t]` is the index into `word_spans`, -1 for special tokens; `segments[t]` is the part (of a pair)
    or the turn (of a chat) the token belongs to, -1 for what the template or the tokenizer added.
    """

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

    def word_text(self, word: int) -> str:
        start, end = self.word_spans[word]
        return self.text[start:end]

    def units(self, unit: str) -> list[list[int]]:
        """Token positions of each removable unit, in reading order; special tokens are never removed."""
        return unit_positions(self, unit)


def unit_positions(x: Encoded, unit: Unit) -> list[list[int]]:
    """Token positions of each unit that can be removed. Special tokens are in no unit."""
    if unit not in UNITS:
        raise HeedfulError(f"unknown unit {unit!r}", fix=f"Use one of: {', '.join(UNITS)}")
    content = [t for t, is_special in enumerate(x.special) if not is_special]
    if unit == "token":
        return [[t] for t in content]
    labels = x.words if unit == "word" else _sentence_of_words(x)
    groups: dict[int, list[int]] = {}
    for t in content:
        groups.setdefault(labels[t] if unit == "word" else labels[x.words[t]], []).append(t)
    return [groups[key] for key in sorted(groups)]


def _sentence_of_words(x: Encoded) -> tuple[int, ...]:
    """Sentence number of each word: the sentence in which the word starts."""
    sentences = split_sentences(x.text)
    numbers, current = [], 0
    for start, _ in x.word_spans:
        while current + 1 < len(sentences) and sentences[current + 1][0] <= start:
            current += 1
        numbers.append(current)
    return tuple(numbers)
