"""Small pictures side by side as one inline SVG, in the manner of heedful.view.plots: no script, no library.

arrows    vectors of the plane from the origin, one picture a panel, all on one scale
heat      matrices: blue above zero, orange below, the fuller the larger, all on one scale
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from heedful.view.plots import image
from heedful.view.sections import esc

SIDE, GAP, HEAD = 104.0, 14.0, 22.0


@dataclass(frozen=True)
class Panel:
    """A picture: vectors (n, 2) or a matrix (n, m), with a name above and a line below."""

    name: str
    values: Sequence[Sequence[float]]
    note: str = ""


def arrows(panels: Sequence[Panel], title: str, columns: int = 6) -> str:
    """Feature directions: the longest arrow of all panels reaches the edge."""
    reach = max((math.hypot(*v) for panel in panels for v in panel.values), default=1.0) or 1.0

    def draw(panel: Panel, left: float, top: float) -> Iterator[str]:
        x, y, scale = left + SIDE / 2, top + SIDE / 2, 0.46 * SIDE / reach
        yield f'<line class="grid" x1="{left:g}" x2="{left + SIDE:g}" y1="{y:g}" y2="{y:g}"/>'
        yield f'<line class="grid" x1="{x:g}" x2="{x:g}" y1="{top:g}" y2="{top + SIDE:g}"/>'
        for a, b in panel.values:
            right, up = x + scale * a, y - scale * b
            yield f'<line class="bar" x1="{x:g}" y1="{y:g}" x2="{right:.1f}" y2="{up:.1f}"/>'
            yield f'<circle class="mark s0" cx="{right:.1f}" cy="{up:.1f}" r="2.5"/>'

    return _grid(panels, title, columns, draw)


def heat(panels: Sequence[Panel], title: str, columns: int = 6) -> str:
    """Matrices: the largest number of all panels has full colour."""
    top_value = max((abs(v) for panel in panels for row in panel.values for v in row), default=1.0) or 1.0

    def draw(panel: Panel, left: float, top: float) -> Iterator[str]:
        tall, wide = SIDE / max(len(panel.values), 1), SIDE / max(map(len, panel.values), default=1)
        for i, row in enumerate(panel.values):
            for j, value in enumerate(row):
                size = f'width="{wide:.2f}" height="{tall:.2f}" fill-opacity="{abs(value) / top_value:.3f}"'
                kind = "pos" if value >= 0 else "neg"
                place = f'x="{left + j * wide:.2f}" y="{top + i * tall:.2f}"'
                yield f'<rect class="cell {kind}" {place} {size}><title>{value:.2f}</title></rect>'

    return _grid(panels, title, columns, draw)


Draw = Callable[[Panel, float, float], Iterator[str]]


def _grid(panels: Sequence[Panel], title: str, columns: int, draw: Draw) -> str:
    columns = max(1, min(columns, len(panels)))
    below = 18.0 if any(panel.note for panel in panels) else 0.0
    high = HEAD + SIDE + below + GAP
    drawn = []
    for number, panel in enumerate(panels):
        left, top = GAP + (SIDE + GAP) * (number % columns), high * (number // columns) + HEAD
        middle = left + SIDE / 2
        drawn.append(
            f'<text class="name" x="{middle:g}" y="{top - 7:g}" text-anchor="middle">{esc(panel.name)}</text>'
        )
        drawn.append(f'<rect class="frame" x="{left:g}" y="{top:g}" width="{SIDE:g}" height="{SIDE:g}"/>')
        drawn += draw(panel, left, top)
        drawn.append(
            f'<text x="{middle:g}" y="{top + SIDE + 15:g}" text-anchor="middle">{esc(panel.note)}</text>'
        )
    return image(GAP + (SIDE + GAP) * columns, high * -(-len(panels) // columns), title, drawn)
