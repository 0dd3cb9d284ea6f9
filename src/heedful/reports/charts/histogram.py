"""A histogram with logarithmic counts as inline SVG."""

from __future__ import annotations

import math

from heedful.core.charts import Histogram
from heedful.reports.html_parts import esc

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 460.0, 190.0, 52.0, 12.0, 12.0, 148.0


def histogram(chart: Histogram) -> str:
    """A count of one is a low bar, none is no bar."""
    counts, edges, name, title = chart.counts, chart.edges, chart.x, chart.title
    if not any(counts):
        return ""
    decades = max(1, math.ceil(math.log10(max(counts))))
    low, high = 0.0, edges[-1]

    def x(value: float) -> float:
        return LEFT + (value - low) / (high - low) * (WIDTH - LEFT - RIGHT)

    def y(count: int) -> float:
        # one count stands a little above the axis, so that it can be seen
        return BOTTOM - (math.log10(count) + 0.15) / (decades + 0.15) * (BOTTOM - TOP)

    drawn = [f"<title>{esc(title)}</title>"]
    step = 1 if decades <= 4 else 2
    for power in range(0, decades + 1, step):
        at = y(10**power)
        drawn.append(f'<line class="grid" x1="{LEFT:g}" x2="{WIDTH - RIGHT:g}" y1="{at:.1f}" y2="{at:.1f}"/>')
        drawn.append(f'<text x="{LEFT - 8:g}" y="{at + 4:.1f}" text-anchor="end">{10**power:,}</text>')
    for count, start, end in zip(counts, edges, edges[1:], strict=False):
        if count:
            wide = max(0.6, x(end) - x(start) - 0.8)
            drawn.append(
                f'<rect class="column" x="{x(start):.1f}" y="{y(count):.1f}" width="{wide:.1f}" '
                f'height="{BOTTOM - y(count):.1f}"><title>{start:.3g} to {end:.3g}: {count:,}</title></rect>'
            )
    drawn.append(f'<line class="zero" x1="{LEFT:g}" x2="{WIDTH - RIGHT:g}" y1="{BOTTOM:g}" y2="{BOTTOM:g}"/>')
    drawn += [
        f'<text x="{x(tick):.1f}" y="{BOTTOM + 16:g}" text-anchor="middle">{tick:.6g}</text>'
        for tick in _ticks(high)
    ]
    middle = (LEFT + WIDTH - RIGHT) / 2
    drawn.append(f'<text x="{middle:g}" y="{BOTTOM + 34:g}" text-anchor="middle">{esc(name)}</text>')
    return f'<svg class="plot histogram" viewBox="0 0 {WIDTH:g} {HEIGHT:g}" role="img">{"".join(drawn)}</svg>'


def _ticks(high: float) -> list[float]:
    rough = high / 5
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(size * m for m in (1, 2, 5, 10) if size * m >= rough * (1 - 1e-9))
    return [k * step for k in range(math.floor(high / step + 1e-9) + 1)]
