"""Small plots as inline SVG: no script, no library, colours from the page's own style.

    forest    one line per row: value, 95 % interval, and its control as a hollow mark
    scatter   points of one or more series, each with its own mark, lines between them on request

Numbers that are not finite are left out. Every plot has a title for those who cannot see it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from heedful.core.charts import Forest, Line, Scatter
from heedful.core.numbers import short, with_interval
from heedful.reports.html_parts import esc

LETTER = 6.4  # width of a letter of an axis title, about
MARKS = ("circle", "square", "triangle", "diamond")
MOST_ENDS, LONGEST_END, END_STEP = 8, 26, 15.0  # names at the ends of lines: how many, letters, px apart


@dataclass(frozen=True)
class Axis:
    """Numbers along one edge, drawn from pixel `start` to pixel `end`."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)

    def ticks(self) -> list[float]:
        """About five round numbers."""
        rough = (self.high - self.low) / 5
        size = 10.0 ** math.floor(math.log10(rough))
        step = next(size * m for m in (1, 2, 5, 10) if size * m >= rough * (1 - 1e-9))
        first = math.ceil(self.low / step - 1e-9)
        return [k * step for k in range(first, math.floor(self.high / step + 1e-9) + 1)]


def axis(values: Iterable[float], start: float, end: float, zero: bool = True) -> Axis:
    """Wide enough for all values, with a margin; with zero on it unless told otherwise."""
    shown = [value for value in values if math.isfinite(value)] + ([0.0] if zero else [])
    low, high = min(shown, default=0.0), max(shown, default=1.0)
    room = (high - low) * 0.05 or abs(high) * 0.05 or 1.0
    return Axis(low - (room if low else 0.0), high + room, start, end)


def forest(chart: Forest) -> str:
    """Rows from top to bottom."""
    lines = chart.lines
    left = 30.0 + 7.2 * max((len(line.label) for line in lines), default=0)  # room for the names
    name = directed(chart.x, chart.better)
    # narrow, so that its letters can still be read on a telephone
    width, step, top = max(480.0, left + 300.0, LETTER * len(name) + 20.0), 26.0, 10.0
    values = [v for r in lines for v in (r.value, r.low, r.high, r.control, chart.reference)]
    across = axis([*values, *(chart.ends or ())], left, width - 20)
    bottom = top + step * len(lines)
    drawn = [across_lines(across, top, bottom, name)]
    drawn += _reference(chart, across, top, bottom)
    for number, line in enumerate(lines):
        y = top + step * (number + 0.5)
        drawn.append(
            f'<text class="name" x="{left - 12:g}" y="{y + 4:.1f}" text-anchor="end">{esc(line.label)}</text>'
        )
        if math.isfinite(line.low) and math.isfinite(line.high):
            ends = f'x1="{across.at(line.low):.1f}" x2="{across.at(line.high):.1f}"'
            drawn.append(f'<line class="bar" {ends} y1="{y:.1f}" y2="{y:.1f}"/>')
        if math.isfinite(line.control):
            text = f"{line.label}: control {short(line.control)}"
            drawn.append(mark("diamond", across.at(line.control), y, "control", text))
        if math.isfinite(line.value):
            drawn.append(mark("circle", across.at(line.value), y, "s0", _row_told(line)))
    return image(width, bottom + 42, chart.title, drawn, "plot forest")


def _reference(chart: Forest, across: Axis, top: float, bottom: float) -> list[str]:
    """A named vertical line: where a random order lies."""
    if not chart.reference_name:
        return []
    x = across.at(chart.reference)
    line = f'<line class="reference" x1="{x:.1f}" x2="{x:.1f}" y1="{top - 4:g}" y2="{bottom:g}"/>'
    return [line, f'<text x="{x + 5:.1f}" y="{top + 4:g}">{esc(chart.reference_name)}</text>']


def directed(name: str, better: str) -> str:
    """The title of an axis with its direction."""
    return f"{name} ({'lower' if better == 'low' else 'higher'} is better)" if better else name


