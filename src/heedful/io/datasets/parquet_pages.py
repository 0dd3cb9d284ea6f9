"""How large the pages of a Parquet file are, read from their heads before anything is unpacked.

A column is stored in pages. A head says what its page takes when it is unpacked, and the reader unpacks
exactly that: no value is larger than the largest page of its column, whatever its encoding and its
compression. So n rows of a column take at most n times its largest page.

The heads are in Thrift's compact protocol: https://github.com/apache/parquet-format, PageHeader.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO, Any

HEAD_BYTES = 1 << 16  # bytes that are read for a head; statistics may hold two values
MAX_DEPTH = 16
UNPACKED, PACKED, HEADS = 2, 3, (5, 7, 8)  # fields of a PageHeader; heads of its kinds begin with num_values
TRUE, FALSE, BYTE, DOUBLE, BINARY, LIST, SET, STRUCT = 1, 2, 3, 7, 8, 9, 10, 12
WHOLE = (4, 5, 6)  # i16, i32, i64


class BrokenPage(ValueError):
    """The head of a page makes no sense."""


@dataclass(frozen=True)
class ColumnSize:
    """What a column of a row group takes."""

    largest: int  # bytes of its largest page, unpacked
    values: int  # with those inside lists


def column_size(file: IO[bytes], column: Any) -> ColumnSize:
    """Of a column chunk, as pyarrow describes it."""
    first = column.dictionary_page_offset if column.has_dictionary_page else None
    at = column.data_page_offset if first is None else min(first, column.data_page_offset)
    end, largest, values = at + column.total_compressed_size, 0, 0
    while at < end:
        file.seek(at)
        head = _Head(file.read(HEAD_BYTES))
        fields = head.struct()
        packed, unpacked = fields.get(PACKED), fields.get(UNPACKED)
        if not isinstance(packed, int) or not isinstance(unpacked, int) or min(packed, unpacked) < 0:
            raise BrokenPage("the head of a page has no sizes")
        kinds = [fields[number] for number in HEADS if isinstance(fields.get(number), dict)]
        values += sum(max(0, int(kind.get(1, 0))) for kind in kinds)
        largest, at = max(largest, unpacked), at + head.at + packed
    return ColumnSize(largest, values)


class _Head:
    """A struct of Thrift's compact protocol."""

    def __init__(self, content: bytes) -> None:
        self.content, self.at = content, 0

    def struct(self, depth: int = 0) -> dict[int, Any]:
        """Field number -> value; texts are passed over."""
        if depth > MAX_DEPTH:
            raise BrokenPage("the head of a page is nested too deeply")
        fields, number = dict[int, Any](), 0
        while (byte := self._byte()) != 0:
            number = number + (byte >> 4) if byte >> 4 else self._whole()
            fields[number] = self._value(byte & 15, depth)
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        if kind in (TRUE, FALSE):
            return kind == TRUE
        if kind in WHOLE:
            return self._whole()
        if kind == STRUCT:
            return self.struct(depth + 1)
        if kind in (LIST, SET):
            return self._list(depth + 1)
        if kind not in (BYTE, DOUBLE, BINARY):
            raise BrokenPage(f"the head of a page has a field of kind {kind}")
        self._skip({BYTE: 1, DOUBLE: 8}.get(kind) or self._unsigned())
        return None

    def _list(self, depth: int) -> None:
        byte = self._byte()
        count = self._unsigned() if byte >> 4 == 15 else byte >> 4
        for _ in range(count):  # each takes a byte at least, so this ends with the content
            self._skip(1) if byte & 15 in (TRUE, FALSE) else self._value(byte & 15, depth)

    def _byte(self) -> int:
        self._skip(1)
        return self.content[self.at - 1]

    def _skip(self, count: int) -> None:
        self.at += count
        if self.at > len(self.content):
            raise BrokenPage("the head of a page is cut, or too large")

    def _unsigned(self) -> int:
        result = shift = 0
        while True:
            byte = self._byte()
            result |= (byte & 127) << shift
            if not byte & 128:
                return result
            shift += 7
            if shift > 63:
                raise BrokenPage("a number in the head of a page is too large")

    def _whole(self) -> int:
        zigzag = self._unsigned()
        return (zigzag >> 1) ^ -(zigzag & 1)
