"""Writes the held-out speeches (public domain, CC0) beside zoo:lm, for tests and for newcomers.

The whole test part of data.py: neither zoo:lm nor its dictionary was trained on it, or chosen by it.
Run: python zoo/write_slice.py
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

import data
import export
from heedful.models.zoo import resolve

TARGET = export.ZOO / "lm" / resolve.HELD_OUT


def write(target: Path = TARGET) -> Path:
    """Columns name and text, a row a speech, in order of year."""
    names, texts = zip(*data.speeches()["test"], strict=True)
    table = pa.table({"name": list(names), "text": list(texts)})
    parquet.write_table(table, target, compression="zstd", compression_level=19)
    return target


if __name__ == "__main__":
    print(write())
