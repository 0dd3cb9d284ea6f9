"""From offsets to characters, words and sentences. Pure Python: no tokenizer, no torch."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import regex

from heedful.core.arrays import Span

_WORD_BOUNDARY = regex.compile(r"\b", regex.WORD | regex.VERSION1)


# A sentence ends at . ! ? (or their CJK, Arabic and Devanagari kin) with closing marks, or at a line break.
_SENTENCE_END = regex.compile(r"[.!?…。！？؟۔।]+[\p{Pe}\p{Pf}\"']*(?=\s|$)|[。！？]+|\n+")


def split_words(text: str) -> list[Span]:
    """Character spans of the visible word segments of a text, in order."""
    cuts = [match.start() for match in _WORD_BOUNDARY.finditer(text)]
    cuts = sorted({0, *cuts, len(text)})
    return [(start, end) for start, end in pairwise(cuts) if not text[start:end].isspace()]


def split_sentences(text: str) -> list[Span]:
    """Character spans of sentences, in order, white space between them left out."""
    ends = [match.end() for match in _SENTENCE_END.finditer(text)]
    spans = []
    for start, end in zip([0, *ends], [*ends, len(text)], strict=True):
        trimmed = trim(text, (start, end))
        if trimmed[0] < trimmed[1]:
            spans.append(trimmed)
    return spans


def trim(text: str, span: Span) -> Span:
    """The span without white space at its ends (empty when it is all white space)."""
    start, end = span
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return start, end


def repair_offsets(text: str, offsets: Sequence[Span], special: Sequence[bool]) -> list[Span]:
    """Give a token whose offsets a tokenizer trimmed to nothing (" " of byte-level BPE) its space back.

    A token that really came from no character (the space a tokenizer puts in front) keeps an empty span.
    """
    repaired: list[Span] = []
    previous_end = 0
    for (start, end), is_special in zip(offsets, special, strict=True):
        if is_special:
            repaired.append((0, 0))
            continue
        if start == end and previous_end < start and text[previous_end:start].isspace():
            start, end = previous_end, start
        elif start == end == previous_end == 0 and text[:1] == " ":  # trimmed twice at the very start
            end = 1
        repaired.append((start, end))
        previous_end = max(previous_end, end)
    return repaired


def align_words(text: str, offsets: Sequence[Span], special: Sequence[bool]) -> tuple[list[int], list[Span]]:
    """(word of each token or -1, span of each word): segments joined until they are unions of tokens."""
    segments = split_words(text)
    owner = _character_owner(len(text), segments)
    joined = list(range(len(segments)))  # union-find over neighbouring segments: the root is the leftmost
    touched: list[list[int]] = []  # segments each token overlaps
    for (start, end), is_special in zip(offsets, special, strict=True):
        hits = [] if is_special else sorted({owner[i] for i in range(start, end) if owner[i] >= 0})
        touched.append(hits)
        for segment in range(hits[0] + 1, hits[-1] + 1) if hits else ():
            joined[segment] = _root(joined, hits[0])
    roots = [_root(joined, hits[0]) if hits else None for hits in touched]
    return _number_words(roots, special, segments, joined, offsets)


def _character_owner(length: int, segments: Sequence[Span]) -> list[int]:
    owner = [-1] * length
    for index, (start, end) in enumerate(segments):
        owner[start:end] = [index] * (end - start)
    return owner


def _root(joined: list[int], segment: int) -> int:
    while joined[segment] != segment:
        segment = joined[segment]
    return segment


def _number_words(
    roots: Sequence[int | None],
    special: Sequence[bool],
    segments: Sequence[Span],
    joined: list[int],
    offsets: Sequence[Span],
) -> tuple[list[int], list[Span]]:
    """Number the joined segments that hold a token; blank tokens go to the next word, else to the last."""
    used = sorted({root for root in roots if root is not None})
    number = {root: index for index, root in enumerate(used)}
    spans = {root: segments[root] for root in used}
    for segment in range(len(segments)):
        root = _root(joined, segment)
        if root in spans:
            spans[root] = (spans[root][0], max(spans[root][1], segments[segment][1]))
    words = [-1 if root is None else number[root] for root in roots]
    if not used and not all(special):  # nothing but white space reached the model: one blank word
        blank = [span for span, is_special in zip(offsets, special, strict=True) if not is_special]
        return [-1 if s else 0 for s in special], [(blank[0][0], blank[-1][1])]
    following = len(used) - 1
    for position in range(len(words) - 1, -1, -1):
        if words[position] >= 0:
            following = words[position]
        elif not special[position]:
            words[position] = following
    return words, [spans[root] for root in used]
