"""Parquet, a batch of rows at a time. How many rows a batch has depends on what one of them may take, which
is known before it is unpacked (heedful.io.datasets.parquet_pages): a small file can stand for gigabytes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from heedful.core.errors import HeedfulError
from heedful.io.datasets.parquet_pages import BrokenPage, RowGroup, column_size, row_groups
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
MAX_NESTED_BYTES = 1 << 29  # of the lists of a row group, in memory: one row may have all of them


def read(path: Path, columns: Columns) -> Iterator[DataRow]:
    import pyarrow as pa

    file, there, groups = _opened(path, columns)
    with file, path.open("rb") as raw:
        for name in columns.named.values():
            if name not in there:
                raise missing_column(path, name, there, columns)
            if there.count(name) > 1:
                raise HeedfulError(f"{path.name} has two columns {name!r}", fix="Rename one of them")
        if (count := sum(group.rows for group in groups)) > MAX_ROWS:
            raise HeedfulError(f"{path.name} claims to have {count:,} rows")
        number = 0
        try:
            for place, group in enumerate(groups):
                largest, why = _largest(raw, group, set(columns.named.values()))
                if why:
                    rows = _left_out(group, why, number)
                else:
                    rows = _group(file, place, largest, columns, number)
                for row in rows:
                    yield row
                    number += 1
        except (pa.ArrowException, OSError, BrokenPage, UnicodeDecodeError) as error:
            raise HeedfulError(
                f"{path.name} is damaged after row {number}", str(error), RESUME_HINT
            ) from None


def _opened(path: Path, columns: Columns) -> tuple[Any, list[str], tuple[RowGroup, ...]]:
    """As pyarrow reads it, the names of its columns, and its row groups. Texts in lists stay in their
    dictionaries: in a small file a list can name a long text a million times."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with path.open("rb") as raw:
            groups = row_groups(raw)
        every = (column for group in groups[:1] for column in group.columns if column.nested and column.texts)
        nested = [".".join(column.path) for column in every if column.path[0] in columns.named.values()]
        file = pq.ParquetFile(path, read_dictionary=nested)
        there = list(file.schema_arrow.names)
    except UnicodeDecodeError:
        raise HeedfulError(f"{path.name} cannot be read", "a name of a column is not UTF-8") from None
    except (pa.ArrowException, OSError, BrokenPage) as error:
        raise HeedfulError(f"{path.name} is not a whole Parquet file", str(error)) from None
    return file, there, groups


def _left_out(group: RowGroup, why: str, number: int) -> Iterator[DataRow]:
    return (DataRow(number + row, broken=why) for row in range(group.rows))


def _group(file: Any, place: int, largest: int, columns: Columns, number: int) -> Iterator[DataRow]:
    """Rows of a row group."""
    rows = min(BATCH_ROWS, max(1, BATCH_BYTES // max(1, largest)))
    names = list(dict.fromkeys(columns.named.values()))
    for batch in file.iter_batches(rows, row_groups=[place], columns=names):
        every = {field: _values(batch.column(name)) for field, name in columns.named.items()}
        for values in zip(*every.values(), strict=True):
            yield parsed_row(number, dict(zip(every, values, strict=True)))
            number += 1


def _largest(raw: IO[bytes], group: RowGroup, names: set[str]) -> tuple[int, str]:
    """(bytes that a row takes at most, why the row group is left out or "")."""
    largest, limit = 0, max(BATCH_BYTES // 4, 4 * max_field_chars())
    for column in group.columns:
        if column.path[0] not in names:
            continue
        size = column_size(raw, column)
        largest = max(largest, size.largest)
        if size.largest > limit:
            return largest, f"a page of {size.largest:,} bytes is larger than {limit:,}"
        if size.values > MAX_LISTED * (group.rows + MAX_LISTED):
            return largest, f"the lists of {group.rows:,} rows have {size.values:,} values"
        in_memory = max(size.total, size.values * column.bytes_per_value())
        if column.nested and in_memory > MAX_NESTED_BYTES:
            most = f"more than {MAX_NESTED_BYTES >> 20}: write the file with fewer rows per row group"
            return largest, f"its lists may take {in_memory >> 20:,} MB of memory, {most}"
    return largest, ""


def row_count(path: Path) -> int:
    """As its footer says."""
    try:
        with path.open("rb") as raw:
            return sum(group.rows for group in row_groups(raw))
    except (OSError, BrokenPage) as error:
        raise HeedfulError(f"{path.name} is not a whole Parquet file", str(error)) from None


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

    if pa.types.is_nested(column.type):
        return _nested(column)
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
    return _plain_list(column)


def _plain_list(column: Any) -> list[Any]:
    import pyarrow as pa

    try:
        return list(column.to_pylist())
    except (ValueError, OverflowError, pa.ArrowException):  # a date that Python has no name for
        return [_one(value) for value in column]


def _nested(column: Any) -> list[Any]:
    """Lists and structs; one whose texts are too long is not written out."""
    most = 4 * max_field_chars()
    if _text_bytes(column) <= most:
        return _plain_list(column)
    rows = [column.slice(place, 1) for place in range(len(column))]
    sizes = map(_text_bytes, rows)
    return [UnreadField(n) if n > most else _plain_list(row)[0] for row, n in zip(rows, sizes, strict=True)]


def _text_bytes(column: Any) -> int:
    """Bytes of all texts in it, once they are written out."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if pa.types.is_dictionary(kind):
        lengths = pc.binary_length(column.dictionary.cast(pa.large_binary()))
        return pc.sum(pc.take(lengths, column.indices)).as_py() or 0
    if pa.types.is_map(kind):
        return _text_bytes(column.keys) + _text_bytes(column.items)
    if pa.types.is_struct(kind):
        return sum(map(_text_bytes, column.flatten()))
    if pa.types.is_nested(kind):
        return _text_bytes(column.flatten())
    return int(column.nbytes)


def _plain(value: bytes | None, text: bool) -> Any:
    return value.decode("utf-8", "surrogateescape") if text and value is not None else value


def _one(value: Any) -> Any:
    """A single value, as text where Python has none for it."""
    import pyarrow as pa

    try:
        return value.as_py()
    except (ValueError, OverflowError, pa.ArrowException):
        return str(value.cast(pa.int64())) if pa.types.is_temporal(value.type) else None
