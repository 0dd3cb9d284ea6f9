"""How large the pages of a Parquet file are, read from their heads before anything is unpacked.

A column is stored in pages. A head says what its page takes when it is unpacked, and the reader unpacks
exactly that: no value is larger than the largest page of its column, whatever its encoding and its
compression. So n rows of a column take at most n times its largest page.

Where the pages are stands in the footer. It is read here and not by pyarrow, which ends the process if a
column of a damaged footer has no description.

Fields by number: https://github.com/apache/parquet-format, PageHeader and FileMetaData.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import IO, Any

from heedful.io.datasets.thrift import BrokenThrift, ThriftReader

HEAD_BYTES = 1 << 16  # bytes that are read for a head; statistics may hold two values
MAX_FOOTER = 1 << 25  # bytes
MAX_PAGES = 100_000  # of a column of a row group; a page has about a megabyte
MAGIC = b"PAR1"
UNPACKED, PACKED, HEADS = 2, 3, (5, 7, 8)  # of a PageHeader; heads of its kinds begin with num_values
SCHEMA, ROW_GROUPS, COLUMNS, ROWS = 2, 4, 1, 3  # of FileMetaData and its RowGroups
LENGTH, NAME, CHILDREN = 2, 4, 5  # of an element of the schema
META = 3  # of a ColumnChunk: its ColumnMetaData, whose fields are
KIND, PATH, COMPRESSED, DATA_PAGE, DICTIONARY_PAGE = 1, 3, 7, 9, 11
BYTE_ARRAY = 6  # the kind of texts
WIDTHS = {0: 1, 1: 4, 2: 8, 3: 12, 4: 4, 5: 8}  # bytes of a value, by kind
FIXED = 7  # the kind whose size stands in the schema; decimals of any size take 16 bytes in memory
DECIMAL, TEXT_NUMBER = 16, 4  # bytes; of a text in a list, its number in the dictionary


class BrokenPage(ValueError):
    """The footer or the head of a page makes no sense."""


@dataclass(frozen=True)
class ColumnPages:
    """Where the pages of a column of a row group are."""

    path: tuple[str, ...]  # of the column of the table, and of what is nested in it
    width: int | None  # bytes of a value in memory; None: any number
    start: int
    end: int

    @property
    def nested(self) -> bool:
        return len(self.path) > 1

    @property
    def texts(self) -> bool:
        return self.width is None

    def bytes_per_value(self) -> int:
        """In memory, at most: the value, and two numbers for its place in each list and struct around it.
        Texts in lists stay in their dictionaries."""
        return (TEXT_NUMBER if self.width is None else self.width) + 4 * len(self.path)


@dataclass(frozen=True)
class RowGroup:
    """A part of the rows."""

    rows: int
    columns: tuple[ColumnPages, ...]


@dataclass(frozen=True)
class ColumnSize:
    """What a column of a row group takes."""

    largest: int  # bytes of its largest page, unpacked
    total: int  # bytes of all pages, unpacked
    values: int  # with those inside lists


def row_groups(file: IO[bytes]) -> tuple[RowGroup, ...]:
    """As the footer describes them."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - 8))
    tail = file.read(8)
    length = int.from_bytes(tail[:4], "little")
    if tail[4:] != MAGIC or length > size - 12:
        raise BrokenPage("it has no footer")
    if length > MAX_FOOTER:
        raise BrokenPage(f"its footer has {length:,} bytes, more than {MAX_FOOTER:,}")
    file.seek(size - 8 - length)
    try:
        footer = ThriftReader(file.read(length)).struct()
    except BrokenThrift as error:
        raise BrokenPage(str(error)) from None
    schema = _schema_columns(_list(footer.get(SCHEMA, [])))
    found = tuple(_row_group(group, dict(schema)) for group in _list(footer.get(ROW_GROUPS, [])))
    paths = tuple(path for path, _ in schema)
    if any(tuple(column.path for column in group.columns) != paths for group in found):
        raise BrokenPage("its columns do not fit its schema")  # by which pyarrow finds them
    columns = [column for group in found for column in group.columns]
    if any(column.end > size for column in columns) or sum(c.end - c.start for c in columns) > size:
        raise BrokenPage("its columns are larger than the file")
    return found


