"""The tables of a shard, their columns, and the bytes of their Parquet files.

    scores         row, metric, operator, fit, method, value, control, low, high, best, circular
    orders         row, metric, operator, fit, method ("": of all methods), order, value: the random orders
    methods        row, method, fit, inputs, fitted_by (null: not known)
    attributions   row, method, fit, unit, text, start, end, score, stderr
    texts          row, seed, target, output, prediction, label, right, units, asked, run, naive,
                   file, preview (of the few rows that a report may show: heedful.io.previews)
    errors         row, method ("" when the whole row was skipped), reason

The same values give the same bytes: no time, no path, no machine stands in them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from io import BytesIO
from typing import IO, Any

from heedful.io.datasets.parquet_pages import BrokenPage, column_size, row_groups

KINDS = {  # column -> kind
    "scores": {
        "row": "int64",
        "metric": "string",
        "operator": "string",
        "fit": "string",
        "method": "string",
        "value": "double",
        "control": "double",
        "low": "double",
        "high": "double",
        "best": "double",
        "circular": "bool",
    },
    "orders": {
        "row": "int64",
        "metric": "string",
        "operator": "string",
        "fit": "string",
        "method": "string",
        "order": "int64",
        "value": "double",
    },
    "methods": {
        "row": "int64",
        "method": "string",
        "fit": "string",
        "inputs": "int64",
        "fitted_by": "string",
    },
    "attributions": {
        "row": "int64",
        "method": "string",
        "fit": "string",
        "unit": "int64",
        "text": "string",
        "start": "int64",
        "end": "int64",
        "score": "double",
        "stderr": "double",
    },
    "texts": {
        "row": "int64",
        "seed": "int64",
        "target": "string",
        "output": "double",
        "prediction": "string",
        "label": "string",
        "right": "bool",
        "units": "int64",
        "asked": "int64",
        "run": "int64",
        "naive": "int64",
        "file": "string",
        "preview": "string",
    },
    "errors": {"row": "int64", "method": "string", "reason": "string"},
}

KINDS_OF = {column: kind for table in KINDS.values() for column, kind in table.items()}
BATCH_ROWS = 8192
MAX_TABLE_BYTES = 512 << 20  # of one table of one shard, in memory
MAX_STRING_BYTES = 1 << 20
MAX_ROWS = 1 << 22  # of a table
MAX_PAGE_BYTES = 64 << 20  # that are unpacked at once; pages are written with about one megabyte


def to_parquet(name: str, rows: Sequence[tuple[Any, ...]]) -> bytes:
    """One table's file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = {column: pa.type_for_alias(kind) for column, kind in KINDS[name].items()}
    columns = list(zip(*rows, strict=True)) or [()] * len(kinds)
    arrays = [
        pa.array(map(_safe, column), kind) for column, kind in zip(columns, kinds.values(), strict=True)
    ]
    sink = BytesIO()
    pq.write_table(pa.table(arrays, pa.schema(list(kinds.items()))), sink, compression="zstd")
    return sink.getvalue()


def from_parquet(
    content: bytes, columns: Iterable[str] | None = None, only: dict[str, Any] | None = None
) -> Any:
    """A pyarrow table; `only` keeps the rows with these values.

    The file may be a stranger's, and a few kilobytes of Parquet can hold gigabytes: strings stay in their
    dictionaries, batches are counted as they come, and a table beyond the limits is refused (ValueError).
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    wanted = None if columns is None else list(dict.fromkeys([*columns, *(only or {})]))
    batches, size = [], 0
    try:
        _check_pages(BytesIO(content))
        there = pq.read_schema(BytesIO(content))
        for field in there:
            if KINDS_OF.get(field.name) != str(field.type):
                raise ValueError(f"a table has a column {field.name[:40]!r} of the type {field.type!s:.40}")
        strings = [name for name in there.names if KINDS_OF[name] == "string"]
        source = pq.ParquetFile(BytesIO(content), read_dictionary=strings)
        for batch in source.iter_batches(BATCH_ROWS, columns=wanted):
            size += _checked_size(batch)
            if size > MAX_TABLE_BYTES:
                raise ValueError(f"a table has over {MAX_TABLE_BYTES >> 20} MB")
            batches.append(batch)
        schema = source.schema_arrow
        picked = schema if wanted is None else pa.schema([schema.field(name) for name in wanted])
        table = pa.Table.from_batches(batches, batches[0].schema if batches else picked)
    except (pa.ArrowException, OSError, BrokenPage) as error:
        raise ValueError(f"a table is not Parquet as an audit writes it: {error}") from None
    return _only(table, only or {})


def rows_of(
    content: bytes, columns: Iterable[str] | None = None, only: dict[str, Any] | None = None
) -> Iterator[dict[str, Any]]:
    """The rows of a table; a few of them are Python objects at a time."""
    for batch in from_parquet(content, columns, only).to_batches(BATCH_ROWS):
        yield from batch.to_pylist()


def count_rows(file: IO[bytes]) -> int:
    """As the footer says."""
    try:
        return sum(group.rows for group in row_groups(file))
    except BrokenPage as error:
        raise ValueError(f"a table is not Parquet as an audit writes it: {error}") from None


def _check_pages(file: BytesIO) -> None:
    """Refuse what would take much memory, before it is unpacked."""
    groups = row_groups(file)
    if (rows := sum(group.rows for group in groups)) > MAX_ROWS:
        raise ValueError(f"a table has {rows:,} rows, more than {MAX_ROWS:,}")
    for column in (column for group in groups for column in group.columns):
        if (largest := column_size(file, column).largest) > MAX_PAGE_BYTES:
            raise ValueError(f"a table has a page of {largest:,} bytes, more than {MAX_PAGE_BYTES:,}")


def _checked_size(batch: Any) -> int:
    """Bytes of a batch in memory; a dictionary with a huge string would grow with every row that names it."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        values = column.dictionary if pa.types.is_dictionary(column.type) else column
        textual = pa.types.is_string(values.type) or pa.types.is_large_string(values.type)
        longest = pc.max(pc.binary_length(values)).as_py() if textual and len(values) else 0
        if (longest or 0) > MAX_STRING_BYTES:
            raise ValueError(f"the column {name} has a text of over {MAX_STRING_BYTES >> 10} KB")
    return int(batch.nbytes)


def _only(table: Any, values: dict[str, Any]) -> Any:
    import pyarrow.compute as pc

    for column, value in values.items():
        table = table.filter(pc.equal(table[column].cast(KINDS_OF[column]), value))
    return table


def _safe(value: Any) -> Any:
    """Half of a surrogate pair is no UTF-8."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
