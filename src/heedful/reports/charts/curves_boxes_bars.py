"""Charts as inline SVG, in the manner of heedful.reports.charts.forest_scatter: no script, no library,
colours from the page.

    curves    lines of one or more series, with bands, on linear or logarithmic axes
    boxes     boxplots side by side: quartiles, whiskers to the farthest value within 1.5 boxes, the values
              themselves as dots, and marked values (a theory, a control) in shapes of their own
    bars      groups of bars from zero, with intervals

Numbers that are not finite, or not positive on a logarithmic axis, are left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from heedful.core.charts import BarGroup, Bars, Box, Boxes, Curve, Curves
from heedful.reports.charts.forest_scatter import (
    MARKS,
    Axis,
    across_lines,
    axis,
    directed,
    end_labels,
    image,
    label_room,
    legend,
    mark,
    up_lines,
)
from heedful.reports.html_parts import esc

LEFT, RIGHT, TOP, BOTTOM = 70.0, 660.0, 14.0, 300.0
LETTER = 7.0  # the width of one in a name, about
SLANTS = (0, 35, 60, 90)  # degrees a name may be turned by, the first that fits


def curves(chart: Curves) -> str:
    series, log = chart.series, chart.log
    at_x, at_y = (math.log10 if letter in log else float for letter in "xy")
    shown = [(one, list(_points(one, log, at_x, at_y))) for one in series]
    every = [point for _, points in shown for point in points]
    room = label_room([one.name for one in series])
    right = RIGHT - room
    x = axis((p[0] for p in every), LEFT, right, zero=False)
    y = axis((v for p in every for v in p[1:]), BOTTOM, TOP, zero="y" not in log)
    up = directed(chart.y, chart.better)
    drawn = [across_lines(x, TOP, BOTTOM, chart.x, "x" in log), up_lines(y, LEFT, right, up, "y" in log)]
    ends = {}
    for number, (one, points) in enumerate(shown):
        kind = f"s{number % 4}"
        if one.low and points:
            edge = [(a, high) for a, _, _, high in points] + [(a, low) for a, _, low, _ in reversed(points)]
            drawn.append(f'<polygon class="spread {kind}" points="{_path(edge, x, y)}"/>')
        drawn.append(f'<polyline class="path {kind}" points="{_path([p[:2] for p in points], x, y)}"/>')
        drawn += [mark(MARKS[number % 4], x.at(p[0]), y.at(p[1]), kind) for p in points[:: _every(points)]]
        if points:
            ends[number] = (x.at(points[-1][0]), y.at(points[-1][1]), one.name)
    if room:
        return image(RIGHT + 20, BOTTOM + 48, chart.title, [*drawn, *end_labels(ends, right, TOP, BOTTOM)])
    return _finished(drawn, [one.name for one in series], BOTTOM + 48, chart.title)


Scale = Callable[[float], float]
Point = tuple[float, float, float, float]  # x, y, low, high, as they stand on the axes


def _points(one: Curve, log: str, at_x: Scale, at_y: Scale) -> Iterator[Point]:
    for number, (a, b) in enumerate(one.points):
        low, high = (one.low[number], one.high[number]) if one.low else (b, b)
        numbers = (a, b, low, high)
        positive = ("x" not in log or a > 0) and ("y" not in log or min(b, low, high) > 0)
        if positive and all(map(math.isfinite, numbers)):
            yield at_x(a), at_y(b), at_y(low), at_y(high)


def _path(points: Sequence[tuple[float, ...]], x: Axis, y: Axis) -> str:
    return " ".join(f"{x.at(p[0]):.1f},{y.at(p[1]):.1f}" for p in points)


def _every(points: Sequence[Point]) -> int:
    """Marks are for telling lines apart: some twenty a line."""
    return max(1, len(points) // 20)


def boxes(chart: Boxes) -> str:
    """A box may have fewer marks than `chart.marks` names."""
    groups, marks = chart.groups, chart.marks
    y = axis((v for g in groups for v in (*g.values, *g.marks)), BOTTOM, TOP)
    drawn = [up_lines(y, LEFT, RIGHT, directed(chart.y, chart.better))]
    for x, wide, group in _columns(groups):
        values = np.asarray([v for v in group.values if math.isfinite(v)], float)
        if len(values):
            drawn += _box(values, x, min(26.0, 0.5 * wide), y)
        drawn += [
            mark(MARKS[1 + number % 3], x, y.at(value), f"s{1 + number % 3}")
            for number, value in enumerate(group.marks)
            if math.isfinite(value)
        ]
    height = _names(drawn, groups)
    if marks:
        drawn += legend(marks, LEFT, height, first=1)
        height += 24
    return image(RIGHT + 20, height, chart.title, drawn)


def _box(values: npt.NDArray[np.float64], x: float, wide: float, y: Axis) -> Iterator[str]:
    low, middle, high = np.percentile(values, (25, 50, 75))
    reach = 1.5 * (high - low)
    ends = values[(values >= low - reach) & (values <= high + reach)]
    whisker = f'x1="{x:.1f}" x2="{x:.1f}" y1="{y.at(ends.min()):.1f}" y2="{y.at(ends.max()):.1f}"'
    yield f'<line class="bar" {whisker}/>'
    left, top, tall = x - wide / 2, y.at(high), y.at(low) - y.at(high)
    yield f'<rect class="box" x="{left:.1f}" y="{top:.1f}" width="{wide:.1f}" height="{max(tall, 0.5):.1f}"/>'
    level = f'y1="{y.at(middle):.1f}" y2="{y.at(middle):.1f}"'
    yield f'<line class="median" x1="{left:.1f}" x2="{left + wide:.1f}" {level}/>'
    if len(values) <= 12:
        yield from (f'<circle class="dot" cx="{x:.1f}" cy="{y.at(v):.1f}" r="1.8"/>' for v in values)


def bars(chart: Bars) -> str:
    """One bar per series in every group."""
    groups, series = chart.groups, chart.series
    y = axis((v for g in groups for v in (*g.values, *g.low, *g.high)), BOTTOM, TOP)
    drawn = [up_lines(y, LEFT, RIGHT, directed(chart.y, chart.better))]
    for x, wide, group in _columns(groups):
        each = min(34.0, 0.8 * wide / max(1, len(group.values)))
        first = x - each * len(group.values) / 2
        for number, value in enumerate(group.values):
            if math.isfinite(value):
                drawn += _bar(group, number, first + each * number, each * 0.9, y)
    height = _names(drawn, groups)
    if len(series) > 1:
        drawn += legend(series, LEFT, height, square=True)
        height += 24
    return image(RIGHT + 20, height, chart.title, drawn)


def _bar(group: BarGroup, number: int, x: float, wide: float, y: Axis) -> Iterator[str]:
    value = group.values[number]
    top, bottom = sorted((y.at(value), y.at(0.0)))
    size = f'width="{wide:.1f}" height="{max(bottom - top, 0.5):.1f}"'
    text = f"<title>{esc(group.name)}: {value:.3g}</title>"
    yield f'<rect class="mark s{number % 4}" x="{x:.1f}" y="{top:.1f}" {size}>{text}</rect>'
    if group.low and math.isfinite(group.low[number]) and math.isfinite(group.high[number]):
        middle = x + wide / 2
        ends = f'y1="{y.at(group.low[number]):.1f}" y2="{y.at(group.high[number]):.1f}"'
        yield f'<line class="whisker" x1="{middle:.1f}" x2="{middle:.1f}" {ends}/>'


Kind = TypeVar("Kind", Box, BarGroup)


def _columns(groups: Sequence[Kind]) -> Iterator[tuple[float, float, Kind]]:
    """Middle and width of each group's column."""
    wide = (RIGHT - LEFT) / max(1, len(groups))
    for number, group in enumerate(groups):
        yield LEFT + wide * (number + 0.5), wide, group


