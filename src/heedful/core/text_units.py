"""From offsets to characters, words, sentences and windows. Pure Python: no tokenizer, no torch.

A *word* starts as a segment of Unicode's default word boundaries (UAX #29: "don't" is one word, each Han
character is one word, an emoji family is one word) and grows until it is a union of tokens: a token that
straddles two segments joins them, because the model cannot see one without the other. A token of white
space belongs to the word that follows it. So, for any tokenizer,

    - every non-special token belongs to exactly one word,
    - words are disjoint, in reading order, and together hold every visible character that reached the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import regex

from heedful.core.arrays import Span
from heedful.core.errors import HeedfulError
from heedful.core.input import Encoded

_WORD_BOUNDARY = regex.compile(r"\b", regex.WORD | regex.VERSION1)


# A sentence ends at . ! ? (or their CJK, Arabic and Devanagari kin) with closing marks, or at a line break.
_SENTENCE_END = regex.compile(r"[.!?…。！？؟۔।]+[\p{Pe}\p{Pf}\"']*(?=\s|$)|[。！？]+|\n+")


Unit = str  # "token", "word" or "sentence"


UNITS = ("token", "word", "sentence")


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


def windows(x: Encoded, size: int) -> list[tuple[Encoded, list[int]]]:
    """Cut a text that is too long into pieces of at most `size` tokens, each with the special tokens around.

    Returns (piece, positions of its tokens in x). Pieces do not overlap and break between words (a word
    longer than the window is cut), so each token of the text is read exactly once.
    """
    if max(x.segments, default=0) > 0:
        raise HeedfulError(
            "windows work on a single text, not on a pair or a chat",
            fix="Use long='truncate' or shorten the text",
        )
    content = [t for t, is_special in enumerate(x.special) if not is_special]
    if not content:
        return [(x, list(range(len(x))))]
    head, tail = list(range(content[0])), list(range(content[-1] + 1, len(x)))
    room = size - len(head) - len(tail)
    if room < 1:
        raise HeedfulError(
            f"a window of {size} tokens has no room beside {len(head) + len(tail)} special ones"
        )
    pieces, start = [], 0
    while start < len(content):
        end = _window_end(x, content, start, room)
        positions = [*head, *content[start:end], *tail]
        pieces.append((select(x, positions), positions))
        start = end
    return pieces


def _window_end(x: Encoded, content: Sequence[int], start: int, room: int) -> int:
    end = min(start + room, len(content))
    if end < len(content):
        cut = end
        while cut > start and x.words[content[cut]] == x.words[content[cut - 1]]:
            cut -= 1
        end = cut if cut > start else end
    return end


def select(x: Encoded, positions: Sequence[int]) -> Encoded:
    """The same text with only some of its tokens; words are renumbered, offsets stay those of the text."""
    kept = sorted({x.words[t] for t in positions if x.words[t] >= 0})
    number = {word: index for index, word in enumerate(kept)}
    return replace(
        x,
        ids=tuple(x.ids[t] for t in positions),
        tokens=tuple(x.tokens[t] for t in positions),
        offsets=tuple(x.offsets[t] for t in positions),
        special=tuple(x.special[t] for t in positions),
        words=tuple(number.get(x.words[t], -1) for t in positions),
        word_spans=tuple(x.word_spans[word] for word in kept),
        segments=tuple(x.segments[t] for t in positions),
        type_ids=None if x.type_ids is None else tuple(x.type_ids[t] for t in positions),
    )
