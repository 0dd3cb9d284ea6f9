"""An input as the model reads it: token ids, and which characters and words they are."""

from __future__ import annotations

from dataclasses import dataclass

from heedful.core.arrays import Span
from heedful.core.result import NotebookRepr


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
        from heedful.core.text_units import unit_positions

        return unit_positions(self, unit)
