"""Small pictures side by side as one inline SVG, in the manner of heedful.reports.charts.forest_scatter: no
script, no library.

arrows    vectors of the plane from the origin, one picture per panel, all on one scale
heat      matrices: blue above zero, orange below, the fuller the larger, all on one scale
band_curves   one line per panel in front of a band that all share, all on one scale
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from heedful.core.charts import Arrows, BandCurve, BandCurves, Heat, Panel
from heedful.core.numbers import short
from heedful.reports.charts.forest_scatter import directed, image
from heedful.reports.html_parts import esc

SIDE, WIDE, GAP, HEAD = 104.0, 152.0, 14.0, 22.0
LEFT, FOOT = 44.0, 16.0  # room for the numbers of axes
TITLE = 22.0  # room for the title of an axis: of y above all panels, of x below them


def arrows(chart: Arrows) -> str:
    """Feature directions: the longest arrow of all panels reaches the edge."""
    panels = chart.panels
    reach = max((math.hypot(*v) for panel in panels for v in panel.values), default=1.0) or 1.0

    def draw(panel: Panel, left: float, top: float) -> Iterator[str]:
        x, y, scale = left + SIDE / 2, top + SIDE / 2, 0.46 * SIDE / reach
        yield f'<line class="grid" x1="{left:g}" x2="{left + SIDE:g}" y1="{y:g}" y2="{y:g}"/>'
        yield f'<line class="grid" x1="{x:g}" x2="{x:g}" y1="{top:g}" y2="{top + SIDE:g}"/>'
        for a, b in panel.values:
            right, up = x + scale * a, y - scale * b
            yield f'<line class="bar" x1="{x:g}" y1="{y:g}" x2="{right:.1f}" y2="{up:.1f}"/>'
            yield f'<circle class="mark s0" cx="{right:.1f}" cy="{up:.1f}" r="2.5"/>'

    return _grid(panels, chart.title, chart.columns, draw)


def heat(chart: Heat) -> str:
    """Matrices: the largest number of all panels has full colour."""
    panels = chart.panels
    top_value = max((abs(v) for panel in panels for row in panel.values for v in row), default=1.0) or 1.0

    def draw(panel: Panel, left: float, top: float) -> Iterator[str]:
        tall, wide = SIDE / max(len(panel.values), 1), SIDE / max(map(len, panel.values), default=1)
        for i, row in enumerate(panel.values):
            for j, value in enumerate(row):
                size = f'width="{wide:.2f}" height="{tall:.2f}" fill-opacity="{abs(value) / top_value:.3f}"'
                kind = "pos" if value >= 0 else "neg"
                place = f'x="{left + j * wide:.2f}" y="{top + i * tall:.2f}"'
                yield f'<rect class="cell {kind}" {place} {size}><title>{value:.2f}</title></rect>'

    return _grid(panels, chart.title, chart.columns, draw)


def band_curves(chart: BandCurves) -> str:
    """x from 0 to 1 in each panel; y from the least to the most of all. The ends of x stand below every
    panel, those of y left of every row."""
    panels = chart.panels
    results = [y for panel in panels for _, y in panel.points]
    results += [y for panel in panels for _, *pair in panel.band for y in pair]
    least, most = low, high = min(results, default=0.0), max(results, default=1.0)
    room = 0.06 * (high - low) or 1.0
    low, high = low - room, high + room

    def draw(panel: BandCurve, left: float, top: float) -> Iterator[str]:
        def at(x: float, y: float) -> str:
            return f"{left + x * WIDE:.1f},{top + (high - y) / (high - low) * SIDE:.1f}"

        there, back = [at(x, a) for x, a, _ in panel.band], [at(x, b) for x, _, b in reversed(panel.band)]
        if there:
            yield f'<polygon class="band" points="{" ".join([*there, *back])}"/>'
        if low < 0 < high:
            ends = f'points="{at(0.0, 0.0)} {at(1.0, 0.0)}"'
            yield f'<polyline class="zero" {ends}/>'
        yield f'<polyline class="path s0" points="{" ".join(at(x, y) for x, y in panel.points)}"/>'
        for x, y in panel.points:
            a, b = at(x, y).split(",")
            text = f"{panel.name}: {short(y)} with {100 * x:.0f} % removed"
            yield f'<circle class="mark s0" cx="{a}" cy="{b}" r="2.5"><title>{esc(text)}</title></circle>'
        for x, result, anchor in ((0.0, "0 %", "start"), (1.0, "100 %", "end")):
            place = f'x="{left + x * WIDE:g}" y="{top + SIDE + 13:g}"'
            yield f'<text class="end" {place} text-anchor="{anchor}">{result}</text>'
        if left == LEFT:
            for y in dict.fromkeys((least, most)):
                place = f'x="{left - 5:g}" y="{float(at(0.0, y).split(",")[1]) + 4:.1f}"'
                yield f'<text class="end" {place} text-anchor="end">{short(y)}</text>'

    axes = (chart.x, directed(chart.y, chart.better))
    return _grid(panels, chart.title, chart.columns, draw, (WIDE, LEFT, FOOT), axes)


Drawn = TypeVar("Drawn", Panel, BandCurve)


def _grid(
    panels: Sequence[Drawn],
    title: str,
    columns: int,
    draw: Callable[[Drawn, float, float], Iterator[str]],
    sizes: tuple[float, float, float] = (SIDE, GAP, 0.0),
    axes: tuple[str, str] = ("", ""),
) -> str:
    """`sizes`: the width of a panel, the room left of the first, the room below each. `axes`: their titles:
    that of x below the panels, that of y above them, where a long one has room."""
    wide, margin, foot = sizes
    start = TITLE if axes[1] else 0.0
    columns = max(1, min(columns, len(panels)))
    below = 18.0 if any(panel.note for panel in panels) else 0.0
    high = HEAD + SIDE + foot + below + GAP
    drawn = []
    for number, panel in enumerate(panels):
        left, top = margin + (wide + GAP) * (number % columns), start + high * (number // columns) + HEAD
        middle = left + wide / 2
        drawn.append(
            f'<text class="name" x="{middle:g}" y="{top - 7:g}" text-anchor="middle">{esc(panel.name)}</text>'
        )
        drawn.append(f'<rect class="frame" x="{left:g}" y="{top:g}" width="{wide:g}" height="{SIDE:g}"/>')
        drawn += draw(panel, left, top)
        place = f'x="{middle:g}" y="{top + SIDE + foot + 15:g}"'
        drawn.append(f'<text {place} text-anchor="middle">{esc(panel.note)}</text>')
    height = start + high * -(-len(panels) // columns)
    if axes[1]:
        drawn.append(f'<text class="axis" x="4" y="14">↑ {esc(axes[1])}</text>')
    if axes[0]:
        end = margin + (wide + GAP) * columns - GAP
        drawn.append(
            f'<text class="axis" x="{end:g}" y="{height + 6:g}" text-anchor="end">{esc(axes[0])} →</text>'
        )
        height += 18.0
    return image(margin + (wide + GAP) * max(columns, 3 if axes[0] else 1), height, title, drawn)
