"""CSV and TSV: records by their quotes, so that what is wrong inside one does not touch the next."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from heedful.core.errors import HeedfulError
from heedful.io.datasets.rows import MAX_LINE_BYTES, Columns, DataRow, missing_column, numbered, parsed_row

PIECE_BYTES = 1 << 20  # of a line are read at once


def read(path: Path, columns: Columns) -> Iterator[DataRow]:
    """Two columns of the same name are refused where one of them is asked for."""
    delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
    with path.open("rb") as file:
        records = _records(file, delimiter)
        try:
            head = next((fields for record in records if (fields := record.fields(delimiter))), [])
        except csv.Error as error:
            raise HeedfulError(f"the header of {path.name} cannot be read", str(error)) from None
        for name in columns.named.values() if head else ():
            if name not in head:
                raise missing_column(path, name, head, columns)
            if head.count(name) > 1:
                raise HeedfulError(f"{path.name} has two columns {name!r}", fix="Rename one of them")
        places = {field: head.index(name) for field, name in columns.named.items()} if head else {}

        def row(number: int, record: _Record) -> DataRow:
            try:
                fields = record.fields(delimiter)
            except csv.Error as error:
                return DataRow(number, broken=f"{record.where}: {error}")
            if len(fields) != len(head):
                counts = f"{len(fields)} fields, but the header has {len(head)}"
                return DataRow(number, broken=f"{record.where}: {counts}")
            values = {field: fields[place] for field, place in places.items()}
            if values.get("label") == "":
                values.pop("label")
            return parsed_row(number, dict(values))

        yield from numbered(((one.first, None if one.empty else one) for one in records), row)


def names(path: Path) -> list[str]:
    """The header; nothing where it cannot be read."""
    delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
    with path.open("rb") as file:
        try:
            return next(
                (there for record in _records(file, delimiter) if (there := record.fields(delimiter))), []
            )
        except csv.Error:
            return []


class _Quotes:
    """Where a reader of CSV stands: at the start of a field, in a plain one, or between quotes."""

    def __init__(self, delimiter: bytes) -> None:
        self.delimiter, self.inside, self.fresh = delimiter, False, True
        self.closed = False  # the last piece ended with a quote; doubled by the next piece, it closes nothing

    def read(self, piece: bytes) -> bool:
        """Go over a piece of a line; whether it opened the quote that was opened last."""
        at, opened = 0, False
        if self.closed and piece.startswith(b'"'):
            self.inside, at = True, 1
        self.closed = False
        while at < len(piece):
            if self.inside:
                at = piece.find(b'"', at) + 1
                if not at:
                    break
                if piece[at : at + 1] == b'"':  # doubled: it stands for itself
                    at += 1
                else:
                    self.inside = self.fresh = False
                    self.closed = at == len(piece)
            elif self.fresh and piece[at : at + 1] == b'"':
                self.inside, opened, at = True, True, at + 1
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
    cut: bool = False  # longer than MAX_LINE_BYTES bytes

    @property
    def empty(self) -> bool:
        return not self.cut and not self.opened and not self.content.strip(b"\r\n ")

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
        before = csv.field_size_limit(MAX_LINE_BYTES)  # its own limit is 131,072 characters
        try:
            return next(csv.reader([text], delimiter=delimiter, strict=True), [])
        finally:
            csv.field_size_limit(before)


def _records(file: IO[bytes], delimiter: str) -> Iterator[_Record]:
    """Records by their quotes: whatever is wrong inside one, the next begins where it begins."""
    quotes, number, record, opened = _Quotes(delimiter.encode()), 0, _Record(1, 1), 0
    while piece := file.readline(PIECE_BYTES):
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
        if not quotes.inside:
            yield record
            quotes.fresh, record = True, _Record(number + 1, number + 1)
    if quotes.inside:
        record.opened = opened
    if record.content or record.cut:
        yield record
