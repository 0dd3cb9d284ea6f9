"""CoNLL-U: sentences with their words, heads and relations, and where each word stands in the text.

    # text = They don't.                     comments come first
    1     They  they  PRON  _  _  2  nsubj  _  _
    2-3   don't _     _     _  _  _  _      _  SpaceAfter=No       a surface token of two words
    2     do    do    AUX   ...                                    its words share its characters
    3     n't   not   PART  ...
    3.1   left  leave VERB  ...                                    an empty node: kept, never in the text

Ten columns, parted by tabs; a blank line ends a sentence. The text is the surface tokens with a space between
them, unless MISC says SpaceAfter=No; a `# text` that differs is an error, as is any head that is missing, out
of range or part of a circle. Words of one surface token cannot be told apart in the text: they share a span.

Nivre et al. 2020 (Universal Dependencies v2); universaldependencies.org/format.html.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from heedful.core.arrays import Span
from heedful.core.errors import HeedfulError
from heedful.core.whole_numbers import whole_number
from heedful.io.files import read_text

COLUMNS = ("ID", "FORM", "LEMMA", "UPOS", "XPOS", "FEATS", "HEAD", "DEPREL", "DEPS", "MISC")
SPACED = {1, 2, 9}  # columns that may hold spaces
NUMBER = re.compile(r"(0|[1-9][0-9]{0,8})(?:([-.])([1-9][0-9]{0,8}))?", re.ASCII)
Fields = tuple[str, ...]  # ten


@dataclass(frozen=True)
class Word:
    """A syntactic word."""

    form: str
    head: int  # index of the word it depends on, -1 for the root
    relation: str
    surface: int  # index of the surface token it belongs to


@dataclass(frozen=True)
class Sentence:
    text: str
    words: tuple[Word, ...]
    spans: tuple[Span, ...]  # characters of each surface token
    comments: tuple[str, ...]  # with their #
    rows: tuple[Fields, ...]  # every line, multiword tokens and empty nodes too
    line: int  # where it begins

    def span(self, word: int) -> Span:
        return self.spans[self.words[word].surface]


def read(path: str | Path) -> list[Sentence]:
    """Sentences of a file."""
    return parse(read_text(path), str(path))


def parse(content: str, name: str = "CoNLL-U") -> list[Sentence]:
    """Sentences of a text; mistakes are told with the line they stand in."""
    sentences, block = [], list[tuple[int, str]]()
    # not splitlines: a form may hold the rarer line breaks of Unicode
    for number, line in enumerate([*content.replace("\r\n", "\n").split("\n"), ""], 1):
        if line:
            block.append((number, line))
        elif block:
            sentences.append(_sentence(block, name))
            block = []
    if not sentences:
        raise HeedfulError(f"{name} contains no sentence", "", "Give a CoNLL-U file")
    return sentences


def write(sentences: Iterable[Sentence]) -> str:
    """The same CoNLL-U again."""
    blocks = [[*s.comments, *("\t".join(row) for row in s.rows)] for s in sentences]
    return "".join("\n".join(lines) + "\n\n" for lines in blocks)


def _wrong(name: str, line: int, why: str) -> HeedfulError:
    return HeedfulError(f"{name}, line {line} is not CoNLL-U", why)


def _sentence(block: Sequence[tuple[int, str]], name: str) -> Sentence:
    comments = [line for _, line in block if line.startswith("#")]
    numbered = block[len(comments) :]
    if not numbered:
        raise _wrong(name, block[0][0], "there are comments and no words")
    rows = [(number, _fields(line, number, name)) for number, line in numbered]
    tokens = _checked_order(rows, name)
    words = [(number, row) for number, row in rows if row[0].isdigit()]
    surface = {word: index for index, (_, covers) in enumerate(tokens) for word in covers}
    result = tuple(
        Word(row[1], _head(row, number, len(words), name), row[7], surface[index])
        for index, (number, row) in enumerate(words)
    )
    _refuse_circles(result, words, name)
    text, spans = _text([row for row, _ in tokens])
    _compare(text, comments, block[0][0], name)
    return Sentence(
        text=text,
        words=result,
        spans=spans,
        comments=tuple(comments),
        rows=tuple(row for _, row in rows),
        line=block[0][0],
    )


def _fields(line: str, number: int, name: str) -> Fields:
    fields = tuple(line.split("\t"))
    if line.startswith("#"):
        raise _wrong(name, number, "a comment stands after the first word")
    if len(fields) != len(COLUMNS):
        raise _wrong(name, number, f"it has {len(fields)} columns instead of 10 (parted by tabs)")
    for index, (column, value) in enumerate(zip(COLUMNS, fields, strict=True)):
        if not value or value != value.strip() or (index not in SPACED and " " in value):
            raise _wrong(name, number, f"{column} is {value!r}; nothing is written _, and without spaces")
    return fields


def _checked_order(rows: Sequence[tuple[int, Fields]], name: str) -> list[tuple[Fields, range]]:
    """Surface tokens and the words each covers; IDs must count 1, 2, 3, ranges and empty nodes between."""
    tokens: list[tuple[Fields, range]] = []
    words, empties, until = 0, 0, 0  # words seen, empty nodes since the last, last word of the open range
    for number, row in rows:
        parts = NUMBER.fullmatch(row[0])
        if parts is None:
            raise _wrong(name, number, f"ID {row[0]!r} is no number, range (1-2) or empty node (1.1)")
        first, kind, last = int(parts[1]), parts[2], int(parts[3] or 0)
        if kind == "-":
            if first != words + 1 or last <= first or words < until:
                raise _wrong(name, number, f"the range {row[0]} does not stand before its words")
            tokens.append((row, range(first - 1, last)))
            until = last
        elif kind == ".":
            empties += 1
            if (first, last) != (words, empties):
                raise _wrong(name, number, f"the empty node {row[0]} should be {words}.{empties}")
        else:
            words, empties = words + 1, 0
            if first != words:
                raise _wrong(name, number, f"ID {row[0]} should be {words}")
            if words > until:
                tokens.append((row, range(words - 1, words)))
    if words < until or not words:
        raise _wrong(name, rows[-1][0], "the words of a range are missing" if until else "there is no word")
    return tokens


def _head(row: Fields, number: int, words: int, name: str) -> int:
    head = whole_number(row[6])
    if head is None or head > words or row[6] == row[0]:
        raise _wrong(name, number, f"HEAD {row[6]!r} is none of 0 (the root) to {words}, without itself")
    if row[7] == "_":
        raise _wrong(name, number, "DEPREL is missing")
    return head - 1


def _refuse_circles(words: Sequence[Word], rows: Sequence[tuple[int, Fields]], name: str) -> None:
    for index, (number, _) in enumerate(rows):
        at = index
        for _ in words:
            at = words[at].head
            if at < 0:
                break
        else:
            raise _wrong(name, number, "its heads go round in a circle and never reach the root")


def _text(tokens: Sequence[Fields]) -> tuple[str, tuple[Span, ...]]:
    text, spans = "", list[Span]()
    for row in tokens:
        spans.append((len(text), len(text) + len(row[1])))
        text += row[1] + ("" if "SpaceAfter=No" in row[9].split("|") else " ")
    text = text.removesuffix(" ")
    assert all(end <= start for (_, end), (start, _) in pairwise(spans))
    return text, tuple(spans)


def _compare(text: str, comments: Sequence[str], line: int, name: str) -> None:
    for offset, comment in enumerate(comments):
        key, equals, value = comment.removeprefix("#").partition("=")
        result = value.strip()
        if equals and key.strip() == "text" and result != text:
            first = next((i for i, (a, b) in enumerate(zip(text, result, strict=False)) if a != b), None)
            where = "one is longer" if first is None else f"from character {first}: {text[first:][:12]!r}"
            raise _wrong(name, line + offset, f"# text and the words differ, {where}")
