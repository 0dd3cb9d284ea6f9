"""The tables of a shard, their columns, and the bytes of their Parquet files.

    scores         row, metric, operator, fit, method, value, control, low, high, best, circular
    orders         row, metric, operator, fit, method ("": of all methods), order, value: the random orders
    methods        row, method, fit, inputs, fitted_by (null: not known)
    attributions   row, method, fit, unit, text, start, end, score, stderr
    texts          row, seed, target, output, prediction, label, right, units, asked, run, naive
    errors         row, method ("" when the whole row was skipped), reason

The same values give the same bytes: no time, no path, no machine stands in them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from io import BytesIO
from typing import Any

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
    },
    "errors": {"row": "int64", "method": "string", "reason": "string"},
}


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
    """A pyarrow table; `only` keeps the rows with these values."""
    import pyarrow.parquet as pq

    filters = [(column, "==", value) for column, value in (only or {}).items()] or None
    return pq.read_table(
        BytesIO(content), columns=None if columns is None else list(columns), filters=filters
    )


def _safe(value: Any) -> Any:
    """Half of a surrogate pair is no UTF-8."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
