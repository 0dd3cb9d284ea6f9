"""The whole text with every word shaded by one method, or by what removing it did."""

from __future__ import annotations

import math
from collections.abc import Sequence

from heedful.core.attribution import UnitScore
from heedful.core.document import Piece, UnitMap
from heedful.core.internals import Removal
from heedful.core.numbers import fixed_signed
from heedful.reports.columns import ScoreColumn


def text_map(col: ScoreColumn, text: str) -> UnitMap:
    """The whole text with every word shaded by its share of the method's strongest word."""
    shades = []
    for word in col.words:
        error = f" ± {col.error(word)}" if col.error(word) else ""
        shades.append((col.share(word), f"{col.sign(word)}{col.number(word)}{error} {col.unit}".strip()))
    return _shaded(col.words, shades, text, col.item.signed)


def effect_map(measured: Removal, words: Sequence[UnitScore], text: str, top: float) -> UnitMap:
    """The same by the measured effect of removing each word, `top` at full colour; words that were not
    removed have no colour."""
    top = top or 1.0
    shades = [
        (value / top, fixed_signed(value)) if math.isfinite(value) else (0.0, "not measured")
        for value in measured.leave_one_out
    ]
    return _shaded(words, shades, text, signed=True)


def plain_map(text: str) -> UnitMap:
    """The text without colours."""
    return UnitMap((Piece(text),), quoted=True)


def _shaded(
    words: Sequence[UnitScore], shades: Sequence[tuple[float, str]], text: str, signed: bool
) -> UnitMap:
    """`shades`: of each word its share, from -1 to 1, and its number."""
    pieces, at = [], 0
    for index, (word, (share, tip)) in enumerate(zip(words, shades, strict=True)):
        if word.start > at:
            pieces.append(Piece(text[at : word.start]))
        pieces.append(Piece(text[word.start : word.end], share, tip, index))
        at = max(at, word.end)
    return UnitMap((*pieces, *([Piece(text[at:])] if text[at:] else [])), signed, quoted=True)
