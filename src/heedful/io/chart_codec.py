"""Charts as JSON and back. A folder may come from anybody: what cannot be drawn raises ValueError."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from itertools import pairwise
from typing import Any

from heedful.core import charts
from heedful.core.charts import KINDS, Chart
from heedful.io.json_codec import from_jsonable, to_jsonable

NAMES = {kind: name for name, kind in KINDS.items()}
LOGS, DIRECTIONS = ("", "x", "y", "xy"), ("", "low", "high")
DEEPEST = 32  # levels of a chart, of a tree too
LARGEST = 1e150  # a number that no axis can have on it


def chart_to_dict(chart: Chart) -> dict[str, Any]:
    """{"kind": a name of core.charts.KINDS, and its fields}"""
    return {"kind": NAMES[type(chart)], **to_jsonable(chart)}


def chart_from_dict(data: Any) -> Chart:
    """The chart that `chart_to_dict` wrote. Anything else raises ValueError."""
    if not isinstance(data, Mapping) or not isinstance(data.get("kind"), str) or data["kind"] not in KINDS:
        raise ValueError(f"{data!r:.60} is no chart: its kind must be one of {', '.join(KINDS)}")
    kind = KINDS[data["kind"]]
    if unknown := set(data) - {"kind", *(each.name for each in fields(kind))}:
        raise ValueError(f"a chart of kind {data['kind']!r} has no {', '.join(sorted(map(str, unknown)))}")
    _check_sizes(data, 0)
    chart: Chart = from_jsonable(kind, dict(data))
    _check(chart)
    return chart


def plain_chart(chart: Chart) -> Chart:
    """The same chart of plain numbers and tuples, as a folder gives it back."""
    return chart_from_dict(chart_to_dict(chart))


# --- what drawing relies on ------------------------------------------------------------------------


def _check_sizes(data: Any, level: int) -> None:
    if level > 2 * DEEPEST:
        raise ValueError("it is nested too deeply")
    if isinstance(data, int | float) and LARGEST < abs(data) != math.inf:
        raise ValueError("a number is too large to be drawn")
    if isinstance(data, Mapping | list | tuple):
        for each in data.values() if isinstance(data, Mapping) else data:
            _check_sizes(each, level + 1)


def _check(chart: Chart) -> None:
    if getattr(chart, "better", "") not in DIRECTIONS or getattr(chart, "log", "") not in LOGS:
        raise ValueError("a direction is low or high, a logarithmic axis x, y or xy")
    if min(getattr(chart, "columns", 1) if isinstance(chart, PANELS) else 1, getattr(chart, "across", 1)) < 1:
        raise ValueError("a chart has one column or more")
    if check := CHECKS.get(type(chart)):
        check(chart)


PANELS = (charts.Arrows, charts.Heat, charts.BandCurves)


def _same(what: str, *given: Sequence[Any]) -> None:
    if len({len(each) for each in given}) > 1:
        raise ValueError(f"{what}: {', '.join(str(len(each)) for each in given)} do not go together")


def _forest(chart: charts.Forest) -> None:
    if chart.ends is not None and not -math.inf < chart.ends[0] < chart.ends[1] < math.inf:
        raise ValueError("an axis goes from a smaller number to a larger one")


def _curves(chart: charts.Curves) -> None:
    for one in chart.series:
        for edge in (one.low, one.high):
            _same("points and a band", one.points, edge or one.points)
        _same("the edges of a band", one.low, one.high)


def _bars(chart: charts.Bars) -> None:
    for group in chart.groups:
        _same("series and bars", chart.series, group.values)
        for ends in (group.low, group.high):
            _same("bars and intervals", group.values, ends or group.values)
        _same("the ends of intervals", group.low, group.high)


def _boxes(chart: charts.Boxes) -> None:
    if any(len(group.marks) > len(chart.marks) for group in chart.groups):
        raise ValueError("a box has more marks than names")


def _arrows(chart: charts.Arrows) -> None:
    for panel in chart.panels:
        for vector in panel.values:
            _same("a vector of the plane", vector, (0, 0))


def _heat(chart: charts.Heat) -> None:
    for panel in chart.panels:
        _same("the rows of a matrix", *panel.values)
        if not all(panel.values):
            raise ValueError("a row of a matrix is empty")


def _matrices(chart: charts.Matrices) -> None:
    if not chart.maps or not all(one.rows and one.columns for one in chart.maps):
        raise ValueError("a chart of matrices has one or more, with rows and columns")
    for one in chart.maps:
        if not all(0 <= i < len(one.rows) and 0 <= j < len(one.columns) for i, j in one.marked):
            raise ValueError("a marked cell is outside its matrix")
        _same("rows and their names", one.values, one.rows)
        _same("columns and their names", one.columns, *one.values)


def _word_grid(chart: charts.WordGrid) -> None:
    for column in chart.columns:
        _same("words and scores", chart.words, column.scores)


def _histogram(chart: charts.Histogram) -> None:
    _same("bars and their edges", [*chart.counts, 0], chart.edges)
    steps = [b - a for a, b in pairwise(chart.edges)]
    if min(chart.counts, default=0) < 0 or not all(step > 0 for step in steps) or not chart.edges[-1] > 0:
        raise ValueError("counts are not below zero, and edges of bars rise")


def _trees(chart: charts.Trees) -> None:
    for tree in chart.trees:
        _tree(tree, 0)


def _tree(node: Any, level: int) -> None:
    if level > DEEPEST or not isinstance(node, Mapping) or set(node) != {"feature", "cosine", "children"}:
        raise ValueError(f"a tree has a feature, a cosine and children: {node!r:.60}")
    cosine = float | int | None if not level else float | int  # of a child and its parent
    right = isinstance(node["feature"], str | int) and isinstance(node["cosine"], cosine)
    if not right or not isinstance(node["children"], list | tuple):
        raise ValueError(f"a tree has a feature, a cosine and children: {node!r:.60}")
    for child in node["children"]:
        _tree(child, level + 1)


CHECKS: dict[type, Callable[[Any], None]] = {
    charts.Forest: _forest,
    charts.Curves: _curves,
    charts.Bars: _bars,
    charts.Boxes: _boxes,
    charts.Arrows: _arrows,
    charts.Heat: _heat,
    charts.Matrices: _matrices,
    charts.WordGrid: _word_grid,
    charts.Histogram: _histogram,
    charts.Trees: _trees,
}
