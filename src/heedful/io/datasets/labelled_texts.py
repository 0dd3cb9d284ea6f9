"""Texts, labels and marks of a file, in memory: for what goes over them many times."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from heedful.core.errors import HeedfulError
from heedful.io.datasets.rows import Columns
from heedful.io.datasets.sources import open_source
from heedful.modalities.kinds import KINDS

MAX_ROWS = 1_000_000  # in memory; empty rows take no place in a Parquet file
MAX_REASONS = 100  # rows of which it is said why they were skipped; the others are counted


class LabelledTexts(NamedTuple):
    """What a file holds; labels and rationales only if it has a column of them."""

    texts: list[Any]
    labels: list[Any] | None
    rationales: list[Any] | None = None
    left: tuple[str, ...] = ()  # rows that were skipped, and why


def read_texts(
    path: Path, columns: Columns, limit: int | None = None, option: str = "--limit"
) -> LabelledTexts:
    """The first `limit` rows, without those that hold no text.

    option   what sets the limit, for a message
    """
    rows, left, more = [], list[str](), 0
    for row in open_source(path, columns=columns, limit=limit).rows():
        if row.number >= MAX_ROWS:
            what = f"{path.name} has more than {MAX_ROWS:,} rows"
            raise HeedfulError(what, "all of them are kept in memory", f"Use {option}")
        if not (unfit := row.broken or KINDS["text"].unfit(row.text)):
            rows.append(row)
        elif len(left) < MAX_REASONS:
            left.append(f"row {row.number} was skipped: {unfit}")
        else:
            more += 1
    if more:
        left.append(f"{more:,} more rows were skipped")
    if not rows:
        raise HeedfulError(f"{path.name} has no text that can be read", left[0] if left else "")
    return LabelledTexts(
        [row.text for row in rows],
        [row.label for row in rows] if columns.label is not None else None,
        [row.rationale for row in rows] if columns.rationale is not None else None,
        tuple(left),
    )
