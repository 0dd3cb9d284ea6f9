"""Structs in Thrift's compact protocol, in which Parquet describes itself.

A struct becomes {field number: value}: whole numbers, truth values, bytes, lists and structs. Bytes and
doubles that nobody needs are passed over (None). Whatever is wrong with the content gives `BrokenThrift`, and
reading ends with the content, however long it claims to be.

https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
"""

from __future__ import annotations

from typing import Any

MAX_DEPTH = 16
TRUE, FALSE, BYTE, DOUBLE, BINARY, LIST, SET, STRUCT = 1, 2, 3, 7, 8, 9, 10, 12
WHOLE = (4, 5, 6)  # i16, i32, i64


class BrokenThrift(ValueError):
    """A struct makes no sense."""


class ThriftReader:
    """Reads a struct from bytes; `at` is then where it ends."""

    def __init__(self, content: bytes) -> None:
        self.content, self.at = content, 0

    def struct(self, depth: int = 0) -> dict[int, Any]:
        if depth > MAX_DEPTH:
            raise BrokenThrift("a description of the file is nested too deeply")
        fields, number = dict[int, Any](), 0
        while (byte := self._byte()) != 0:
            number = number + (byte >> 4) if byte >> 4 else self._whole()
            kind = byte & 15
            fields[number] = kind == TRUE if kind in (TRUE, FALSE) else self._value(kind, depth)
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        if kind in WHOLE:
            return self._whole()
        if kind == STRUCT:
            return self.struct(depth + 1)
        if kind in (LIST, SET):
            return self._list(depth + 1)
        if kind == BINARY:
            return self._taken(self._unsigned())
        if kind not in (TRUE, FALSE, BYTE, DOUBLE):
            raise BrokenThrift(f"a description of the file has a field of kind {kind}")
        self._taken(8 if kind == DOUBLE else 1)  # in a list, a truth value takes a byte
        return None

    def _list(self, depth: int) -> list[Any]:
        if depth > MAX_DEPTH:
            raise BrokenThrift("a description of the file is nested too deeply")
        byte = self._byte()
        count = self._unsigned() if byte >> 4 == 15 else byte >> 4
        if count > len(self.content) - self.at:  # each takes a byte at least
            raise BrokenThrift("a description of the file is cut, or too large")
        return [self._value(byte & 15, depth) for _ in range(count)]

    def _byte(self) -> int:
        return self._taken(1)[0]

    def _taken(self, count: int) -> bytes:
        start = self.at
        self.at += count
        if self.at > len(self.content):
            raise BrokenThrift("a description of the file is cut, or too large")
        return self.content[start : self.at]

    def _unsigned(self) -> int:
        result = shift = 0
        while True:
            byte = self._byte()
            result |= (byte & 127) << shift
            if not byte & 128:
                return result
            shift += 7
            if shift > 63:
                raise BrokenThrift("a number in a description of the file is too large")

    def _whole(self) -> int:
        zigzag = self._unsigned()
        return (zigzag >> 1) ^ -(zigzag & 1)
