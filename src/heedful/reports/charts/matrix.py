"""Maps with a name for every row and column, as one inline SVG: what looks at what. No script, no library."""

from __future__ import annotations

from collections.abc import Iterator

from heedful.core.charts import Matrices, Matrix
from heedful.reports.charts.forest_scatter import image
from heedful.reports.html_parts import esc

CELL, LETTER, GAP, HEAD = 20.0, 8.0, 14.0, 24.0  # a wide letter: fonts differ, and none may be cut
TURN, UP, ASIDE = 55, 0.82, 0.58  # degrees of the names above, their sine and cosine
MIN_WIDTH = 640.0  # width of a picture: a page stretches it to its own, letters and all


def matrices(chart: Matrices) -> str:
    """Maps side by side; all have the same room."""
    maps, across, title = chart.maps, chart.across, chart.title
    left = LETTER * max(len(name) for one in maps for name in one.rows) + 10
    top = HEAD + UP * LETTER * max(len(name) for one in maps for name in one.columns) + 12
    ends = [
        CELL * (j + 0.6) + ASIDE * LETTER * len(name) for one in maps for j, name in enumerate(one.columns)
    ]
    wide = left + max(ends) + GAP
    high = top + CELL * max(len(one.rows) for one in maps) + GAP
    drawn: list[str] = []
    for number, one in enumerate(maps):
        drawn += _drawn(one, wide * (number % across) + left, high * (number // across) + top, top)
    return image(max(MIN_WIDTH, wide * min(across, len(maps))), high * -(-len(maps) // across), title, drawn)


def _drawn(one: Matrix, x: float, y: float, top: float) -> Iterator[str]:
    yield f'<text class="name" x="{x:g}" y="{y - top + 14:g}">{esc(one.name)}</text>'
    for j, name in enumerate(one.columns):
        at = f"{x + (j + 0.6) * CELL:.1f} {y - 5:.1f}"
        yield f'<text transform="translate({at}) rotate(-{TURN})">{esc(name)}</text>'
    for i, name in enumerate(one.rows):
        place = f'x="{x - 6:.1f}" y="{y + (i + 0.7) * CELL:.1f}"'
        yield f'<text {place} text-anchor="end">{esc(name)}</text>'
        for j, value in enumerate(one.values[i]):
            full = min(1.0, max(0.0, value))
            text = f"<title>{esc(name)}, {esc(one.columns[j])}: {value:.2f}</title>"
            yield f'<rect class="cell pos" {_box(x, y, i, j)} fill-opacity="{full:.3f}">{text}</rect>'
    size = f'width="{CELL * len(one.columns):g}" height="{CELL * len(one.rows):g}"'
    yield f'<rect class="frame" x="{x:g}" y="{y:g}" {size}/>'
    for i, j in one.marked:
        yield f'<rect class="path s1" {_box(x, y, i, j)}/>'


def _box(x: float, y: float, i: int, j: int) -> str:
    return f'x="{x + j * CELL:.1f}" y="{y + i * CELL:.1f}" width="{CELL:g}" height="{CELL:g}"'
