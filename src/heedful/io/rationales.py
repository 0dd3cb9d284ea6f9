"""What people marked as the reason: read, cut into passages, and laid over the units of a model.

    read      JSON lines: `text`, `label`, and `rationale` (or `spans`)
    spans_of  what people marked -> spans of characters: one 0 or 1 per word, or [start, end] characters
    passages  a text too long to read or to explain, in pieces of whole sentences, the marks moved along
    by_unit   spans of characters -> one bool per word, token or sentence of a TextInput
    marks_of  both: what people marked -> one bool per unit

Marks are kept as spans of characters: datasets split words in one way, models in another. Marks with nothing
but white space between them are one span.

A unit is marked when any of its visible characters is. So no mark is lost, whatever the unit is: a word is
marked exactly when one of its tokens is, a sentence when one of its words is. White space does not count: a
span that ends after the blank marks nothing of the next word.

DeYoung et al. 2020, "ERASER: a benchmark to evaluate rationalized NLP models" (the marks of film reviews, by
Zaidan, Eisner & Piatko 2007, come in this form).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from heedful.core.arrays import Span
from heedful.core.errors import HeedfulError
from heedful.core.input import Input, Units
from heedful.io.datasets.jsonl_file import json_line
from heedful.io.datasets.rows import lines_of
from heedful.modalities.text import TextInput, text_of
from heedful.modalities.text_spans import split_sentences, split_words

SHAPES = "Give one 0 or 1 per word, or [start, end] characters"
# words: what a person marks is about a sentence or two, and methods that remove stay quick
PASSAGE_WORDS = 100
MARKED_SHARE = 0.5  # of its atoms, from which on a unit of a mask is marked


@dataclass(frozen=True)
class Marked:
    """A text and the characters people marked."""

    text: str
    spans: tuple[Span, ...]  # in order, not touching
    label: str = ""
    name: str = ""


def read(path: str | Path) -> Iterator[Marked]:
    """Texts of a JSON-lines file, one by one."""
    try:
        with Path(path).open("rb") as file:
            for number, line in enumerate(lines_of(file), 1):
                if line.strip():
                    yield _marked(json_line(line, number), f"line {number} of {Path(path).name}")
    except OSError as error:
        raise HeedfulError(f"cannot read {path}", error.strerror or str(error)) from None


def _marked(row: dict[str, Any] | str, where: str) -> Marked:
    """`row`: the object of a line, or what is wrong with it."""
    fix = "Each line is a JSON object with text and rationale (0 or 1 per word) or spans"
    if isinstance(row, str):
        raise HeedfulError(f"{where} contains no marked text", row.partition(": ")[2], fix)
    text = row.get("text")
    name = next((name for name in ("spans", "rationale") if name in row), None)
    if not isinstance(text, str) or name is None:
        what = "rationale and no spans" if isinstance(text, str) else "text"
        raise HeedfulError(f"{where} contains no marked text", f"it has no {what}", fix)
    try:
        spans = spans_of(text, row[name])
    except HeedfulError as error:
        raise HeedfulError(f"{where} contains no marked text", str(error), fix) from None
    return Marked(text, spans, str(row.get("label", "")), str(row.get("id", "")))


def marks_of(rationale: Any, x: Input, unit: str = "word") -> tuple[bool, ...]:
    """What people marked, as one bool per unit."""
    x = text_of(x)
    cut = any(note.startswith("truncated") for note in x.notes)
    extents = [(min(x.offsets[t][0] for t in ps), max(x.offsets[t][1] for t in ps)) for ps in x.units(unit)]
    return by_unit(x, spans_of(x.text, rationale, () if cut else extents), unit)


def marks_of_mask(mask: npt.NDArray[np.bool_], units: Units) -> tuple[bool, ...]:
    """One bool per unit from one per atom: units with at least half of their atoms inside, or else the one
    with the largest share."""
    shares = np.array([mask[atoms].mean() for atoms in units])
    inside = shares >= MARKED_SHARE
    if not inside.any() and shares.any():
        inside[int(shares.argmax())] = True
    return tuple(inside.tolist())


def spans_of(text: str, marks: Any, units: Sequence[Span] = ()) -> tuple[Span, ...]:
    """Spans of characters from one mark (0, 1, true, false) per word, or from [start, end] pairs.

    Words are those between white space, or those that heedful shows; else there is one mark for each of
    `units`. The number of marks tells which. None: nothing is marked.
    """
    if marks is None:
        return ()
    given = list(marks) if isinstance(marks, Sequence | np.ndarray) and not isinstance(marks, str) else None
    if given is not None and all(map(_is_mark, given)):
        if not given:
            return ()
        cuts = [[match.span() for match in re.finditer(r"\S+", text)], split_words(text), list(units)]
        fitting = next((cut for cut in cuts if len(cut) == len(given)), None)
        if fitting is None:
            raise HeedfulError(
                f"the rationale has {len(given)} marks",
                f"the text has {len(cuts[0])} words between spaces, {len(cuts[1])} with punctuation apart",
                SHAPES,
            )
        given = [span for span, mark in zip(fitting, given, strict=True) if mark]
    if given is None or not all(map(_is_span, given)):
        raise HeedfulError("the rationale cannot be read", f"it is {marks!r:.60}", SHAPES)
    return joined(text, given)


def _is_mark(mark: Any) -> bool:
    return isinstance(mark, int | np.integer | np.bool_) and mark in (0, 1)


def _is_span(mark: Any) -> bool:
    pair = isinstance(mark, Sequence | np.ndarray) and not isinstance(mark, str) and len(mark) == 2
    return pair and all(isinstance(at, int | np.integer) and not isinstance(at, bool) for at in mark)


def joined(text: str, spans: Sequence[Sequence[int]]) -> tuple[Span, ...]:
    """Spans in order; those that overlap, or have white space alone between them, are one. Empty ones go."""
    result: list[Span] = []
    for start, end in sorted((int(a), int(b)) for a, b in spans):
        if not 0 <= start <= end <= len(text):
            raise HeedfulError(
                f"the rationale marks characters {start} to {end}", f"the text has {len(text)}", SHAPES
            )
        if result and not text[result[-1][1] : start].strip():
            result[-1] = (result[-1][0], max(result[-1][1], end))
        elif start < end:
            result.append((start, end))
    return tuple(result)


def by_unit(x: TextInput, spans: Sequence[Span], unit: str = "word") -> tuple[bool, ...]:
    """One bool per unit, in the order of x.units(unit): whether any of its visible characters is marked."""
    marked = {i for start, end in spans for i in range(start, end) if not x.text[i].isspace()}
    return tuple(
        any(i in marked for t in positions for i in range(*x.offsets[t])) for positions in x.units(unit)
    )


def passages(item: Marked, words: int = PASSAGE_WORDS) -> list[Marked]:
    """Pieces of whole sentences, at most `words` words each; a longer sentence is cut between words."""
    places = [match.span() for match in re.finditer(r"\S+", item.text)]
    ends = {end for _, end in split_sentences(item.text)}
    pieces: list[list[Span]] = []
    piece: list[Span] = []
    sentence: list[Span] = []
    for place in places:
        sentence.append(place)
        if place[1] in ends or len(sentence) == words:
            if len(piece) + len(sentence) > words:
                pieces.append(piece)
                piece = []
            piece, sentence = [*piece, *sentence], []
    last = [piece, sentence] if len(piece) + len(sentence) > words else [[*piece, *sentence]]
    return [_cut(item, part[0][0], part[-1][1]) for part in (*pieces, *last) if part]


def _cut(item: Marked, start: int, end: int) -> Marked:
    """A stretch of the text with its part of the marks."""
    inside = [(max(a, start) - start, min(b, end) - start) for a, b in item.spans if a < end and b > start]
    text = item.text[start:end]
    return Marked(text, joined(text, inside), item.label, f"{item.name}[{start}:{end}]")


def telling(items: Sequence[Marked]) -> list[Marked]:
    """Those in which something is marked and something is not: elsewhere no order is better than another."""
    return [
        item for item in items if item.spans and sum(b - a for a, b in item.spans) < len(item.text.strip())
    ]
