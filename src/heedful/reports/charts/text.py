"""Charts in the terminal: dots with intervals, bars and small curves; other charts are named only."""

from __future__ import annotations

import math
from collections.abc import Sequence

from heedful.core.charts import BandCurves, Bars, Chart, Curves, Forest, Histogram
from heedful.core.numbers import fixed, short, with_interval
from heedful.reports.charts.forest_scatter import directed
from heedful.reports.charts.sparkline import reach, sparkline

MOST_POINTS = 24  # of a small curve
BAR, MIN_ROOM = 20, 12


def chart_lines(chart: Chart, width: int) -> list[str]:
    """Nothing for a chart that needs a picture."""
    if isinstance(chart, Forest):
        return _forest(chart, width)
    if isinstance(chart, Curves):
        return _curves(chart)
    if isinstance(chart, BandCurves):
        return _band_curves(chart)
    if isinstance(chart, Bars):
        return _bars(chart)
    if isinstance(chart, Histogram):
        return _histogram(chart)
    return []


def _forest(chart: Forest, width: int) -> list[str]:
    """├──●──┤ on one scale, a line │ at the reference."""
    values = [v for one in chart.lines for v in (one.value, one.low, one.high, chart.reference)]
    low, high = reach([[*values, *(chart.ends or ())]])
    spread = (high - low) or 1.0
    decimals = min(6, max(2, 1 - math.floor(math.log10(spread))))  # neighbours must differ
    numbers = [
        with_interval(one.value, one.low, one.high, lambda v: fixed(v, decimals)) for one in chart.lines
    ]
    tail = max(map(len, numbers), default=0)
    most = width - tail - 4 - MIN_ROOM  # a longer name has a line of its own
    names = max((len(one.label) for one in chart.lines if len(one.label) <= most), default=0)
    room = max(MIN_ROOM, min(40, width - names - tail - 4))

    def at(value: float) -> int:
        return round((value - low) / spread * (room - 1))

    lines = []
    for one, number in zip(chart.lines, numbers, strict=True):
        cells = [" "] * room
        cells[at(chart.reference)] = "│"
        if math.isfinite(one.low) and math.isfinite(one.high):
            for place in range(at(one.low), at(one.high) + 1):
                cells[place] = "─"
        if math.isfinite(one.control):
            cells[at(min(high, max(low, one.control)))] = "◇"
        if math.isfinite(one.value):
            cells[at(one.value)] = "●"
        long = len(one.label) > names
        lines += [one.label] if long else []
        lines.append(f"{'' if long else one.label:<{names}}  {''.join(cells)}  {number}")
    here = at(chart.reference)
    below = [_centred(chart.reference_name, here, room)]
    if chart.ends:
        below = _axis(short(low), (short(chart.reference), chart.reference_name), short(high), here, room)
    below = [" " * (names + 2) + each for each in below]
    return [*lines, *(each.rstrip() for each in (*below, directed(chart.x, chart.better)) if each.strip())]


def _axis(low: str, reference: tuple[str, str], high: str, place: int, room: int) -> list[str]:
    """0       0.5 random       1, the name on a line of its own where there is no room for it."""
    middle, name = reference
    bare = low.ljust(place - len(middle) // 2) + middle
    if len(f"{bare} {name}  {high}") <= room:
        return [f"{bare} {name}".ljust(room - len(high)) + high]
    return [bare.ljust(room - len(high)) + high, _centred(name, place, room)]


def _centred(text: str, place: int, room: int) -> str:
    start = max(0, min(room - len(text), place - len(text) // 2))
    return " " * start + text


def _curves(chart: Curves) -> list[str]:
    shown = {one.name: [y for _, y in _thinned(one.points)] for one in chart.series}
    ends = reach(shown.values())
    width = max(map(len, shown), default=0)
    lines = [
        f"{name:<{width}}  {sparkline(values, *ends)}  {short(values[0])} to {short(values[-1])}"
        for name, values in shown.items()
        if values
    ]
    return [*lines, f"{directed(chart.y, chart.better)}, by {chart.x}"] if lines else []


def _band_curves(chart: BandCurves) -> list[str]:
    """Each curve, and the middle of the band, on one scale."""
    curves = {panel.name: [y for _, y in panel.points] for panel in chart.panels}
    band = next((panel.band for panel in chart.panels if panel.band), ())
    curves |= {"random orders": [(low + high) / 2 for _, low, high in band]} if band else {}
    ends, width = reach(curves.values()), max(map(len, curves), default=0)
    lines = [f"{name:<{width}}  {sparkline(values, *ends)}" for name, values in curves.items()]
    return [*lines, f"{directed(chart.y, chart.better)}, by {chart.x}"]


def _thinned(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    step = max(1, math.ceil(len(points) / MOST_POINTS))
    return [*points[::step]]


def _bars(chart: Bars) -> list[str]:
    names = [
        f"{group.name} {name}".strip() if len(chart.series) > 1 else group.name
        for group in chart.groups
        for name in chart.series
    ]
    values = [v for group in chart.groups for v in group.values]
    top = max((abs(v) for v in values if math.isfinite(v)), default=0.0) or 1.0
    width = max(map(len, names), default=0)
    shares = [abs(value) / top if math.isfinite(value) else 0.0 for value in values]
    lines = [
        f"{name:<{width}}  {'█' * round(BAR * share)} {short(value)}"
        for name, value, share in zip(names, values, shares, strict=False)
    ]
    return [*lines, directed(chart.y, chart.better)]


def _histogram(chart: Histogram) -> list[str]:
    """Counts on a logarithmic scale; neighbours are added where there are many."""
    if not any(chart.counts):
        return []
    step = max(1, math.ceil(len(chart.counts) / MOST_POINTS))
    counts = [sum(chart.counts[at : at + step]) for at in range(0, len(chart.counts), step)]
    heights = [math.log10(count + 1) for count in counts]
    line = sparkline(heights, 0.0, max(heights))
    return [f"{short(chart.edges[0])} {line} {short(chart.edges[-1])}  {chart.x}"]
