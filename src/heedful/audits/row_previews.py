"""Which rows of a shard keep a preview: those that a report may show, so that a run folder stays small."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from heedful.audits.schemas import KINDS

MAX_MISTAKES = 5  # rows in a result whose label was not predicted
MAX_EXAMPLES = 4  # rows in a result without such rows
ROW, RIGHT = (list(KINDS["texts"]).index(name) for name in ("row", "right"))


def few_previews(texts: Sequence[tuple[Any, ...]], first: bool) -> list[tuple[Any, ...]]:
    """Lines of the table of texts, whose last column is the preview. Kept are the previews of the first rows
    whose label was not predicted; in the first shard, also those of its first rows."""
    rows = sorted(text[ROW] for text in texts)
    wrong = sorted(text[ROW] for text in texts if text[RIGHT] is False)
    kept = {*wrong[:MAX_MISTAKES], *(rows[:MAX_EXAMPLES] if first else ())}
    return [text if text[ROW] in kept else (*text[:-1], None) for text in texts]
