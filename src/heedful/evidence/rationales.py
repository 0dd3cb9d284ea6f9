"""What people marked as the reason: read, cut into passages, and laid over the units of a model.

    read      JSON lines: `text`, `label`, and `rationale`, one 0 or 1 for every word between white space (or
              `spans`, pairs of characters)
    passages  a text too long to read or to explain, in pieces of whole sentences, the marks moved along
    by_unit   marks on characters -> one bool a word, token or sentence of an Encoded

Marks are kept as spans of characters: datasets split words in one way, models in another. A unit is marked
when at least `least` of its characters are (half of them by default; `least=0`: any). Marks with nothing but
white space between them are one span.

DeYoung et al. 2020, "ERASER: a benchmark to evaluate rationalized NLP models" (the marks of film reviews, by
Zaidan, Eisner & Piatko 2007, come in this form).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from heedful.errors import HeedfulError
from heedful.text import split_sentences
from heedful.types import Encoded, Span

LEAST = 0.5
PASSAGE = 100  # words: what a person marks is about a sentence or two, and methods that remove stay quick


@dataclass(frozen=True)
class Marked:
    """A text and the characters people marked."""

    text: str
    spans: tuple[Span, ...]  # in order, not touching
    label: str = ""
    name: str = ""


def read(path: str | Path) -> Iterator[Marked]:
    """Texts of a JSON-lines file, one by one."""
    with Path(path).open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                try:
                    yield _marked(json.loads(line))
                except (KeyError, TypeError, ValueError) as error:
                    why = f"{type(error).__name__}: {error}"
                    raise HeedfulError(
                        f"line {number} of {Path(path).name} holds no marked text",
                        why,
                        "Each line is a JSON object with text and rationale (0 or 1 a word) or spans",
                    ) from None


def _marked(row: dict[str, Any]) -> Marked:
    text = row["text"]
    spans = joined(text, row["spans"]) if "spans" in row else spans_of(text, row["rationale"])
    return Marked(text, spans, str(row.get("label", "")), str(row.get("id", "")))


def spans_of(text: str, marks: Sequence[int | bool]) -> tuple[Span, ...]:
    """Spans of characters from one mark for every word between white space."""
    words = [match.span() for match in re.finditer(r"\S+", text)]
    if len(words) != len(marks):
        raise ValueError(f"{len(marks)} marks for {len(words)} words")
    return joined(text, [word for word, mark in zip(words, marks, strict=True) if mark])


def joined(text: str, spans: Sequence[Sequence[int]]) -> tuple[Span, ...]:
    """Spans in order; those that overlap, or have white space alone between them, are one."""
    found: list[Span] = []
    for start, end in sorted((int(a), int(b)) for a, b in spans):
        if not 0 <= start < end <= len(text):
            raise ValueError(f"span {start} to {end} of {len(text)} characters")
        if found and not text[found[-1][1] : start].strip():
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return tuple(found)


def by_unit(x: Encoded, spans: Sequence[Span], unit: str = "word", least: float = LEAST) -> tuple[bool, ...]:
    """One bool a unit, in the order of x.units(unit)."""
    marked = np.zeros(len(x.text), dtype=bool)
    for start, end in spans:
        marked[start:end] = True
    found = []
    for positions in x.units(unit):
        own = np.zeros(len(x.text), dtype=bool)
        for t in positions:
            own[slice(*x.offsets[t])] = True
        visible = [i for i in np.flatnonzero(own) if not x.text[i].isspace()]
        hits = int(marked[visible].sum())
        found.append(hits > 0 and hits >= least * len(visible))
    return tuple(found)


def passages(item: Marked, words: int = PASSAGE) -> list[Marked]:
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
        item
        for item in items
        if item.spans and sum(b - a for a, b in item.spans) < len(item.text.strip())
    ]  # fmt: skip
