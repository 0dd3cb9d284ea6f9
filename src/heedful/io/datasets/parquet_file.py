"""Parquet, a batch of rows at a time. How many rows a batch has depends on what one of them may take, which
is known before it is unpacked (heedful.io.datasets.parquet_pages): a small file can stand for gigabytes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from heedful.core.errors import HeedfulError
from heedful.io.datasets.parquet_pages import BrokenPage, column_size
from heedful.io.datasets.rows import (
    Columns,
    DataRow,
    UnreadField,
    max_field_chars,
    missing_column,
    parsed_row,
)
from heedful.io.files import RESUME_HINT

BATCH_ROWS = 256  # rows in memory at once, at most
BATCH_BYTES = 1 << 28  # bytes that they may take
MAX_ROWS = 10**10  # of a file: a row that is empty takes no place in it
MAX_LISTED = 1000  # values in a list of a row, on average


def read(path: Path, columns: Columns) -> Iterator[DataRow]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(path)
        there = file.schema_arrow.names
    except UnicodeDecodeError:
        raise HeedfulError(f"{path.name} cannot be read", "a name of a column is not UTF-8") from None
    except (pa.ArrowException, OSError) as error:
        raise HeedfulError(f"{path.name} is not a whole Parquet file", str(error)) from None
    with file, path.open("rb") as raw:
        for name in columns.named.values():
            if name not in there:
                raise missing_column(path, name, there, columns)
            if there.count(name) > 1:
                raise HeedfulError(f"{path.name} has two columns {name!r}", fix="Rename one of them")
        if file.metadata.num_rows > MAX_ROWS:
            raise HeedfulError(f"{path.name} claims to have {file.metadata.num_rows:,} rows")
        number = 0
        for group in range(file.metadata.num_row_groups):
            try:
                for row in _group(file, raw, group, columns, number):
                    yield row
                    number += 1
            except (pa.ArrowException, OSError, BrokenPage, UnicodeDecodeError) as error:
                raise HeedfulError(
                    f"{path.name} is damaged after row {number}", str(error), RESUME_HINT
                ) from None


def _group(file: Any, raw: IO[bytes], group: int, columns: Columns, number: int) -> Iterator[DataRow]:
    """Rows of a row group; each says why, where one of them may be too large to unpack."""
    names = list(dict.fromkeys(columns.named.values()))
    largest, why = _largest(file, raw, group, names)
    if why:
        for _ in range(file.metadata.row_group(group).num_rows):
            yield DataRow(number, broken=why)
            number += 1
        return
    rows = min(BATCH_ROWS, max(1, BATCH_BYTES // max(1, largest)))
    for batch in file.iter_batches(rows, row_groups=[group], columns=names):
        every = {field: _values(batch.column(name)) for field, name in columns.named.items()}
        for values in zip(*every.values(), strict=True):
            yield parsed_row(number, dict(zip(every, values, strict=True)))
            number += 1


def _largest(file: Any, raw: IO[bytes], group: int, names: list[str]) -> tuple[int, str]:
    """(bytes that a row takes at most, why the row group is left out or "")."""
    facts, largest, limit = file.metadata.row_group(group), 0, max(BATCH_BYTES // 4, 4 * max_field_chars())
    for column in (facts.column(place) for place in range(facts.num_columns)):
        if column.path_in_schema.split(".")[0] not in names:
            continue
        size = column_size(raw, column)
        largest = max(largest, size.largest)
        if size.largest > limit:
            return largest, f"a page of {size.largest:,} bytes is larger than {limit:,}"
        if size.values > MAX_LISTED * (facts.num_rows + MAX_LISTED):
            return largest, f"the lists of {facts.num_rows:,} rows have {size.values:,} values"
    return largest, ""


def names(path: Path) -> list[str]:
    """The columns; nothing where it cannot be read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return list(pq.read_schema(path).names)
    except (pa.ArrowException, OSError, UnicodeDecodeError):
        return []


def _values(column: Any) -> list[Any]:
    """Strings are read as bytes first: one that is no UTF-8 must not take its batch along, nor one that is
    too long."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kinds = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    if any(fits(column.type) for fits in kinds):
        raw, most = column.cast(pa.large_binary()), 4 * max_field_chars()
        long = [length or 0 for length in pc.binary_length(raw).to_pylist()]
        whole = any(fits(column.type) for fits in kinds[:2])
        return [
            UnreadField(size) if size > most else _plain(value.as_py(), whole)
            for value, size in zip(raw, long, strict=True)
        ]
    try:
        return list(column.to_pylist())
    except (ValueError, OverflowError, pa.ArrowException):  # a date that Python has no name for
        return [_one(value) for value in column]


def _plain(value: bytes | None, text: bool) -> Any:
    return value.decode("utf-8", "surrogateescape") if text and value is not None else value


def _one(value: Any) -> Any:
    """A single value, as text where Python has none for it."""
    import pyarrow as pa

    try:
        return value.as_py()
    except (ValueError, OverflowError, pa.ArrowException):
        return str(value.cast(pa.int64())) if pa.types.is_temporal(value.type) else None
