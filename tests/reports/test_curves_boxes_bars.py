"""Charts put every number where it belongs: coordinates are read back out of the SVG."""

from __future__ import annotations

import math
import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from heedful.core.charts import BarGroup, Bars, Box, Boxes, Curve, Curves
from heedful.reports.charts.curves_boxes_bars import bars, boxes, curves


def attributes(svg: str, kind: str) -> list[dict[str, str]]:
    root = ElementTree.fromstring(svg)
    return [dict(e.attrib) for e in root.iter() if kind in e.attrib.get("class", "").split()]


def path(svg: str, kind: str) -> list[tuple[float, float]]:
    (found,) = attributes(svg, kind)
    return [(float(a), float(b)) for a, b in (pair.split(",") for pair in found["points"].split())]


def test_a_curve_is_straight_where_its_numbers_are() -> None:
    svg = curves(Curves([Curve("a", [(1.0, 2.0), (2.0, 4.0), (4.0, 8.0)])], "x", "y", "title"))
    (x0, y0), (x1, y1), (x2, y2) = path(svg, "path")
    assert (x2 - x1) == pytest.approx(2 * (x1 - x0), abs=0.2)
    assert (y1 - y2) == pytest.approx(2 * (y0 - y1), abs=0.2)
    assert y2 < y1 < y0  # up is more


def test_logarithmic_axes_space_decades_evenly() -> None:
    svg = curves(
        Curves([Curve("a", [(1.0, 10.0), (10.0, 1.0), (100.0, 0.1), (-1.0, 3.0)])], "x", "y", "t", log="xy")
    )
    points = path(svg, "path")
    assert len(points) == 3  # what has no logarithm is left out
    steps = [b[0] - a[0] for a, b in pairwise(points)]
    assert steps[0] == pytest.approx(steps[1], abs=0.2)
    assert ">100<" in svg
    assert ">0.1<" in svg


def labels(svg: str) -> dict[str, tuple[float, float]]:
    """Names at the ends of lines, and where they are."""
    root = ElementTree.fromstring(svg)
    found = [e for e in root.iter() if e.attrib.get("class") == "end"]
    return {e.text or "": (float(e.attrib["x"]), float(e.attrib["y"])) for e in found}


def test_lines_have_their_names_at_their_ends_and_no_legend() -> None:
    values = {"low": 1.0, "top": 9.0, "mid": 5.0}
    series = [Curve(name, [(0.0, 0.0), (4.0, end)]) for name, end in values.items()]
    svg = curves(Curves(series, "x", "y", "t"))
    found = labels(svg)
    assert sorted(found, key=lambda name: found[name][1]) == ["top", "mid", "low"]
    lines = [e["points"].split()[-1].split(",") for e in attributes(svg, "path")]
    for (_, y), name in zip(lines, ("low", "top", "mid"), strict=True):
        assert abs(float(y) + 4 - found[name][1]) < 0.2  # as high as the line ends
    right = max(float(x) for x, _ in lines)
    assert all(x > right for x, _ in found.values())
    assert all(x + 6.4 * len(name) <= 680 for name, (x, _) in found.items())


def test_names_at_the_ends_never_overlap_and_stay_inside() -> None:
    series = [Curve(f"line {n}", [(0.0, 0.0), (1.0, 1e-6 * n)]) for n in range(6)] + [
        Curve("up", [(0.0, 0.0), (1.0, 9.0)])
    ]
    heights = sorted(y for _, y in labels(curves(Curves(series, "x", "y", "t"))).values())
    assert len(heights) == 7
    assert all(b - a >= 14.9 for a, b in pairwise(heights))
    assert heights[0] >= 14
    assert heights[-1] <= 304.1


def test_long_or_many_names_are_in_a_legend_and_one_line_needs_none() -> None:
    def drawn(names: list[str]) -> str:
        return curves(Curves([Curve(name, [(0.0, 0.0), (1.0, 1.0)]) for name in names], "x", "y", "t"))

    long = "a name of more than twenty-six letters"
    assert not labels(drawn([long, "b"]))
    assert long in drawn([long, "b"])
    assert not labels(drawn([str(n) for n in range(9)]))
    assert "only" not in drawn(["only"])


def test_a_band_runs_from_low_to_high() -> None:
    svg = curves(
        Curves([Curve("a", [(0.0, 1.0), (1.0, 2.0)], low=[0.0, 1.0], high=[2.0, 3.0])], "x", "y", "t")
    )
    line, band = path(svg, "path"), path(svg, "spread")
    assert len(band) == 4
    assert band[0][1] + band[3][1] == pytest.approx(2 * line[0][1], abs=0.2)
    assert band[1][1] + band[2][1] == pytest.approx(2 * line[1][1], abs=0.2)
    assert band[0][1] < line[0][1] < band[3][1]


def test_a_box_has_its_quartiles_and_marks() -> None:
    values = [0.0, 1.0, 2.0, 3.0, 4.0, 100.0]
    svg = boxes(Boxes([Box("a", values, [2.5, math.nan])], "up", "t", marks=["theory", "other"]))
    (box,), (median,), (whisker,) = (attributes(svg, kind) for kind in ("box", "median", "bar"))
    grid = {float(e["y1"]) for e in attributes(svg, "zero")}
    zero = grid.pop()
    unit = (zero - float(median["y1"])) / 2.5  # the median of the six
    assert zero - float(box["y"]) == pytest.approx(3.75 * unit, abs=0.15)
    assert float(box["height"]) == pytest.approx(2.5 * unit, abs=0.15)
    assert zero - float(whisker["y2"]) == pytest.approx(4.0 * unit, abs=0.15)  # 100 lies beyond the whisker
    marked = [e for e in attributes(svg, "s1") if "points" in e]
    assert len(marked) == 2  # the theory and its legend; what is not a number is left out
    assert "theory" in svg


def test_bars_start_at_zero_and_carry_intervals() -> None:
    svg = bars(Bars([BarGroup("up", [2.0, -1.0], [1.0, -2.0], [3.0, 0.0])], ["one", "two"], "y", "t"))
    zero = float(attributes(svg, "zero")[0]["y1"])
    first, second = ((float(e["y"]), float(e["height"])) for e in attributes(svg, "mark") if "height" in e)
    assert first[0] + first[1] == pytest.approx(zero, abs=0.15)
    assert second[0] == pytest.approx(zero, abs=0.15)
    assert first[1] == pytest.approx(2 * second[1], abs=0.2)
    ends = [(float(e["y1"]), float(e["y2"])) for e in attributes(svg, "whisker")]
    assert zero - ends[0][0] == pytest.approx(first[1] / 2, abs=0.15)
    assert ends[1][1] == pytest.approx(zero, abs=0.15)


def test_long_names_are_slanted_and_escaped() -> None:
    many = [Box(f"a rather long name <{n}>", [1.0, 2.0]) for n in range(12)]
    turned = 'class="name" [^>]*rotate'
    assert len(re.findall(turned, boxes(Boxes(many, "y", "t")))) == 12
    assert "<0>" not in boxes(Boxes(many, "y", "t"))
    assert not re.findall(turned, boxes(Boxes(many[:1], "y", "t")))


@pytest.mark.parametrize("length", [10, 20, 40])
def test_no_name_begins_outside_the_picture(length: int) -> None:
    svg = boxes(Boxes([Box("m" * length, [1.0, 2.0]) for _ in range(12)], "y", "t"))
    for slant, x in re.findall(r'class="name" [^>]*rotate\(-(\d+) ([\d.]+)', svg):
        assert float(x) - 7 * length * math.cos(math.radians(float(slant))) > -1e-6
