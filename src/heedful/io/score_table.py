"""The scores of an explanation as a Parquet table, for other programs.

text       one row per method and token: method, position, token, word, start, end, score, stderr
otherwise  one row per method and unit: method, unit, index, label, left, top, right, bottom, score, stderr;
           of a picture with a text, start and end stand behind bottom, and what a unit lacks is null
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from heedful.core.attribution import Attribution
from heedful.core.input import place_columns, place_of
from heedful.modalities.text import TextInput, text_of

TOKENS = {"position": int, "token": str, "word": int, "start": int, "end": int}
UNITS = {"unit": str, "index": int, "label": str}


def score_table(items: Sequence[Attribution], unit: str = "") -> bytes:
    """`unit`: by which inputs that are no text are cut; "": by their default unit."""
    text = not items or isinstance(items[0].x, TextInput)
    if text:
        return _parquet(TOKENS, [row for item in items for row in _tokens(item)])
    name = unit or items[0].x.default_unit
    places = place_columns(items[0].x.units(name).regions)
    rows = [row for item in items for row in _units(item, name, places)]
    return _parquet(UNITS | dict.fromkeys(places, int), rows)


def _tokens(item: Attribution) -> Iterator[tuple[Any, ...]]:
    x, errors = text_of(item.x), [None] * len(item.x) if item.stderr is None else item.stderr.tolist()
    for position, (token, word, (start, end)) in enumerate(zip(x.tokens, x.words, x.offsets, strict=True)):
        # half of a surrogate pair is no UTF-8; the JSON keeps it as it is
        shown = token.encode("utf-8", "replace").decode()
        yield item.method, position, shown, word, start, end, float(item.scores[position]), errors[position]


def _units(item: Attribution, unit: str, places: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    for index, one in enumerate(item.units(unit)):
        yield item.method, unit, index, one.text, *place_of(one.region, places), one.score, one.stderr


def _parquet(columns: dict[str, type], rows: Sequence[tuple[Any, ...]]) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = {str: pa.string(), int: pa.int64(), float: pa.float64()}
    every = {"method": str, **columns, "score": float, "stderr": float}
    fields = [(name, kinds[kind]) for name, kind in every.items()]
    values = list(zip(*rows, strict=True)) or [()] * len(fields)
    arrays = [pa.array(column, kind) for column, (_, kind) in zip(values, fields, strict=True)]
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(arrays, pa.schema(fields)), sink, compression="zstd")
    return bytes(sink.getvalue())
