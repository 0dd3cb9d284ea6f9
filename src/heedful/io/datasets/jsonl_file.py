"""JSON lines: one object per line."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from importlib.resources import files
from itertools import islice
from pathlib import Path
from typing import Any

from heedful.io.datasets.rows import (
    MAX_LINE_BYTES,
    Columns,
    DataRow,
    lines_of,
    missing_column,
    numbered,
    parsed_row,
)

SAMPLED_OBJECTS = 100  # objects that are looked at for the columns


def read(path: Path, columns: Columns) -> Iterator[DataRow]:
    def row(number: int, data: dict[str, Any] | str) -> DataRow:
        if isinstance(data, str):
            return DataRow(number, broken=data)
        return parsed_row(number, {field: data.get(name) for field, name in columns.named.items()})

    def record(at: int, line: bytes) -> dict[str, Any] | str | None:
        if not line.strip():
            return None
        data = json_line(line, at)
        name = columns.named["text"]
        missing = isinstance(data, dict) and name not in data
        return f"line {at}: there is no {name!r}" if missing else data

    with path.open("rb") as file:
        yield from numbered(((at, record(at, line)) for at, line in enumerate(lines_of(file), 1)), row)


def json_line(line: bytes, at: int) -> dict[str, Any] | str:
    """The object of a line, or what is wrong with it."""
    if len(line) >= MAX_LINE_BYTES:
        return f"line {at}: longer than {MAX_LINE_BYTES:,} bytes"
    try:
        data = json.loads(line.removeprefix(b"\xef\xbb\xbf").decode("utf-8"))
    except UnicodeDecodeError as error:
        return f"line {at}: not UTF-8 at byte {error.start}"
    except (ValueError, RecursionError) as error:
        return f"line {at}: not JSON: {error}"
    return data if isinstance(data, dict) else f"line {at}: not a JSON object"


def bundled(package: str, name: str) -> tuple[dict[str, Any], ...]:
    """The objects of a .jsonl.gz file that comes with a package."""
    content = gzip.decompress(files(package).joinpath(name).read_bytes())
    return tuple(json.loads(line) for line in content.decode().splitlines())


def names(path: Path) -> list[str]:
    """Keys of the first objects."""
    there: dict[str, None] = {}
    with path.open("rb") as file:
        objects = (
            data for at, line in enumerate(lines_of(file), 1) if isinstance(data := json_line(line, at), dict)
        )
        for data in islice(objects, SAMPLED_OBJECTS):
            there |= dict.fromkeys(data)
    return list(there)


def check_columns(path: Path, columns: Columns) -> None:
    """A column that none of the first objects has is a name that is misspelt: that is told at once."""
    there = names(path)
    for name in columns.named.values():
        if there and name not in there:
            raise missing_column(path, name, there, columns)
