"""Texts, labels and marks of a file, in memory: a trial goes over them many times."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from heedful.io.datasets import Columns, open_source


class LabelledTexts(NamedTuple):
    """What a file holds; labels and rationales only if it has a column of them."""

    texts: list[Any]
    labels: list[Any] | None
    rationales: list[Any] | None = None


def read_texts(path: Path, columns: Columns, limit: int | None = None) -> LabelledTexts:
    """The first `limit` rows."""
    rows = list(open_source(path, columns=columns, limit=limit).rows())
    return LabelledTexts(
        [row.text for row in rows],
        [row.label for row in rows] if columns.label is not None else None,
        [row.rationale for row in rows] if columns.rationale is not None else None,
    )