def _names(drawn: list[str], groups: Sequence[Kind]) -> float:
    """Names under the columns, slanted where they are too long to stand side by side; the height so far."""
    columns = [(x, wide, group.name) for x, wide, group in _columns(groups)]
    longest = max((len(name) for *_, name in columns), default=0)
    slant = next(slant for slant in SLANTS if all(_fits(slant, *column) for column in columns))
    for x, _, name in columns:
        y = BOTTOM + (14 if slant else 18)
        turn = (
            f'transform="rotate(-{slant} {x:.1f} {y:g})" text-anchor="end"'
            if slant
            else 'text-anchor="middle"'
        )
        drawn.append(f'<text class="name" x="{x:.1f}" y="{y:g}" {turn}>{esc(name)}</text>')
    return BOTTOM + (30 + LETTER * longest * math.sin(math.radians(slant)) if slant else 34)


def _fits(slant: int, x: float, wide: float, name: str) -> bool:
    """Upright beside its neighbours, or slanted without leaving the picture."""
    length = LETTER * len(name)
    return length <= wide if not slant else slant == SLANTS[-1] or x > length * math.cos(math.radians(slant))


def _finished(drawn: list[str], names: Sequence[str], height: float, title: str) -> str:
    if len(names) > 1:
        drawn += legend(names, LEFT, height)
        height += 24
    return image(RIGHT + 20, height, title, drawn)
