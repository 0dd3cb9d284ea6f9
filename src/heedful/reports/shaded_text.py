"""The words of a text, shaded by their scores."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from heedful.reports.columns import Column
from heedful.reports.html_parts import esc


def level(share: float) -> int:
    return min(9, math.ceil(abs(share) * 9 - 1e-9)) if math.isfinite(share) and abs(share) >= 0.05 else 0


def hue(share: float, has_sign: bool) -> str:
    return "any" if not has_sign else "pos" if share >= 0 else "neg"


def legend(cols: Sequence[Column]) -> str:
    steps = range(1, 10, 2)

    def ramp(kind: str, levels: Iterable[int]) -> str:
        return (
            '<span class="ramp" aria-hidden="true">'
            + "".join(f'<i class="{kind} l{n}"></i>' for n in levels)
            + "</span>"
        )

    items = []
    if any(col.item.signed for col in cols):
        items.append(f"{ramp('pos', steps)} solid underline: towards the target")
        items.append(f"{ramp('neg', steps)} dotted underline: away from it")
    if any(not col.item.signed for col in cols):
        items.append(f"{ramp('any', steps)} no underline: the method has no sign")
    return '<ul class="legend">' + "".join(f"<li>{item}</li>" for item in items) + "</ul>"


def shaded(col: Column, text: str) -> str:
    """The whole text with every word shaded by its share of the method's strongest word."""
    out, at = [], 0
    for index, word in enumerate(col.words):
        share, shown = col.share(word), esc(text[word.start : word.end])
        out.append(esc(text[at : word.start]) if word.start > at else "")
        if level(share):
            error = f" ± {col.error(word)}" if col.error(word) else ""
            tip = f"{col.sign(word)}{col.number(word)}{error} {col.unit}".strip()
            kind = f"{hue(share, col.item.signed)} l{level(share)}"
            shown = f'<mark class="{kind}" data-w="{index}" title="{tip}">{shown}</mark>'
        out.append(shown)
        at = max(at, word.end)
    return "".join([*out, esc(text[at:])])
