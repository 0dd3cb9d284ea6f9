"""Texts from a CSV, JSONL or Parquet file, or from any iterable: row by row, in constant memory.

A row that cannot be read (broken JSON, invalid UTF-8, too few fields) is a `Row` that says why; it has its
number like any other, and reading goes on. Rows are numbered from 0; the header of a CSV file is none.
"""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest
from pathlib import Path
from typing import IO, Any

from heedful.errors import HeedfulError

KINDS = {".csv": "csv", ".tsv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}
LINE = 1 << 26  # most bytes of a line that are kept: a file without line breaks must not fill the memory
HASHED = 1 << 30  # files up to so many bytes are known by their SHA-256, larger ones by size and time
BATCH = 256  # rows of Parquet in memory at once
_END = object()


@dataclass(frozen=True)
class Row:
    """One row of the source; `broken` says why it could not be read."""

    number: int
    text: Any = None
    label: Any = None
    rationale: Any = None
    broken: str = ""


@dataclass(frozen=True)
class Columns:
    """Where in a file the texts are, and what people say of them."""

    text: str = "text"
    label: str | None = None
    rationale: str | None = None

    @property
    def named(self) -> dict[str, str]:
        """Field of a row -> column."""
        every = {"text": self.text, "label": self.label, "rationale": self.rationale}
        return {field: name for field, name in every.items() if name is not None}


@dataclass(frozen=True)
class FileSource:
    """A file that can be read again and again, and on another machine that has it, too."""

    path: Path
    columns: Columns = Columns()
    limit: int | None = None

    @property
    def kind(self) -> str:
        return KINDS[self.path.suffix.lower()]

    def rows(self) -> Iterator[Row]:
        read = {"csv": _csv, "jsonl": _jsonl, "parquet": _parquet}[self.kind]
        return islice(read(self.path, self.columns), self.limit)

    def facts(self) -> dict[str, Any]:
        stat = self.path.stat()
        known: dict[str, Any] = {"kind": self.kind, "name": self.path.name, "bytes": stat.st_size}
        known |= {"columns": self.columns.named, "limit": self.limit}
        if stat.st_size > HASHED:
            return known | {"modified": stat.st_mtime_ns}
        with self.path.open("rb") as file:
            return known | {"sha256": hashlib.file_digest(file, "sha256").hexdigest()}

    def count(self) -> int | None:
        """By reading it once: nothing beside the work on one text."""
        return sum(1 for _ in self.rows())


@dataclass(frozen=True)
class IterableSource:
    """Texts in memory or from a generator; labels and rationales beside them."""

    texts: Iterable[Any]
    labels: Iterable[Any] | None = None
    rationales: Iterable[Any] | None = None
    limit: int | None = None

    def rows(self) -> Iterator[Row]:
        beside = [given for given in (self.labels, self.rationales) if given is not None]
        for number, (text, *more) in enumerate(
            islice(zip_longest(self.texts, *beside, fillvalue=_END), self.limit)
        ):
            if _END in (text, *more):
                raise HeedfulError(
                    f"texts, labels and rationales differ in length at row {number}",
                    fix="Give one of each a text",
                )
            label = more[0] if self.labels is not None else None
            yield Row(number, text, label, more[-1] if self.rationales is not None else None)

    def facts(self) -> dict[str, Any]:
        """Shards know their rows by their own sums, so little is needed here."""
        given = [name for name in ("labels", "rationales") if getattr(self, name) is not None]
        return {"kind": "python", "rows": self.count(), "beside": given, "limit": self.limit}

    def count(self) -> int | None:
        """None where only reading would tell."""
        if not isinstance(self.texts, Sequence):
            return None
        return len(self.texts) if self.limit is None else min(self.limit, len(self.texts))


Source = FileSource | IterableSource  # rows in order, and facts by which the same source is known again


def open_source(
    texts: Any,
    labels: Any = None,
    rationales: Any = None,
    columns: Columns | None = None,
    limit: int | None = None,
) -> Source:
    """A path names a file; anything else is an iterable of texts."""
    if limit is not None and limit < 1:
        raise HeedfulError(f"limit cannot be {limit}", "it is the number of rows to read, 1 or more")
    if isinstance(texts, str | Path):
        if labels is not None or rationales is not None:
            raise HeedfulError(
                "labels and rationales of a file are columns", fix="Name them: columns=Columns(...)"
            )
        return _file(Path(texts), columns or Columns(), limit)
    if not isinstance(texts, Iterable):
        raise HeedfulError(
            f"texts cannot be a {type(texts).__name__}", fix="Give a list, an iterator or a file"
        )
    return IterableSource(texts, labels, rationales, limit)


def _file(path: Path, columns: Columns, limit: int | None) -> FileSource:
    """Refuses, before any work, what could never be read."""
    if not path.is_file():
        raise HeedfulError(f"there is no file {path}" if not path.exists() else f"{path} is not a file")
    if path.suffix.lower() not in KINDS:
        raise HeedfulError(f"{path.name} is of no known kind", fix=f"Name it one of: {', '.join(KINDS)}")
    source = FileSource(path, columns, limit)
    try:
        first = next(source.rows(), None)
    except OSError as error:
        raise HeedfulError(f"cannot read {path}", error.strerror or str(error)) from None
    if first is None:
        raise HeedfulError(f"{path} is empty", "it has no row")
    return source


def _missing(path: Path, column: str, there: Iterable[str]) -> HeedfulError:
    return HeedfulError(f"{path.name} has no column {column!r}", fix=f"It has: {', '.join(there)}")


def _lines(file: IO[bytes]) -> Iterator[bytes]:
    """Lines, the first LINE bytes of one that is longer."""
    while line := file.readline(LINE):
        yield line
        while len(line) == LINE and not line.endswith(b"\n"):
            line = file.readline(LINE)


def _csv(path: Path, columns: Columns) -> Iterator[Row]:
    """Bytes that are no UTF-8 become lone surrogates, which no text may hold, so that they are found later.

    csv's own limit of a field (131,072 characters) stays: a quote that is never closed must not read the rest
    of the file into one field.
    """
    with path.open("rb") as file:
        lines = (line.decode("utf-8", "surrogateescape") for line in _lines(file))
        reader = csv.reader(lines, delimiter="\t" if path.suffix.lower() == ".tsv" else ",")
        try:
            head = next(reader, [])
        except csv.Error as error:
            raise HeedfulError(f"the header of {path.name} cannot be read", str(error)) from None
        head = [name.removeprefix("\ufeff") for name in head]
        if head:
            for name in columns.named.values():
                if name not in head:
                    raise _missing(path, name, head)
        places = {field: head.index(name) for field, name in columns.named.items()} if head else {}
        number = 0
        while True:
            try:
                fields = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                yield Row(number, broken=f"line {reader.line_num}: {error}")
            else:
                yield _csv_row(number, fields, places, len(head), reader.line_num)
            number += 1


def _csv_row(number: int, fields: list[str], places: dict[str, int], width: int, line: int) -> Row:
    if not fields:
        return Row(number, broken=f"line {line}: the line is empty")
    if len(fields) != width:
        return Row(number, broken=f"line {line}: {len(fields)} fields, but the header has {width}")
    found = {field: fields[place] for field, place in places.items()}
    if found.get("label") == "":
        found.pop("label")
    return Row(number, **_parsed(found))


def _jsonl(path: Path, columns: Columns) -> Iterator[Row]:
    """The first object must have every column, null if need be: a name that is misspelt is told at once."""
    checked = False
    with path.open("rb") as file:
        for number, line in enumerate(_lines(file)):
            try:
                data = json.loads(line.removeprefix(b"\xef\xbb\xbf").decode("utf-8"))
            except UnicodeDecodeError as error:
                yield Row(number, broken=f"line {number + 1}: not UTF-8 at byte {error.start}")
                continue
            except (ValueError, RecursionError) as error:
                yield Row(
                    number, broken=f"line {number + 1}: not JSON: {error}" if line.strip() else "empty line"
                )
                continue
            if not isinstance(data, dict):
                yield Row(number, broken=f"line {number + 1}: not a JSON object")
                continue
            for name in columns.named.values():
                if name not in data and not checked:
                    raise _missing(path, name, data)
            checked = True
            yield Row(number, **_parsed({field: data.get(name) for field, name in columns.named.items()}))


def _parquet(path: Path, columns: Columns) -> Iterator[Row]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(path)
    except (pa.ArrowInvalid, pa.ArrowException) as error:
        raise HeedfulError(f"{path.name} is not a whole Parquet file", str(error)) from None
    with file:
        there = file.schema_arrow.names
        for name in columns.named.values():
            if name not in there:
                raise _missing(path, name, there)
        number = 0
        for batch in file.iter_batches(BATCH, columns=list(dict.fromkeys(columns.named.values()))):
            every = {field: _values(batch.column(name)) for field, name in columns.named.items()}
            for values in zip(*every.values(), strict=True):
                yield Row(number, **_parsed(dict(zip(every, values, strict=True))))
                number += 1


def _values(column: Any) -> list[Any]:
    """Strings are read as bytes first: one that is no UTF-8 must not take its batch along."""
    import pyarrow as pa

    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        raw = column.cast(pa.large_binary()).to_pylist()
        return [None if value is None else value.decode("utf-8", "surrogateescape") for value in raw]
    return list(column.to_pylist())


def _parsed(found: dict[str, Any]) -> dict[str, Any]:
    """A rationale that stands as JSON in a text field is read; what it says is checked with its text."""
    rationale = found.get("rationale")
    if isinstance(rationale, str):
        try:
            found["rationale"] = json.loads(rationale) if rationale.strip() else None
        except (ValueError, RecursionError):
            found["broken"] = f"the rationale is not JSON: {rationale[:40]!r}"
    return found