def scatter(chart: Scatter) -> str:
    series = chart.series
    left, width, top, bottom = 70.0, 680.0, 14.0, 300.0
    points = [p for one in series for p in one.points if all(map(math.isfinite, p))]
    lines = all(one.joined or len(one.points) == 1 for one in series)
    room = label_room([one.name for one in series]) if lines else 0.0
    right = width - 20 - room
    x, y = axis((p[0] for p in points), left, right), axis((p[1] for p in points), bottom, top)
    drawn = [across_lines(x, top, bottom, chart.x)]
    drawn.append(up_lines(y, left, right, directed(chart.y, chart.better)))
    ends = {}
    for number, one in enumerate(series):
        shown = [(a, b) for a, b in one.points if math.isfinite(a) and math.isfinite(b)]
        if shown:
            ends[number] = (x.at(shown[-1][0]), y.at(shown[-1][1]), one.name)
        if one.joined and len(shown) > 1:
            path = " ".join(f"{x.at(a):.1f},{y.at(b):.1f}" for a, b in shown)
            drawn.append(f'<polyline class="path s{number % 4}" points="{path}"/>')
        for a, b in shown:
            text = f"{one.name}: {short(a)}, {short(b)}"
            drawn.append(mark(MARKS[number % 4], x.at(a), y.at(b), f"s{number % 4}", text))
    height = bottom + 48
    if room:
        drawn += end_labels(ends, right, top, bottom)
    elif len(series) > 1:
        drawn += legend([one.name for one in series], left, height)
        height += 24
    return image(width, height, chart.title, drawn)


def image(width: float, height: float, title: str, drawn: Iterable[str], kind: str = "plot") -> str:
    """The frame of a plot; its elements are drawn already."""
    inside = f"<title>{esc(title)}</title>" + "".join(drawn)
    return f'<svg class="{kind}" viewBox="0 0 {width:g} {height:g}" role="img">{inside}</svg>'


def across_lines(along: Axis, top: float, bottom: float, name: str, log: bool = False) -> str:
    """Grid and numbers of the axis below; with `log` its numbers are powers of ten."""
    lines = []
    for tick, label in _ticks(along, log):
        x = along.at(tick)
        kind = "zero" if abs(tick) < 1e-12 and not log else "grid"
        lines.append(f'<line class="{kind}" x1="{x:.1f}" x2="{x:.1f}" y1="{top:g}" y2="{bottom:g}"/>')
        lines.append(f'<text x="{x:.1f}" y="{bottom + 16:g}" text-anchor="middle">{label}</text>')
    # below the middle of the axis, but never beyond its right end, where the picture ends
    middle = min((along.start + along.end) / 2, along.end + 15 - LETTER * len(name) / 2)
    lines.append(f'<text x="{middle:g}" y="{bottom + 34:g}" text-anchor="middle">{esc(name)}</text>')
    return "".join(lines)


def up_lines(along: Axis, left: float, right: float, name: str, log: bool = False) -> str:
    """Grid and numbers of the axis on the left; with `log` its numbers are powers of ten."""
    lines = []
    for tick, label in _ticks(along, log):
        y = along.at(tick)
        kind = "zero" if abs(tick) < 1e-12 and not log else "grid"
        lines.append(f'<line class="{kind}" x1="{left:g}" x2="{right:g}" y1="{y:.1f}" y2="{y:.1f}"/>')
        lines.append(f'<text x="{left - 8:g}" y="{y + 4:.1f}" text-anchor="end">{label}</text>')
    middle = (along.start + along.end) / 2
    turned = f'transform="rotate(-90 16 {middle:g})"'
    lines.append(f'<text x="16" y="{middle:g}" {turned} text-anchor="middle">{esc(name)}</text>')
    return "".join(lines)


