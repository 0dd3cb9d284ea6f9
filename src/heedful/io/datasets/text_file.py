"""A plain text file: one row per line, with its line break, which is part of a long text cut into lines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from heedful.io.datasets.rows import MAX_LINE_BYTES, Columns, DataRow


def read(path: Path, _columns: Columns) -> Iterator[DataRow]:
    """Bytes that are no UTF-8 become U+FFFD; a longer line is cut into rows of MAX_LINE_BYTES bytes."""
    with path.open("rb") as file:
        number = 0
        while line := file.readline(MAX_LINE_BYTES):
            yield DataRow(number, line.decode("utf-8", "replace").removeprefix("\ufeff"))
            number += 1
