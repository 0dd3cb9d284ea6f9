"""Parquet, a batch of rows at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from heedful.core.errors import HeedfulError
from heedful.io.datasets.rows import Columns, DataRow, missing_column, parsed_row
from heedful.io.files import RESUME_HINT

BATCH_ROWS = 256  # rows in memory at once


def read(path: Path, columns: Columns) -> Iterator[DataRow]:
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
                raise missing_column(path, name, there)
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
                yield parsed_row(number, dict(zip(every, values, strict=True)))
                number += 1


def names(path: Path) -> list[str]:
    """The columns; nothing where it cannot be read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return list(pq.read_schema(path).names)
    except (pa.ArrowException, OSError):
        return []


def _values(column: Any) -> list[Any]:
    """Strings are read as bytes first: one that is no UTF-8 must not take its batch along."""
    import pyarrow as pa

    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        raw = column.cast(pa.large_binary()).to_pylist()
        return [None if value is None else value.decode("utf-8", "surrogateescape") for value in raw]
    return list(column.to_pylist())
