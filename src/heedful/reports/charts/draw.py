"""Any chart as inline SVG."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from heedful.core import charts
from heedful.reports.charts.curves_boxes_bars import bars, boxes, curves
from heedful.reports.charts.forest_scatter import forest, scatter
from heedful.reports.charts.histogram import histogram
from heedful.reports.charts.matrix import matrices
from heedful.reports.charts.panels import arrows, band_curves, heat
from heedful.reports.charts.tree import trees
from heedful.reports.charts.word_grid import word_grid

DRAW: dict[type, Callable[[Any], str]] = {
    charts.Forest: forest,
    charts.Scatter: scatter,
    charts.Curves: curves,
    charts.Boxes: boxes,
    charts.Bars: bars,
    charts.Arrows: arrows,
    charts.Heat: heat,
    charts.BandCurves: band_curves,
    charts.Matrices: matrices,
    charts.WordGrid: word_grid,
    charts.Histogram: histogram,
    charts.Trees: trees,
}


def svg(chart: charts.Chart) -> str:
    return DRAW[type(chart)](chart)
