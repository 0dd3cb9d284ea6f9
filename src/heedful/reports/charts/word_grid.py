"""Words down, methods across, as one inline SVG: a cell is the fuller the larger its score.

Blue for the answer and orange against it, as everywhere; purple for methods without sign.
Each score also stands in its cell, so that nothing depends on colour alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from heedful.core.charts import Scored, WordGrid
from heedful.reports.charts.forest_scatter import image
from heedful.reports.html_parts import esc

TALL, WIDE, HEAD, LETTER = 26.0, 96.0, 24.0, 7.4


def word_grid(chart: WordGrid) -> str:
    words, columns, title = chart.words, chart.columns, chart.title
    left = 12 + LETTER * max(map(len, words), default=0)
    drawn = [
        f'<text class="name" x="{left - 8:g}" y="{_middle(row):g}" text-anchor="end">{esc(word)}</text>'
        for row, word in enumerate(words)
    ]
    for number, column in enumerate(columns):
        drawn += _column(column, left + WIDE * number)
    return image(left + WIDE * len(columns) + 8, HEAD + TALL * len(words) + 8, title, drawn)


def _column(column: Scored, x: float) -> Iterator[str]:
    middle = x + WIDE / 2
    yield f'<text class="name" x="{middle:g}" y="{HEAD - 9:g}" text-anchor="middle">{esc(column.name)}</text>'
    for row, score in enumerate(column.scores):
        if not math.isfinite(score):
            continue
        kind = ("cell pos" if score >= 0 else "cell neg") if column.signed else "mark s2"
        place = f'x="{x + 2:g}" y="{HEAD + TALL * row + 2:g}" width="{WIDE - 4:g}" height="{TALL - 4:g}"'
        yield f'<rect class="{kind}" {place} opacity="{min(1.0, abs(score)):.3f}"/>'
        sign = ("+" if score > 0 else "−" if score < 0 else "") if column.signed else ""
        number = f"{sign}{abs(score):.2f}"
        yield f'<text class="name" x="{middle:g}" y="{_middle(row):g}" text-anchor="middle">{number}</text>'


def _middle(row: int) -> float:
    """Where the writing of a row stands."""
    return HEAD + TALL * (row + 0.5) + 4.5
