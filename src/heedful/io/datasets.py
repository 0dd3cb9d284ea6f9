"""Texts from a CSV, JSONL or Parquet file, or from any iterable: row by row, in constant memory.

A row that cannot be read (broken JSON, invalid UTF-8, too few fields) is a `Row` that says why; it has its
number like any other, and reading goes on. Rows are numbered from 0; the header of a CSV file is none.
"""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, zip_longest
from pathlib import Path
from typing import IO, Any

import numpy as np

from heedful.core.errors import HeedfulError

KINDS = {".csv": "csv", ".tsv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}
# most bytes of a line that are kept: a file without line breaks must not fill the memory
MAX_LINE_BYTES = 1 << 26
# files up to so many bytes are known by their SHA-256, larger ones by size and time
MAX_HASHED_BYTES = 1 << 30
BATCH_ROWS = 256  # rows of Parquet in memory at once
SHUFFLE_ROWS = 20_000  # rows that are held to be taken in random order
SAMPLED_OBJECTS = 100  # objects of JSONL that are looked at for the columns
RESUME_HINT = "What is done is kept: run the same command again to resume"
_END = object()


@dataclass(frozen=True)
class DataRow:
    """One row of the source; `broken` says why it could not be read."""

    number: int
    text: Any = None
    label: Any = None
    rationale: Any = None
    broken: str = ""
    copy_of: int | None = None  # an earlier row with exactly this text
    given: Mapping[str, Any] = field(default_factory=dict)  # method -> Given, or the reason why not


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

    again = True  # it can be read twice

    @property
    def marked(self) -> bool:
        """Whether what people marked comes along."""
        return self.columns.rationale is not None

    def rows(self) -> Iterator[DataRow]:
        read = {"csv": _csv, "jsonl": _jsonl, "parquet": _parquet}[self.kind]
        try:
            yield from islice(read(self.path, self.columns), self.limit)
        except OSError as error:
            raise HeedfulError(
                f"cannot read {self.path}", error.strerror or str(error), RESUME_HINT
            ) from None

    def facts(self) -> dict[str, Any]:
        stat = self.path.stat()
        known: dict[str, Any] = {"kind": self.kind, "name": self.path.name, "bytes": stat.st_size}
        known |= {"columns": self.columns.named, "limit": self.limit}
        if stat.st_size > MAX_HASHED_BYTES:
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

    @property
    def again(self) -> bool:
        every = (self.texts, self.labels, self.rationales)
        return all(given is None or isinstance(given, Sequence) for given in every)

    @property
    def marked(self) -> bool:
        return self.rationales is not None

    def rows(self) -> Iterator[DataRow]:
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
            yield DataRow(number, text, label, more[-1] if self.rationales is not None else None)

    def facts(self) -> dict[str, Any]:
        """Shards know their rows by their own sums, so little is needed here."""
        given = [name for name in ("labels", "rationales") if getattr(self, name) is not None]
        return {"kind": "python", "rows": self.count(), "beside": given, "limit": self.limit}

    def count(self) -> int | None:
        """None where only reading would tell."""
        if not isinstance(self.texts, Sequence):
            return None
        return len(self.texts) if self.limit is None else min(self.limit, len(self.texts))


def in_random_order(source: Source, seed: int, window: int = SHUFFLE_ROWS) -> Iterator[DataRow]:
    """Rows in a random order of their own: files are often sorted, by label say.

    `limit` rows of all are taken. At most `window` rows are in memory: the source is read once for each.
    Where it can be read only once, rows come as they are. A text that came before is marked as a copy.
    """
    return _without_copies(_shuffled(source, seed, window) if source.again else source.rows())


def _shuffled(source: Source, seed: int, window: int) -> Iterator[DataRow]:
    every = replace(source, limit=None)
    order = np.random.default_rng([seed, 2]).permutation(every.count() or 0)[: source.limit]
    for first in range(0, len(order), window):
        here = order[first : first + window].tolist()
        wanted = dict.fromkeys(here)
        found = {row.number: row for row in every.rows() if row.number in wanted}
        yield from (found[number] for number in here)


def _without_copies(rows: Iterable[DataRow]) -> Iterator[DataRow]:
    seen: dict[bytes, int] = {}
    for row in rows:
        if not isinstance(row.text, str) or row.broken:
            yield row
            continue
        first = seen.setdefault(
            hashlib.blake2b(row.text.encode("utf-8", "surrogatepass"), digest_size=16).digest(), row.number
        )
        yield row if first == row.number else replace(row, copy_of=first)


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
    return IterableSource(_listed(texts), _listed(labels), _listed(rationales), limit)


def _listed(given: Any) -> Any:
    """An array or a column of a table as a list: it can be read again. A generator stays what it is."""
    again = given is not None and not isinstance(given, Sequence) and iter(given) is not given
    return list(given) if again and hasattr(given, "__len__") else given


def _file(path: Path, columns: Columns, limit: int | None) -> FileSource:
    """Refuses, before any work, what could never be read."""
    if not path.is_file():
        raise HeedfulError(f"there is no file {path}" if not path.exists() else f"{path} is not a file")
    if path.suffix.lower() not in KINDS:
        raise HeedfulError(f"{path.name} is of no known kind", fix=f"Name it one of: {', '.join(KINDS)}")
    source = FileSource(path, columns, limit)
    if next(source.rows(), None) is None:
        raise HeedfulError(f"{path} is empty", "it has no row")
    if source.kind == "jsonl":
        _check_jsonl(path, columns)
    return source


def _missing(path: Path, column: str, there: Iterable[str]) -> HeedfulError:
    return HeedfulError(f"{path.name} has no column {column!r}", fix=f"It has: {', '.join(there)}")


def _lines(file: IO[bytes]) -> Iterator[bytes]:
    """Lines, the first MAX_LINE_BYTES of one that is longer."""
    while line := file.readline(MAX_LINE_BYTES):
        yield line
        while len(line) == MAX_LINE_BYTES and not line.endswith(b"\n"):
            line = file.readline(MAX_LINE_BYTES)


class _Quotes:
    """Where a reader of CSV stands: at the start of a field, in a plain one, or between quotes."""

    def __init__(self, delimiter: bytes) -> None:
        self.delimiter, self.internals, self.fresh = delimiter, False, True

    def read(self, piece: bytes) -> bool:
        """Go over a piece of a line; whether it opened the quote that was opened last."""
        at, opened = 0, False
        while at < len(piece):
            if self.internals:
                at = piece.find(b'"', at) + 1
                if not at:
                    break
                if piece[at : at + 1] == b'"':  # doubled: it stands for itself
                    at += 1
                else:
                    self.internals = self.fresh = False
            elif self.fresh and piece[at : at + 1] == b'"':
                self.internals, opened, at = True, True, at + 1
            else:
                at = piece.find(self.delimiter, at) + 1
                self.fresh = bool(at)
                if not at:
                    break
        return opened


@dataclass
class _Record:
    """One record of a CSV file: lines from `first` to `last`, more than one if a field holds a line break."""

    first: int
    last: int
    content: bytearray = field(default_factory=bytearray)
    opened: int = 0  # line of a quote that is open at the end of the file
    cut: bool = False  # longer than MAX_LINE_BYTES

    @property
    def where(self) -> str:
        return f"line {self.first}" if self.first == self.last else f"lines {self.first} to {self.last}"

    def fields(self, delimiter: str) -> list[str]:
        """Raises csv.Error."""
        if self.opened:
            raise csv.Error(
                f"the quote opened in line {self.opened} is never closed, so all that follows is left out"
            )
        if self.cut:
            raise csv.Error(f"longer than {MAX_LINE_BYTES:,} bytes")
        # bytes that are no UTF-8 become lone surrogates, which no text may hold, so that they are found later
        text = self.content.decode("utf-8", "surrogateescape")
        return next(csv.reader([text], delimiter=delimiter, strict=True), [])


def _records(file: IO[bytes], delimiter: str) -> Iterator[_Record]:
    """Records by their quotes: whatever is wrong inside one, the next begins where it begins."""
    quotes, number, record, opened = _Quotes(delimiter.encode()), 0, _Record(1, 1), 0
    while piece := file.readline(MAX_LINE_BYTES):
        while piece.endswith(b'"') and (more := file.readline(1)):
            piece += more  # a doubled quote must not be cut in two
        if not number:
            piece = piece.removeprefix(b"\xef\xbb\xbf")
        if quotes.read(piece):
            opened = number + 1
        record.cut = record.cut or len(record.content) + len(piece) > MAX_LINE_BYTES
        record.content += b"" if record.cut else piece
        record.last = number + 1
        if not piece.endswith(b"\n"):
            continue
        number += 1
        if not quotes.internals:
            yield record
            quotes.fresh, record = True, _Record(number + 1, number + 1)
    if quotes.internals:
        record.opened = opened
    if record.content or record.cut:
        yield record


def _csv(path: Path, columns: Columns) -> Iterator[DataRow]:
    """A field may have as many characters as csv allows, 131,072. Empty lines at the end are no rows."""
    delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
    with path.open("rb") as file:
        records = _records(file, delimiter)
        try:
            head = next((found for record in records if (found := record.fields(delimiter))), [])
        except csv.Error as error:
            raise HeedfulError(f"the header of {path.name} cannot be read", str(error)) from None
        if head:
            for name in columns.named.values():
                if name not in head:
                    raise _missing(path, name, head)
        places = {field: head.index(name) for field, name in columns.named.items()} if head else {}
        number = empty = 0
        for record in records:
            if not record.cut and not record.opened and not record.content.strip(b"\r\n "):
                empty += 1
                continue
            for back in range(empty, 0, -1):
                yield DataRow(number, broken=f"line {record.first - back}: the line is empty")
                number += 1
            empty = 0
            try:
                fields = record.fields(delimiter)
            except csv.Error as error:
                yield DataRow(number, broken=f"{record.where}: {error}")
            else:
                yield _csv_row(number, fields, places, len(head), record.where)
            number += 1


def _csv_row(number: int, fields: list[str], places: dict[str, int], width: int, where: str) -> DataRow:
    if len(fields) != width:
        return DataRow(number, broken=f"{where}: {len(fields)} fields, but the header has {width}")
    found = {field: fields[place] for field, place in places.items()}
    if found.get("label") == "":
        found.pop("label")
    return DataRow(number, **_parsed(found))


def _jsonl(path: Path, columns: Columns) -> Iterator[DataRow]:
    """Empty lines at the end are no rows."""
    number = empty = 0
    with path.open("rb") as file:
        for at, line in enumerate(_lines(file), 1):
            if not line.strip():
                empty += 1
                continue
            for back in range(empty, 0, -1):
                yield DataRow(number, broken=f"line {at - back}: the line is empty")
                number += 1
            empty = 0
            data = _json(line, at)
            if isinstance(data, str):
                yield DataRow(number, broken=data)
            elif columns.text not in data:
                yield DataRow(number, broken=f"line {at}: there is no {columns.text!r}")
            else:
                yield DataRow(
                    number, **_parsed({field: data.get(name) for field, name in columns.named.items()})
                )
            number += 1


def _json(line: bytes, at: int) -> dict[str, Any] | str:
    """The object of a line, or what is wrong with it."""
    try:
        data = json.loads(line.removeprefix(b"\xef\xbb\xbf").decode("utf-8"))
    except UnicodeDecodeError as error:
        return f"line {at}: not UTF-8 at byte {error.start}"
    except (ValueError, RecursionError) as error:
        return f"line {at}: not JSON: {error}"
    return data if isinstance(data, dict) else f"line {at}: not a JSON object"


def _check_jsonl(path: Path, columns: Columns) -> None:
    """A column that none of the first objects has is a name that is misspelt: that is told at once."""
    there: dict[str, None] = {}
    with path.open("rb") as file:
        found = (data for at, line in enumerate(_lines(file), 1) if isinstance(data := _json(line, at), dict))
        for data in islice(found, SAMPLED_OBJECTS):
            there |= dict.fromkeys(data)
            if there.keys() >= set(columns.named.values()):
                return
    for name in columns.named.values():
        if there and name not in there:
            raise _missing(path, name, there)


def _parquet(path: Path, columns: Columns) -> Iterator[DataRow]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(path)
    except pa.ArrowException as error:
        raise HeedfulError(f"{path.name} is not a whole Parquet file", str(error)) from None
    with file:
        there = file.schema_arrow.names
        for name in columns.named.values():
            if name not in there:
                raise _missing(path, name, there)
        number = 0
        batches = file.iter_batches(BATCH_ROWS, columns=list(dict.fromkeys(columns.named.values())))
        while True:
            try:
                batch = next(batches, None)
            except (pa.ArrowException, OSError) as error:
                raise HeedfulError(
                    f"{path.name} is damaged after row {number}", str(error), RESUME_HINT
                ) from None
            if batch is None:
                return
            every = {field: _values(batch.column(name)) for field, name in columns.named.items()}
            for values in zip(*every.values(), strict=True):
                yield DataRow(number, **_parsed(dict(zip(every, values, strict=True))))
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
