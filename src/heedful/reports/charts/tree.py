"""Trees from left (narrow) to right (wide) as one inline SVG.

A line is the darker the larger the cosine of child and parent; children of a node that has more than `most`
are counted, not drawn.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from heedful.core.charts import Trees
from heedful.reports.html_parts import esc

STEP, ROW = 150.0, 18.0


def trees(chart: Trees) -> str:
    """One under the other."""
    widths, most = chart.widths, chart.most
    drawn, y = [], 34.0
    for level, width in enumerate(widths):
        drawn.append(f'<text class="name" x="{_x(level):g}" y="16" text-anchor="middle">{width:,}</text>')
    for tree in chart.trees:
        lines, below, _ = _tree(tree, 0, y, most)
        drawn += lines
        y = below + ROW / 2
    size = f"0 0 {_x(len(widths) - 1) + 90:g} {y + 6:g}"
    title = f"<title>{esc(chart.title)}</title>"
    return f'<svg class="plot" viewBox="{size}" role="img">{title}{"".join(drawn)}</svg>'


def _x(level: int) -> float:
    return 50.0 + STEP * level


def _tree(node: Mapping[str, Any], level: int, y: float, most: int) -> tuple[list[str], float, float]:
    """What is drawn, where the next one may begin, and the height of this node."""
    lines: list[str] = []
    heights: list[tuple[float, float]] = []  # of children, and their cosines
    below = y
    for child in node["children"][:most]:
        more, below, at = _tree(child, level + 1, below, most)
        lines += more
        heights.append((at, child["cosine"]))
    if len(node["children"]) > most:
        rest = f"and {len(node['children']) - most} more"
        lines.append(f'<text x="{_x(level + 1) + 8:g}" y="{below + 4:.1f}">{rest}</text>')
        below += ROW
    here = sum(at for at, _ in heights) / len(heights) if heights else y
    lines[:0] = [_branch(level, here, at, cosine) for at, cosine in heights]
    lines.append(f'<circle class="mark s0" cx="{_x(level):g}" cy="{here:.1f}" r="3.5"/>')
    beside = here - 5 if heights else here + 4  # above the lines to the children
    lines.append(f'<text x="{_x(level) + 8:g}" y="{beside:.1f}">{esc(str(node["feature"]))}</text>')
    return lines, max(below, y + ROW), here


def _branch(level: int, here: float, at: float, cosine: float) -> str:
    a, b = _x(level), _x(level + 1)
    middle = (a + b) / 2
    path = f"M{a:g},{here:.1f} C{middle:g},{here:.1f} {middle:g},{at:.1f} {b:g},{at:.1f}"
    return (
        f'<path class="path s0" stroke-opacity="{max(0.15, cosine):.2f}" '
        f'd="{path}"><title>cosine {cosine:.2f}</title></path>'
    )
