"""Feature splitting as trees from left (narrow) to right (wide): one inline SVG, and one page. No script.

A line is the darker the larger the cosine of child and parent; leaves of a branch that has more than `most`
are counted, not drawn.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from heedful.core.evidence import MeasuredValue
from heedful.features.measures.splitting import Splitting
from heedful.reports.comparison_page import document
from heedful.reports.html_parts import esc, part, table

MAX_CHILDREN = 8  # children drawn of one parent
STEP, ROW = 150.0, 18.0


def tree_plot(trees: Sequence[Mapping[str, Any]], widths: Sequence[int], most: int = MAX_CHILDREN) -> str:
    """Trees of nested {feature, cosine, children}, one under the other."""
    drawn, y = [], 34.0
    for level, width in enumerate(widths):
        drawn.append(f'<text class="name" x="{_x(level):g}" y="16" text-anchor="middle">{width:,}</text>')
    for tree in trees:
        lines, below, _ = _tree(tree, 0, y, most)
        drawn += lines
        y = below + ROW / 2
    size = f"0 0 {_x(len(widths) - 1) + 90:g} {y + 6:g}"
    title = f"<title>{esc('What features of the narrow dictionary become in wider ones')}</title>"
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
    lines.append(f'<text x="{_x(level) + 8:g}" y="{here + 4:.1f}">{esc(str(node["feature"]))}</text>')
    return lines, max(below, y + ROW), here


def _branch(level: int, here: float, at: float, cosine: float) -> str:
    a, b = _x(level), _x(level + 1)
    middle = (a + b) / 2
    path = f"M{a:g},{here:.1f} C{middle:g},{here:.1f} {middle:g},{at:.1f} {b:g},{at:.1f}"
    return (
        f'<path class="path s0" stroke-opacity="{max(0.15, cosine):.2f}" '
        f'd="{path}"><title>cosine {cosine:.2f}</title></path>'
    )


def page(found: Splitting, names: Sequence[str], most: int = 12) -> str:
    """A self-contained HTML5 document."""
    title = " → ".join(f"{width:,}" for width in found.widths)
    lead = (
        "Each feature of a wider dictionary hangs on the nearest feature of the narrower one, by the cosine "
        f"of their decoder rows, if it is {found.alike:g} or more. The {most} largest trees; numbers are "
        "features, a line is the darker the larger the cosine."
    )
    kicker = f'<p class="kicker">{esc(", ".join(names))}</p>'
    body = f'<header>{kicker}<h1 class="verdict">{title} features</h1></header>'
    body += part("tree", "What features become", lead, tree_plot(found.trees(most), found.widths), 2)
    heads = ["", *(f"{a:,} → {b:,}" for a, b in pairwise(found.widths))]
    body += part("numbers", "How many", "With 95 % intervals.", table(heads, _rows(found), "Splitting"), 2)
    return document(f"Feature splitting: {title}", body)


def _rows(found: Splitting) -> Iterator[str]:
    steps = [found.figures(number) for number in range(len(found.steps))]
    for name in steps[0]:
        cells = "".join(f"<td>{esc(shown(step[name], share=name != 'children'))}</td>" for step in steps)
        yield f'<tr><th scope="row">{esc(name)}</th>{cells}</tr>'


def shown(figure: MeasuredValue, share: bool = False) -> str:
    """A value with its interval, in words a table can hold."""
    if not math.isfinite(figure.value):
        return "–"
    form = "{:.1%}" if share else "{:.4g}"
    value = form.format(figure.value)
    if not (math.isfinite(figure.low) and math.isfinite(figure.high)):
        return value
    return f"{value} ({form.format(figure.low)} to {form.format(figure.high)})"
