"""The scores of an explanation as a Parquet table, for other programs.

text       one row per method and token: method, position, token, word, start, end, score, stderr
otherwise  one row per method and unit: method, unit, index, label, left, top, right, bottom, score, stderr
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from heedful.core.attribution import Attribution
from heedful.modalities.text import TextInput, text_of

TOKENS = {"position": int, "token": str, "word": int, "start": int, "end": int}
BOXES = {"unit": str, "index": int, "label": str, "left": int, "top": int, "right": int, "bottom": int}


def score_table(items: Sequence[Attribution], unit: str = "") -> bytes:
    """`unit`: by which inputs that are no text are cut; "": by their default unit."""
    text = not items or isinstance(items[0].x, TextInput)
    rows = [row for item in items for row in (_tokens(item) if text else _boxes(item, unit))]
    columns = {"method": str, **(TOKENS if text else BOXES), "score": float, "stderr": float}
    return _parquet(columns, rows)


def _tokens(item: Attribution) -> Iterator[tuple[Any, ...]]:
    x, errors = text_of(item.x), [None] * len(item.x) if item.stderr is None else item.stderr.tolist()
    for position, (token, word, (start, end)) in enumerate(zip(x.tokens, x.words, x.offsets, strict=True)):
        # half of a surrogate pair is no UTF-8; the JSON keeps it as it is
        shown = token.encode("utf-8", "replace").decode()
        yield item.method, position, shown, word, start, end, float(item.scores[position]), errors[position]


def _boxes(item: Attribution, unit: str) -> Iterator[tuple[Any, ...]]:
    unit = unit or item.x.default_unit
    for index, one in enumerate(item.units(unit)):
        place = one.region if len(one.region) == 4 else (one.region[0], None, one.region[1], None)
        yield item.method, unit, index, one.text, *place, one.score, one.stderr


def _parquet(columns: dict[str, type], rows: Sequence[tuple[Any, ...]]) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = {str: pa.string(), int: pa.int64(), float: pa.float64()}
    fields = [(name, kinds[kind]) for name, kind in columns.items()]
    values = list(zip(*rows, strict=True)) or [()] * len(fields)
    arrays = [pa.array(column, kind) for column, (_, kind) in zip(values, fields, strict=True)]
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(arrays, pa.schema(fields)), sink, compression="zstd")
    return bytes(sink.getvalue())
