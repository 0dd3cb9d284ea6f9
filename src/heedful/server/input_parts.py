"""Parts of what a model is given: one text, the two of a pair, the turns of a chat.

A model's own text (`TextInput.text`) holds them with something between: a line break, or a chat template.
Words are changed in the part they stand in, and the whole is put together anew by the model's own encoding.
"""

from __future__ import annotations

from collections.abc import Sequence

from heedful.core.errors import HeedfulError
from heedful.modalities.text import TextInput

Span = tuple[int, int]
Place = tuple[int, int, int]  # part, start, end


def starts(x: TextInput, contents: Sequence[str]) -> list[int]:
    """Where each part begins in the model's text; -1 where nothing of it was read."""
    return [_start(x, part, content) for part, content in enumerate(contents)]


def _start(x: TextInput, part: int, content: str) -> int:
    """By what was read of it: a template may have taken off the spaces around."""
    spans = [span for span, segment in zip(x.offsets, x.segments, strict=True) if segment == part]
    if not spans:
        return -1
    low, high = min(start for start, _ in spans), max(end for _, end in spans)
    result = content.find(x.text[low:high])
    if result < 0:
        raise HeedfulError("words of this text cannot be replaced", "its template changes what it is given")
    return low - result


def placed(x: TextInput, contents: Sequence[str]) -> list[Place]:
    """Every word, by where it stands in its part."""
    begins = starts(x, contents)
    parts: dict[int, int] = {}
    for word, segment in zip(x.words, x.segments, strict=True):
        if word >= 0 and segment >= 0:
            parts.setdefault(word, segment)
    spans = enumerate(x.word_spans)
    return [(p := parts.get(word, 0), start - begins[p], end - begins[p]) for word, (start, end) in spans]


def replaced(
    x: TextInput, contents: Sequence[str], new: dict[int, str], gone: Sequence[int]
) -> tuple[list[str], list[Place]]:
    """(the parts with new words, where the words that go stand in them)"""
    words = placed(x, contents)
    out, places = [], []
    for part, content in enumerate(contents):
        text, at = "", 0
        for word, (own, start, end) in enumerate(words):
            if own != part:
                continue
            text += content[at:start]
            result = new.get(word, content[start:end])
            if word in gone:
                places.append((part, len(text), len(text) + len(result)))
            text, at = text + result, end
        out.append(text + content[at:])
    return out, places


def overlapping(x: TextInput, contents: Sequence[str], places: Sequence[Place]) -> list[int]:
    """Words that share characters with the places."""
    return [
        word
        for word, (part, start, end) in enumerate(placed(x, contents))
        if any(part == p and start < stop and begin < end for p, begin, stop in places)
    ]
