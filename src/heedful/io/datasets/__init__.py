"""Texts or pictures from a CSV, JSONL, Parquet or text file, a folder, or any iterable: row by row.

A row that cannot be read (broken JSON, invalid UTF-8, too few fields) is a `DataRow` that says why; it has
its number like any other, and reading goes on. Rows are numbered from 0; the header of a CSV file is none.
"""

from heedful.io.datasets.pictures import FolderSource
from heedful.io.datasets.rows import MAX_LINE_BYTES, Columns, DataRow
from heedful.io.datasets.sources import FileSource, IterableSource, Source, in_random_order, open_source

__all__ = [
    "MAX_LINE_BYTES",
    "Columns",
    "DataRow",
    "FileSource",
    "FolderSource",
    "IterableSource",
    "Source",
    "in_random_order",
    "open_source",
]
