"""The whole text with every word shaded by one method."""

from __future__ import annotations

from heedful.core.document import Piece, UnitMap
from heedful.reports.columns import ScoreColumn


def text_map(col: ScoreColumn, text: str) -> UnitMap:
    """The whole text with every word shaded by its share of the method's strongest word."""
    pieces, at = [], 0
    for index, word in enumerate(col.words):
        if word.start > at:
            pieces.append(Piece(text[at : word.start]))
        error = f" ± {col.error(word)}" if col.error(word) else ""
        tip = f"{col.sign(word)}{col.number(word)}{error} {col.unit}".strip()
        pieces.append(Piece(text[word.start : word.end], col.share(word), tip, index))
        at = max(at, word.end)
    return UnitMap((*pieces, *([Piece(text[at:])] if text[at:] else [])), col.item.signed, quoted=True)
