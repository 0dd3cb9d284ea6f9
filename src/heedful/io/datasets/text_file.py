"""A plain text file: one row per line, with its line break, which is part of a long text cut into lines."""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import Iterator
from pathlib import Path

from heedful.io.datasets.rows import Columns, DataRow, max_field_chars


def read(path: Path, _columns: Columns) -> Iterator[DataRow]:
    """Bytes that are no UTF-8 become lone surrogates, as in a CSV file, so that the row is skipped and
    recorded; a line that is longer than a field may be is cut into rows."""
    with path.open("rb") as file:
        number, decoder = 0, getincrementaldecoder("utf-8")("surrogateescape")
        while line := file.readline(max_field_chars()):
            text = decoder.decode(line, final=line.endswith(b"\n"))  # a character that is cut waits
            yield DataRow(number, text.removeprefix("\ufeff"))
            number += 1
        if rest := decoder.decode(b"", final=True):
            yield DataRow(number, rest)