def _ticks(along: Axis, log: bool) -> list[tuple[float, str]]:
    """Where, and what is written there; with `log` 1, 2 and 5 of every decade, or whole decades."""
    if not log:
        return [(tick, _number(tick)) for tick in along.ticks()]
    decades = range(math.floor(along.low), math.ceil(along.high) + 1)
    steps = (1, 2, 5) if along.high - along.low < 2.5 else (1,)
    every = max(1, len(decades) // 8)
    values = [step * 10.0**power for power in decades[::every] for step in steps]
    return [(at, _written(v)) for v in values if along.low <= (at := math.log10(v)) <= along.high]


def legend(names: Sequence[str], left: float, y: float, *, first: int = 0, square: bool = False) -> list[str]:
    """Names beside their marks; the first one's is number `first`, all are squares with `square`."""
    drawn, x = [], left
    for number, name in enumerate(names, first):
        shape = "square" if square else MARKS[number % 4]
        drawn.append(mark(shape, x + 6, y + 4, f"s{number % 4}"))
        drawn.append(f'<text x="{x + 16:.1f}" y="{y + 8:g}">{esc(name)}</text>')
        x += 16 + 7.2 * len(name) + 24
    return drawn


def label_room(names: Sequence[str]) -> float:
    """Room right of a plot for names at the ends of their lines; 0: one line, or too many or too long names,
    which are in a legend below."""
    longest = max(map(len, names), default=0)
    fits = 1 < len(names) <= MOST_ENDS and longest <= LONGEST_END
    return 30 + LETTER * longest if fits else 0.0


def end_labels(
    ends: Mapping[int, tuple[float, float, str]], right: float, top: float, bottom: float
) -> list[str]:
    """Names right of a plot, each as high as its line ends; those that would overlap are moved apart.
    `ends`: number of the line -> where it ends, and its name."""
    order = sorted(ends, key=lambda number: ends[number][1])
    heights: list[float] = []
    for number in order:
        heights.append(max(ends[number][1], heights[-1] + END_STEP if heights else top))
    for place in reversed(range(len(heights))):
        heights[place] = min(heights[place], bottom - END_STEP * (len(heights) - 1 - place))
    drawn = []
    for number, height in zip(order, heights, strict=True):
        x, y, name = ends[number]
        if right - x > 6 or abs(height - y) > 3:
            drawn.append(
                f'<line class="grid" x1="{x:.1f}" x2="{right + 6:.1f}" y1="{y:.1f}" y2="{height:.1f}"/>'
            )
        drawn.append(mark(MARKS[number % 4], right + 13, height, f"s{number % 4}"))
        drawn.append(f'<text class="end" x="{right + 23:.1f}" y="{height + 4:.1f}">{esc(name)}</text>')
    return drawn


def mark(shape: str, x: float, y: float, kind: str, told: str = "") -> str:
    """A small shape of MARKS around a point; `kind` is its class, s0 to s3 or control; `told` is what it says
    under the pointer."""
    inside = f"<title>{esc(told)}</title>" if told else ""
    if shape == "circle":
        return f'<circle class="mark {kind}" cx="{x:.1f}" cy="{y:.1f}" r="4">{inside}</circle>'
    corners = {
        "square": ((-3.5, -3.5), (3.5, -3.5), (3.5, 3.5), (-3.5, 3.5)),
        "triangle": ((0, -5), (4.6, 3.4), (-4.6, 3.4)),
        "diamond": ((0, -5), (5, 0), (0, 5), (-5, 0)),
    }[shape]
    points = " ".join(f"{x + a:.1f},{y + b:.1f}" for a, b in corners)
    return f'<polygon class="mark {kind}" points="{points}">{inside}</polygon>'


def _row_told(line: Line) -> str:
    return f"{line.label}: {with_interval(line.value, line.low, line.high, short)}"


def _number(value: float) -> str:
    """Of a tick among others: what is left of zero after rounding is zero."""
    return _written(0.0 if abs(value) < 1e-12 else value)


def _written(value: float) -> str:
    """As it is, however small: no power of ten is zero."""
    return short(value, 6)
