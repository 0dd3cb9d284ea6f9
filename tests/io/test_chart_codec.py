"""Every kind of chart comes back from JSON as it was; a chart that cannot be drawn is refused."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from heedful.core import charts
from heedful.core.charts import KINDS, Chart
from heedful.io.chart_codec import chart_from_dict, chart_to_dict, plain_chart
from heedful.reports.charts.draw import svg

TREE = {"feature": "a", "cosine": 1.0, "children": [{"feature": 3, "cosine": 0.5, "children": []}]}
EXAMPLES: dict[str, Chart] = {
    "forest": charts.Forest([charts.Line("a", 0.5, 0.2, 0.8), charts.Line("b", math.nan)], "x", "t", "high"),
    "scatter": charts.Scatter([charts.Series("a", [(0, 1), (1.0, math.inf)], True)], "x", "y", "t"),
    "curves": charts.Curves(
        [charts.Curve("a", [(1, 2), (3, 4)], [1, 3], [3, 5])], "x", "y", "t", "xy", "low"
    ),
    "boxes": charts.Boxes([charts.Box("a", np.array([1.0, 2.0, 3.0]).tolist(), [2.0])], "y", "t", ["mean"]),
    "bars": charts.Bars([charts.BarGroup("a", [1, 2], [0, 1], [2, 3])], ["one", "two"], "y", "t"),
    "arrows": charts.Arrows([charts.Panel("a", [(1.0, 0.0)], "note")], "t"),
    "heat": charts.Heat([charts.Panel("a", [[1.0, -1.0], [0.0, 2.0]])], "t", 3),
    "band-curves": charts.BandCurves([charts.BandCurve("a", [(0, 1)], [(0, 0, 1)])], "x", "y", "t"),
    "matrices": charts.Matrices([charts.Matrix("a", [[0.5, 1.0]], ["r"], ["c", "d"], [(0, 1)])], "t", 1),
    "word-grid": charts.WordGrid(["a", "b"], [charts.Scored("lime", [0.5, -1.0], True)], "t"),
    "histogram": charts.Histogram([1, 2], [0.0, 1.0, 2.0], "x", "t"),
    "trees": charts.Trees([TREE], [4, 8], "t"),
}


def test_there_is_an_example_of_every_kind() -> None:
    assert set(EXAMPLES) == set(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_a_chart_comes_back_as_it_was(kind: str) -> None:
    chart = EXAMPLES[kind]
    data = json.loads(json.dumps(chart_to_dict(chart), allow_nan=False))
    assert data["kind"] == kind
    again = chart_from_dict(data)
    assert again == plain_chart(chart)
    assert chart_to_dict(again) == data
    assert svg(again) == svg(chart)


def leaves(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if isinstance(data, dict):
        return [found for key, item in data.items() for found in leaves(item, (*path, key))]
    if isinstance(data, list):
        return [path, *(found for n, item in enumerate(data) for found in leaves(item, (*path, n)))]
    return [path]


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_leaf_is_refused_or_drawn(kind: str) -> None:
    """Whatever is put into any place: ValueError, or a chart that can be drawn."""
    text = json.dumps(chart_to_dict(EXAMPLES[kind]))
    refused = 0
    for path in leaves(json.loads(text)):
        for value in (None, "x", -1, 10**400, [], {}, [[]], True, 1e308):
            data = json.loads(text)
            place = data
            for key in path[:-1]:
                place = place[key]
            place[path[-1]] = value
            try:
                chart = chart_from_dict(data)
            except ValueError:
                refused += 1
                continue
            svg(chart)
    assert refused


@pytest.mark.parametrize("data", [None, [], {}, {"kind": "pie"}, {"kind": ["heat"]}, {"kind": 3}])
def test_what_is_no_chart_is_refused(data: Any) -> None:
    with pytest.raises(ValueError, match="is no chart"):
        chart_from_dict(data)


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(ValueError, match="has no svg"):
        chart_from_dict({**chart_to_dict(EXAMPLES["heat"]), "svg": "<svg></svg>"})
