"""Plots put numbers where they belong, leave out what is none, and escape what they are told."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET

import pytest

from heedful.core.charts import BandCurve, BandCurves, Curve, Curves, Forest, Line, Scatter, Series
from heedful.reports.charts.curves_boxes_bars import curves
from heedful.reports.charts.forest_scatter import Axis, axis, forest, scatter
from heedful.reports.charts.panels import band_curves


def circles(svg: str) -> list[tuple[float, float]]:
    root = ET.fromstring(svg)
    return [(float(c.attrib["cx"]), float(c.attrib["cy"])) for c in root.iter("circle")]


def test_an_axis_is_linear_and_its_ticks_are_round() -> None:
    along = Axis(0.0, 0.7, 100.0, 800.0)
    assert along.at(0.35) == pytest.approx(450)
    assert along.ticks() == pytest.approx([0, 0.2, 0.4, 0.6])
    assert axis([], 0.0, 10.0).ticks()  # nothing to show is no reason to fail
    assert axis([-3.0, 5.0], 0.0, 100.0).low < -3
    assert axis([-3.0, 5.0], 0.0, 100.0).high > 5
    assert axis([2.0, 3.0], 0.0, 100.0).low == 0  # zero is the floor of a size


def test_forest_rows_stand_in_order_at_their_values() -> None:
    lines = [Line("a", 0.1, 0.0, 0.2, 0.05), Line("b", 0.3), Line("c", math.nan)]
    found = circles(forest(Forest(lines, "tau", "three")))
    assert len(found) == 2  # not a number: not drawn
    assert found[0][0] < found[1][0]
    assert found[0][1] < found[1][1]
    bars = [
        e
        for e in ET.fromstring(forest(Forest(lines, "tau", "three"))).iter("line")
        if e.attrib["class"] == "bar"
    ]
    assert len(bars) == 1
    middle = (float(bars[0].attrib["x1"]) + float(bars[0].attrib["x2"])) / 2
    assert middle == pytest.approx(found[0][0], abs=0.11)


def test_scatter_keeps_up_up() -> None:
    low, high = circles(scatter(Scatter([Series("s", [(0.1, 0.1), (0.2, 0.9)])], "x", "y", "two")))
    assert low[0] < high[0]
    assert low[1] > high[1]


def test_a_path_joins_only_what_is_asked_and_finite() -> None:
    points = [(0.0, 1.0), (1.0, math.inf), (2.0, 3.0)]
    svg = scatter(Scatter([Series("a", points, joined=True), Series("b", points)], "x", "y", "paths"))
    paths = list(ET.fromstring(svg).iter("polyline"))
    assert len(paths) == 1
    assert len(paths[0].attrib["points"].split()) == 2


def test_joined_series_have_their_names_at_their_ends() -> None:
    lines = [Series(name, [(0.0, 0.0), (1.0, y)], joined=True) for name, y in (("a<b", 1.0), ("c", 2.0))]
    point = Series("one point", [(0.5, 0.5)])
    assert scatter(Scatter([*lines, point], "x", "y", "t")).count('<text class="end"') == 3
    cloud = Series("cloud", [(0.5, 0.5), (0.6, 0.1)])
    assert '<text class="end"' not in scatter(Scatter([*lines, cloud], "x", "y", "t"))


def test_panels_have_titles_on_their_axes() -> None:
    panel = BandCurve("occlusion", [(0.0, 1.0), (1.0, 0.2)])
    svg = band_curves(BandCurves([panel], "words removed", "probability", "t", better="low"))
    texts = {e.text: e.attrib for e in ET.fromstring(svg).iter("text")}
    assert "across:" not in svg
    assert float(texts["↑ probability (lower is better)"]["y"]) < float(texts["occlusion"]["y"])
    assert float(texts["words removed →"]["y"]) > float(texts["0 %"]["y"])


def test_names_are_escaped() -> None:
    svg = forest(Forest([Line("<script>x</script>", 1.0)], "<u>", "</title><script>"))
    assert "<script>" not in svg
    assert "<u>" not in svg
    ET.fromstring(svg)


def test_ticks_of_a_logarithmic_axis_are_never_zero() -> None:
    """Errors at the rounding of float64: 1e-16 is a power of ten like any other."""
    svg = curves(Curves([Curve("a", [(1.0, 1e-16), (2.0, 1e-13), (3.0, 1e-10)])], "x", "y", "t", log="y"))
    written = re.findall(r'text-anchor="end">([^<]*)<', svg)
    assert "0" not in written
    assert "1e−16" in written
    straight = scatter(
        Scatter([Series("a", [(0.1, 0.0), (0.3, 0.2)])], "x", "y", "t")
    )  # 0.1 + 0.2 - 0.3 is none
    assert "0" in re.findall(r'text-anchor="end">([^<]*)<', straight)


def test_small_curves_have_the_ends_of_both_axes() -> None:
    """The least and the most value stand level with their points, left of each row; 0 and 100 % below."""
    drawn = [BandCurve(name, [(0.0, 2.0), (0.5, -1.5), (1.0, 0.25)]) for name in "abcde"]
    root = ET.fromstring(band_curves(BandCurves(drawn, "x", "y", "five", columns=4)))
    ends = [e for e in root.iter("text") if e.attrib.get("class") == "end"]
    said = [e.text for e in ends]
    assert said.count("0 %") == said.count("100 %") == 5
    assert said.count("2") == said.count("−1.5") == 2  # two rows
    middle = {e.text: float(e.attrib["y"]) - 4 for e in ends[:4]}
    points = [float(c.attrib["cy"]) for c in root.iter("circle")]
    assert middle["2"] == pytest.approx(points[0], abs=0.2)
    assert middle["−1.5"] == pytest.approx(points[1], abs=0.2)
    assert min(float(e.attrib["x"]) for e in ends) > 30