def _schema_columns(elements: list[Any]) -> list[tuple[tuple[str, ...], int]]:
    """(path, bytes of a value where they are fixed, else 0) of the columns, in the order of the schema: a
    tree, each element in front of its children."""
    columns = list[tuple[tuple[str, ...], int]]()
    left = list[tuple[tuple[str, ...], int]]()  # parents with children to come
    for number, element in enumerate(map(_struct, elements)):
        if number and not left:
            raise BrokenPage("its schema is not whole")
        parent, missing = left.pop() if number else ((), 1)
        if missing > 1:
            left.append((parent, missing - 1))
        path = (*parent, _text(element.get(NAME))) if number else ()
        if children := _count(element.get(CHILDREN, 0)):
            left.append((path, children))
        elif number:
            columns.append((path, _count(element.get(LENGTH, 0))))
    if left:
        raise BrokenPage("its schema is not whole")
    return columns


def _row_group(group: Any, lengths: dict[tuple[str, ...], int]) -> RowGroup:
    fields = _struct(group)
    columns = [_struct(_struct(column).get(META)) for column in _list(fields.get(COLUMNS, []))]
    return RowGroup(_count(fields.get(ROWS)), tuple(_column(column, lengths) for column in columns))


def _column(meta: dict[int, Any], lengths: dict[tuple[str, ...], int]) -> ColumnPages:
    names = tuple(map(_text, _list(meta.get(PATH, []))))
    offsets = [_count(meta.get(DATA_PAGE)), _count(meta.get(DICTIONARY_PAGE, 0))]
    starts = [offset for offset in offsets if offset]  # 0: there is none; without rows, there is no data page
    size = _count(meta.get(COMPRESSED)) if starts else 0
    start = min(starts, default=0)
    return ColumnPages(names, _width(_count(meta.get(KIND)), lengths.get(names, 0)), start, start + size)


def _width(kind: int, length: int) -> int | None:
    if kind == FIXED and length:
        return max(DECIMAL, length)
    if kind != BYTE_ARRAY and kind not in WIDTHS:
        raise BrokenPage("a column has values of an unknown size")
    return WIDTHS.get(kind)


def _text(value: Any) -> str:
    if not isinstance(value, bytes):
        raise BrokenPage("a column has no name")
    return value.decode(errors="surrogateescape")


def _struct(value: Any) -> dict[int, Any]:
    if not isinstance(value, dict):
        raise BrokenPage("a column or a row group is not described")
    return value


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise BrokenPage("the footer has no list where one belongs")
    return value


def _count(value: Any) -> int:
    if not isinstance(value, int) or value < 0:
        raise BrokenPage("a column or a row group has no size")
    return value


def column_size(file: IO[bytes], column: ColumnPages) -> ColumnSize:
    """From the heads of its pages."""
    at, largest, total, values, pages = column.start, 0, 0, 0, 0
    while at < column.end:
        if (pages := pages + 1) > MAX_PAGES:
            raise BrokenPage(f"a column has more than {MAX_PAGES:,} pages")
        file.seek(at)
        head = ThriftReader(file.read(HEAD_BYTES))
        try:
            fields = head.struct()
        except BrokenThrift as error:
            raise BrokenPage(str(error)) from None
        packed, unpacked = fields.get(PACKED), fields.get(UNPACKED)
        if not isinstance(packed, int) or not isinstance(unpacked, int) or min(packed, unpacked) < 0:
            raise BrokenPage("the head of a page has no sizes")
        kinds = [fields[number] for number in HEADS if isinstance(fields.get(number), dict)]
        counts = [kind.get(1, 0) for kind in kinds]
        values += sum(count for count in counts if isinstance(count, int) and count > 0)
        largest, total, at = max(largest, unpacked), total + unpacked, at + head.at + packed
    return ColumnSize(largest, total, values)
