"""Charts as data: what is drawn, never how. Renderers draw them; a saved result stores them as numbers.

Every chart has a title for those who cannot see it. `x` and `y` are the titles of the axes, with units;
`better` says which direction is good: "low", "high" or nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Point = tuple[float, float]


@dataclass(frozen=True)
class Line:
    """A row of a forest chart: a value, its interval, and its control."""

    label: str
    value: float
    low: float = math.nan
    high: float = math.nan
    control: float = math.nan


@dataclass(frozen=True)
class Forest:
    """One line per row: a dot, its 95 % interval, and its control as a hollow mark."""

    lines: Sequence[Line]
    x: str
    title: str
    better: str = ""
    reference: float = 0.0  # where a vertical line is drawn
    reference_name: str = ""
    ends: tuple[float, float] | None = None  # of the axis; None: as far as the values reach


@dataclass(frozen=True)
class Series:
    """Points of a scatter chart."""

    name: str
    points: Sequence[Point]
    joined: bool = False


@dataclass(frozen=True)
class Scatter:
    """Points of one or more series, each with its own mark."""

    series: Sequence[Series]
    x: str
    y: str
    title: str
    better: str = ""


@dataclass(frozen=True)
class Curve:
    """A line through points (x, y), with a band from `low` to `high` where they are given."""

    name: str
    points: Sequence[Point]
    low: Sequence[float] = ()
    high: Sequence[float] = ()


@dataclass(frozen=True)
class Curves:
    """Lines of one or more series, with bands; `log` is "", "x", "y" or "xy"."""

    series: Sequence[Curve]
    x: str
    y: str
    title: str
    log: str = ""
    better: str = ""


@dataclass(frozen=True)
class Box:
    """A boxplot of `values`; `marks` are further values, one for each name in `Boxes.marks`."""

    name: str
    values: Sequence[float]
    marks: Sequence[float] = ()


@dataclass(frozen=True)
class Boxes:
    """Boxplots side by side; `marks` names what each box's marks are."""

    groups: Sequence[Box]
    y: str
    title: str
    marks: Sequence[str] = ()
    better: str = ""


@dataclass(frozen=True)
class BarGroup:
    """Bars side by side, one per series, with intervals where they are given."""

    name: str
    values: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()


@dataclass(frozen=True)
class Bars:
    """Groups of bars from zero; `series` names the bars of a group."""

    groups: Sequence[BarGroup]
    series: Sequence[str]
    y: str
    title: str
    better: str = ""


@dataclass(frozen=True)
class Panel:
    """A small picture: vectors (n, 2) or a matrix (n, m), with a name above and a line below."""

    name: str
    values: Sequence[Sequence[float]]
    note: str = ""


@dataclass(frozen=True)
class Arrows:
    """Vectors of the plane from the origin, one panel each, all on one scale."""

    panels: Sequence[Panel]
    title: str
    columns: int = 6


@dataclass(frozen=True)
class Heat:
    """Matrices: blue above zero, orange below, the fuller the larger, all on one scale."""

    panels: Sequence[Panel]
    title: str
    columns: int = 6


@dataclass(frozen=True)
class BandCurve:
    """A line of (x, y) in front of a band of (x, low, high)."""

    name: str
    points: Sequence[Point]
    band: Sequence[tuple[float, float, float]] = ()
    note: str = ""


@dataclass(frozen=True)
class BandCurves:
    """One line per panel in front of a band that all share; x is a share of units removed, from 0 to 1."""

    panels: Sequence[BandCurve]
    x: str
    y: str
    title: str
    better: str = ""
    columns: int = 4


@dataclass(frozen=True)
class Matrix:
    """Numbers (rows, columns) from 0, empty, to 1, full colour; `marked` cells get an outline."""

    name: str
    values: Sequence[Sequence[float]]
    rows: Sequence[str]
    columns: Sequence[str]
    marked: Sequence[tuple[int, int]] = ()


@dataclass(frozen=True)
class Matrices:
    """Maps with a name for every row and column, `across` in a line."""

    maps: Sequence[Matrix]
    title: str
    across: int = 2


@dataclass(frozen=True)
class Scored:
    """A method's scores, one per word, its largest size 1."""

    name: str
    scores: Sequence[float]
    signed: bool


@dataclass(frozen=True)
class WordGrid:
    """Words down, methods across; a cell is the fuller the larger its score."""

    words: Sequence[str]
    columns: Sequence[Scored]
    title: str


@dataclass(frozen=True)
class Histogram:
    """Bars from `edges[i]` to `edges[i + 1]`, counts on a logarithmic scale."""

    counts: Sequence[int]
    edges: Sequence[float]
    x: str
    title: str


@dataclass(frozen=True)
class Trees:
    """Trees of nested {feature, cosine, children}, from left (narrow) to right (wide)."""

    trees: Sequence[Mapping[str, Any]]
    widths: Sequence[int]
    title: str
    most: int = 8  # children drawn of one parent


Chart = (
    Forest
    | Scatter
    | Curves
    | Boxes
    | Bars
    | Arrows
    | Heat
    | BandCurves
    | Matrices
    | WordGrid
    | Histogram
    | Trees
)
KINDS: dict[str, type[Chart]] = {
    "forest": Forest,
    "scatter": Scatter,
    "curves": Curves,
    "boxes": Boxes,
    "bars": Bars,
    "arrows": Arrows,
    "heat": Heat,
    "band-curves": BandCurves,
    "matrices": Matrices,
    "word-grid": WordGrid,
    "histogram": Histogram,
    "trees": Trees,
}
