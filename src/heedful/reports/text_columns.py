"""Which columns of a table hold text: they start at the left, numbers end at the right."""

from __future__ import annotations

import re

from heedful.core.document import Table

EMPTY = ("", "–", "·", "⋯")
LETTER = re.compile(r"[“\"'(]*[^\W\d_]{2}")  # two letters: "c" or "e" alone may be a mark of a number


def is_text(table: Table, place: int) -> bool:
    """The column says so, or most of its filled cells begin with a word."""
    if table.columns[place].words:
        return True
    cells = [row.cells[place] for row in table.rows if place < len(row.cells)]
    filled = [cell for cell in cells if cell.text.strip() not in EMPTY and not cell.picture]
    if any(cell.shade == cell.shade or cell.value == cell.value for cell in filled):  # neither is NaN
        return False
    return 2 * sum(bool(LETTER.match(cell.text)) for cell in filled) > len(filled)
