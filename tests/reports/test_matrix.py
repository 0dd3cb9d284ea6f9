"""Maps with names: one cell per number, its strength the number, outlines where asked, names escaped."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from heedful.core.charts import Matrices, Matrix
from heedful.reports.charts.export_svg import standalone
from heedful.reports.charts.matrix import CELL, matrices


def test_cells_names_and_outlines() -> None:
    one = Matrix("a", [[0.0, 0.5, 1.0], [2.0, -1.0, 0.25]], ["x<y", "zz"], ["p", "q", "r & s"], [(1, 2)])
    svg = matrices(Matrices([one, Matrix("b", [[1.0]], ["u"], ["v"])], "two maps"))
    assert re.findall(r'cell pos"[^>]*fill-opacity="([\d.]+)"', svg) == [
        "0.000",
        "0.500",
        "1.000",
        "1.000",
        "0.000",
        "0.250",
        "1.000",
    ]
    assert svg.count('class="path s1"') == 1
    cells = re.findall(r'class="(cell pos|path s1)" x="([\d.]+)" y="([\d.]+)"', svg)
    assert cells[6][1:] == cells[5][1:], "the outline is that of row 1, column 2"
    assert float(cells[5][1]) - float(cells[3][1]) == 2 * CELL
    assert "x&lt;y" in svg
    root = ElementTree.fromstring(standalone(svg))
    texts = [node.text for node in root.iter() if node.tag.endswith("text")]
    assert texts == ["a", "p", "q", "r & s", "x<y", "zz", "b", "v", "u"]


def test_everything_is_inside_the_picture() -> None:
    names = ["a long name", "b"]
    svg = matrices(Matrices([Matrix("m", [[1.0, 0.0], [0.0, 1.0]], names, names)] * 3, "three", across=2))
    width, height = map(float, re.findall(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg)[0])
    for x, y in re.findall(r'<rect [^>]*?x="([\d.]+)" y="([\d.]+)"', svg):
        assert 0 <= float(x) <= width - CELL
        assert 0 <= float(y) <= height - CELL
    turned = re.findall(r'translate\(([\d.]+) ([\d.]+)\) rotate\(-55\)">([^<]+)<', svg)
    for x, y, name in turned:  # 6.6 a letter, 55 degrees up
        assert float(x) + 6.6 * len(name) * 0.57 <= width
        assert float(y) - 6.6 * len(name) * 0.82 >= 14, "below the map's name"
