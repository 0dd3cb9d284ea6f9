"""One row of a source, and which columns it is read from."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from heedful.core.errors import HeedfulError
from heedful.core.whole_numbers import whole_number

# most bytes of a line that are kept: a file without line breaks must not fill the memory
MAX_LINE_BYTES = 1 << 24
PATH = "path"  # the usual column of the paths of pictures
# most characters of a field; a row with a longer one is skipped and says so. No model reads that much
MAX_FIELD_CHARS = 1_000_000
MAX_SHOWN = 20  # columns that a message names
MAX_FIELD = "HEEDFUL_MAX_FIELD"  # the variable of the environment that changes it


def max_field_chars() -> int:
    """How long a field may be."""
    given = os.environ.get(MAX_FIELD, "").strip()
    if not given:
        return MAX_FIELD_CHARS
    if not (limit := whole_number(given)):
        raise HeedfulError(f"{MAX_FIELD} cannot be {given[:40]!r}", "it is a number of characters, 1 or more")
    return limit


@dataclass(frozen=True)
class UnreadField:
    """Stands for a field that is too long to be read."""

    size: int  # characters or bytes


@dataclass(frozen=True)
class DataRow:
    """One row of the source; `broken` says why it could not be read."""

    number: int
    text: Any = None
    label: Any = None
    rationale: Any = None
    mask: Any = None  # where the thing is that must be found: a file, an array or boxes
    boxes: Any = None  # the same as boxes, as they were written
    caption: Any = None  # the text that a picture is compared with, until both are one input
    broken: str = ""
    digest: str = ""  # of the content, where the row itself does not hold it
    copy_of: int | None = None  # an earlier row with exactly this input
    given: Mapping[str, Any] = field(default_factory=dict)  # method -> Given, or the reason why not


@dataclass(frozen=True)
class Columns:
    """Where in a file the texts are, or the paths of pictures, and what people say of them."""

    text: str = "text"
    label: str | None = None
    rationale: str | None = None
    path: str | None = None  # of pictures; it takes the place of the text
    mask: str | None = None  # paths of masks: where the thing is that must be found
    boxes: str | None = None  # left, top, right, bottom
    caption: str | None = None  # the text that a picture is compared with

    @property
    def named(self) -> dict[str, str]:
        """Field of a row -> column."""
        every = {"text": self.path or self.text, "label": self.label, "rationale": self.rationale}
        every |= {"mask": self.mask, "boxes": self.boxes, "caption": self.caption}
        return {field: name for field, name in every.items() if name is not None}

    @property
    def roles(self) -> dict[str, str]:
        """What a column has -> column: as `named`, but the paths of pictures are called paths."""
        first = "text" if self.path is None else "path"
        return {first if field == "text" else field: name for field, name in self.named.items()}


def missing_column(
    path: Path, column: str, there: Iterable[str], columns: Columns | None = None
) -> HeedfulError:
    """With what to type next; a header in one piece is one whose fields are not separated by commas.
    `columns`: None where it is not known yet whether there are texts or pictures."""
    names = list(there)
    shown = [f"{name:.40}" for name in names[:MAX_SHOWN]]
    shown += [f"and {len(names) - MAX_SHOWN:,} more"] if len(names) > MAX_SHOWN else []
    fix = "Name the column of the texts with --text-column, that of the labels with --label-column"
    if columns is None:
        fix += ", and that of the paths of pictures with --path-column"
    elif columns.path is not None:
        fix = _option_of(column, columns)
    if len(names) == 1 and ";" in names[0]:
        fix = "Its fields are separated by semicolons. Save it with commas, or as .tsv with tabs"
    return HeedfulError(f"{path.name} has no column {column!r}", f"it has: {', '.join(shown)}", fix)


def _option_of(column: str, columns: Columns) -> str:
    """The option that names this column of a table of pictures."""
    field = next((field for field, name in columns.named.items() if name == column), "text")
    what = {
        "text": "paths with --path-column",
        "caption": "texts with --text-column",
        "label": "labels with --label-column",
        "rationale": "rationales with --rationale-column",
        "mask": "masks with --mask-column",
        "boxes": "boxes with --boxes-column",
    }
    return f"Name the column of the {what[field]}"


def lines_of(file: IO[bytes]) -> Iterator[bytes]:
    """Lines, the first MAX_LINE_BYTES bytes of one that is longer."""
    while line := file.readline(MAX_LINE_BYTES):
        yield line
        while len(line) == MAX_LINE_BYTES and not line.endswith(b"\n"):
            line = file.readline(MAX_LINE_BYTES)


def numbered(records: Iterable[tuple[int, Any]], row: Callable[[int, Any], DataRow]) -> Iterator[DataRow]:
    """Rows of (line, record) pairs. None is an empty line: at the end of a file that is no row."""
    number = empty = 0
    for line, record in records:
        if record is None:
            empty += 1
            continue
        for back in range(empty, 0, -1):
            yield DataRow(number, broken=f"line {line - back}: the line is empty")
            number += 1
        empty = 0
        yield row(number, record)
        number += 1


def _size(value: Any) -> int:
    """Characters of a field; of a list, those of its texts, and one for each other part."""
    if isinstance(value, UnreadField):
        return value.size
    if isinstance(value, str | bytes):
        return len(value)
    size, waiting = 0, [value] if isinstance(value, list | tuple) else []
    while waiting:  # lists may be nested deeper than Python calls functions
        for part in waiting.pop():
            size += len(part) if isinstance(part, str) else 1
            if isinstance(part, list):
                waiting.append(part)
    return size


def parsed_row(number: int, values: dict[str, Any]) -> DataRow:
    """A rationale that stands as JSON in a text field is read; what it says is checked with its text."""
    for field_name, value in values.items():
        if (size := _size(value)) > max_field_chars():
            why = f"the {field_name} has {size:,} characters, more than {max_field_chars():,} ({MAX_FIELD})"
            return DataRow(number, broken=why)
    rationale = values.get("rationale")
    if isinstance(rationale, str):
        try:
            values["rationale"] = json.loads(rationale) if rationale.strip() else None
        except (ValueError, RecursionError):
            values["broken"] = f"the rationale is not JSON: {rationale[:40]!r}"
    return DataRow(number, **values)
