"""The frame of the labs: what a claim must have, what a report says, what is written where."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import heedful
from heedful.core.charts import Arrows, Forest, Heat, Line, Panel
from heedful.core.errors import HeedfulError
from heedful.core.lab_report import Claim, LabReport
from heedful.core.progress import Step
from heedful.labs.base import registry
from heedful.labs.base.registry import LabRun, lab, labs, run_lab
from heedful.reports import lab as lab_view
from heedful.reports.charts.draw import svg
from heedful.reports.charts.export_svg import standalone
from heedful.reports.terminal import as_text

DOT = Forest([Line("one", 1.0)], "unit", "title")
EVIL = '<script>alert("x")</script>'


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two labs that are not in the package: one whose claims hold, one with a false claim."""
    monkeypatch.setattr(registry, "_works", dict(registry._works))

    @lab("honest", title="An honest lab", minutes=0.1, cite="Nobody 2026")
    def honest(run: LabRun) -> None:
        rng = np.random.default_rng(run.seed)
        values = rng.normal(1.0, 0.1, 10 if run.fast else 1000)
        run.progress(1, 2, "drawing")
        run.say(f"A sentence with {EVIL}.")
        run.table("Draws", ["draw", "value"], [[f"{EVIL} first", values[0]], ["count", len(values)]])
        run.figure("draws", Forest([Line(EVIL, 1.0)], "unit", "title"), f"caption {EVIL}")
        mean, error = values.mean(), 2 * values.std() / math.sqrt(len(values))
        span, holds = (mean - error, mean + error), bool(mean > error)
        run.claim(
            "The mean is above zero.", value=mean, interval=span, holds=holds, against=0, control="chance"
        )
        run.claim("Two and two is four.", value=4, exact=True, holds=True)

    @lab("liar", title="A lab with a false claim", minutes=0.1, cite="Nobody 2026")
    def liar(run: LabRun) -> None:
        run.claim("Two and two is four.", value=4, exact=True, holds=True)
        run.claim("Two and two is five.", value=4, exact=True, holds=False, against=5)


def test_listing_labs_imports_no_torch() -> None:
    code = (
        "import sys; from heedful.labs.base.registry import labs; found = labs()\n"
        "assert all(each.title and each.cite and each.minutes > 0 for each in found.values())\n"
        "heavy = {'torch', 'transformers', 'scipy'} & set(sys.modules); sys.exit(', '.join(heavy) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_what_the_source_says_is_what_is_registered() -> None:
    """The list is read from the source; importing the module must agree with it."""
    for name, read in labs().items():
        registered, work = registry._work(name)
        assert registered == read
        assert work.__module__ == read.module


def test_an_unknown_lab_is_a_mistake_with_a_hint(planted: None) -> None:
    with pytest.raises(HeedfulError, match=r"no lab 'honset'.*Did you mean 'honest'"):
        run_lab("honset")


def test_a_name_has_one_lab(planted: None) -> None:
    def other(run: LabRun) -> None: ...

    other.__module__ = "elsewhere"
    with pytest.raises(ValueError, match="two labs"):
        lab("honest", title="", minutes=1.0, cite="")(other)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"value": 1.0, "holds": True}, "has an interval, or is exact"),
        (
            {"value": 1.0, "holds": True, "interval": (0.0, 2.0), "exact": True},
            "has an interval, or is exact",
        ),
        ({"value": 3.0, "holds": True, "interval": (0.0, 2.0)}, "not in a finite"),
        ({"value": 1.0, "holds": True, "interval": (2.0, 0.0)}, "not in a finite"),
        ({"value": 1.0, "holds": True, "interval": (-math.inf, math.inf)}, "not in a finite"),
        ({"value": 1.0, "holds": True, "interval": (math.nan, 2.0)}, "not in a finite"),
        ({"value": math.nan, "holds": True, "exact": True}, "not finite"),
        ({"value": 1.0, "holds": True, "exact": True, "against": math.inf}, "not finite"),
    ],
)
def test_a_claim_without_an_interval_is_refused(given: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        LabRun().claim("A sentence.", **given)


def test_an_empty_sentence_is_no_claim() -> None:
    with pytest.raises(ValueError, match="is a sentence"):
        LabRun().claim(" ", value=1.0, exact=True, holds=True)


def test_a_row_as_long_as_its_columns() -> None:
    with pytest.raises(ValueError, match="has 2 columns"):
        LabRun().table("T", ["a", "b"], [[1, 2], [1, 2, 3]])


@pytest.mark.parametrize("name", ["../up", "Name", "", "draws"])
def test_a_figure_has_a_name_of_its_own(name: str) -> None:
    run = LabRun()
    run.figure("draws", DOT, "first")
    with pytest.raises(ValueError, match="a figure's name"):
        run.figure(name, DOT, "second")


def test_a_lab_that_claims_nothing_is_no_lab(planted: None) -> None:
    lab("idle", title="Idle", minutes=1.0, cite="Nobody")(lambda run: run.say("nothing"))
    with pytest.raises(ValueError, match="claims nothing"):
        run_lab("idle")


def test_a_report_keeps_what_was_told(planted: None) -> None:
    told: list[Step] = []
    report = heedful.run_lab("honest", fast=True, seed=3, progress=told.append)
    assert told == [Step("drawing", done=1, total=2)]
    assert report.holds
    assert report.answer == "All 2 claims hold."
    drawn = np.random.default_rng(3).normal(1.0, 0.1, 10)
    assert report.tables[0].rows[0][1] == drawn[0]  # every digit
    assert report.claims[0].value == drawn.mean()
    assert report.claims[0].against == 0.0
    assert [claim.exact for claim in report.claims] == [False, True]
    assert (report.settings["fast"], report.settings["seed"]) == (True, 3)
    assert run_lab("honest", seed=3).claims[0].value != drawn.mean()  # not fast: more draws


def test_one_false_claim_fails_the_report(planted: None) -> None:
    report = run_lab("liar")
    assert not report.holds
    assert report.answer == "1 of 2 claims failed."
    assert "✗ Two and two is five.  4 exactly; control: 5" in str(report)
    assert "✓ Two and two is four.  4 exactly" in str(report)
    assert report.page().count("mark-failed") == 2  # the rule and the claim


def test_saved_and_opened_again(planted: None, tmp_path: Path) -> None:
    report = run_lab("honest", fast=True, out=tmp_path / "lab")
    again = LabReport.load(tmp_path / "lab")
    assert again.parts == report.parts
    assert again.to_dict() == report.to_dict()
    data = json.loads((tmp_path / "lab" / "result.json").read_text())
    assert data["holds"] is True
    assert [claim["sentence"] for claim in data["claims"]] == [claim.sentence for claim in report.claims]
    assert (tmp_path / "lab" / "report.html").read_text() == report.page()
    assert (tmp_path / "lab" / "draws.svg").read_text() == standalone(svg(report.figures[0].chart))


def test_a_folder_without_a_lab_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(HeedfulError, match="is not a run folder"):
        LabReport.load(tmp_path)
    (tmp_path / "manifest.json").write_text('{"kind": "lab"}')
    with pytest.raises(HeedfulError, match="names no format"):
        LabReport.load(tmp_path)


class Reader(HTMLParser):
    """Text and tags of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_runs_nothing_and_shows_what_was_told(planted: None) -> None:
    report = run_lab("honest", fast=True)
    for html in (report.page(), report._repr_html_()):
        reader = Reader()
        reader.feed(html)
        assert reader.tags.count("script") == 1  # the house's own, for charts
        assert EVIL not in html
        assert reader.text.count(EVIL) >= 4  # sentence, table, label in the figure, caption
        assert "The mean is above zero." in reader.text
        assert "An honest lab" in reader.text
    assert "script-src 'sha256-" in report.page()
    assert "heedful lab run honest --fast --seed 0" in report.page()


def test_numbers_as_they_are_read() -> None:
    shown = lab_view.shown
    assert [shown(v) for v in (0.123456, -1.5, 12345, 12345.6, None, "x", 2)] == [
        "0.123",
        "−1.5",
        "12,345",
        "12,346",
        "–",
        "x",
        "2",
    ]
    claim = Claim("s", 0.5, True, (0.4, 0.6), 0.1, "chance")
    assert lab_view.number(claim) == "0.5 (0.4 to 0.6); chance: 0.1"


# --- images ----------------------------------------------------------------------------------------


def numbers(drawn: str, tag: str, *names: str) -> list[tuple[float, ...]]:
    root = ElementTree.fromstring(drawn)
    return [tuple(float(e.attrib[n]) for n in names) for e in root.iter() if e.tag.split("}")[-1] == tag]


def test_arrows_point_where_the_vectors_do() -> None:
    vectors = [(1.0, 0.0), (0.0, 2.0), (-0.5, -0.5)]
    drawn = svg(Arrows([Panel("a", vectors), Panel("b <", [(0.0, 1.0)], "note")], "title"))
    lines = re.findall(r'<line class="bar"[^>]*>', drawn)
    ends = [numbers(line, "line", "x1", "y1", "x2", "y2")[0] for line in lines]
    moved = [((c - a), (b - d)) for a, b, c, d in ends]  # right, up
    unit = moved[0][0]
    assert unit > 20
    for (right, up), (x, y) in zip(moved, [*vectors, (0.0, 1.0)], strict=True):
        assert (right, up) == pytest.approx((unit * x, unit * y), abs=0.11)  # one scale for both panels
    assert "b &lt;" in drawn


def test_heat_shows_sign_and_size() -> None:
    drawn = svg(Heat([Panel("a", [[1.0, -0.5], [0.0, 2.0]]), Panel("b", [[-2.0]])], "title"))
    cells = re.findall(r'class="cell (pos|neg)".*?fill-opacity="([\d.]+)"', drawn)
    assert cells == [("pos", "0.500"), ("neg", "0.250"), ("pos", "0.000"), ("pos", "1.000"), ("neg", "1.000")]
    places = numbers(drawn, "rect", "x", "y")[1:5]  # after the frame, row by row
    assert places[0][1] == places[1][1] < places[2][1]
    assert places[0][0] == places[2][0] < places[1][0]


def test_panels_wrap_after_so_many_columns() -> None:
    frames = re.findall(
        r'class="frame" x="([\d.]+)" y="([\d.]+)"', svg(Heat([Panel("", [[1.0]])] * 5, "t", 3))
    )
    assert len({x for x, _ in frames}) == 3
    assert len({y for _, y in frames}) == 2


def test_an_image_stands_alone() -> None:
    text = standalone(svg(Heat([Panel("a", [[1.0, -1.0]])], "a title")))
    root = ElementTree.fromstring(text)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert "var(" not in text
    assert "light-dark" not in text
    style = next(e.text or "" for e in root.iter() if e.tag.endswith("style"))
    assert re.search(r"\.cell\.pos\{fill: #\w+", style)
    assert re.search(r"\.path\.s1\{stroke: #\w+", style)  # the second rule of a line
    with pytest.raises(ValueError, match="one <svg>"):
        standalone("<p>no image</p>")


@pytest.mark.parametrize("width", [60, 80])
def test_a_narrow_table_keeps_every_heading_and_every_name(width: int) -> None:
    methods = ("attention-avg", "attention-max", "lime", "grad-avg", "grad-l1", "grad-l2", "grad-x-input")
    rows = [(name, *(float(10 * i + j) for j in range(7))) for i, name in enumerate(methods)]
    run = LabRun()
    run.table("Kendall's tau", ["", *methods], [list(row) for row in rows])
    report = LabReport("narrow", "Narrow", "Nobody 2026", tuple(run.parts))
    said = as_text(report.document(), width)
    assert max(map(len, said.splitlines())) <= width
    assert "…" not in said
    grid = said.split("Kendall's tau\n")[1]
    for name in methods:
        assert any(line.startswith(f"{name} ") for line in grid.splitlines())
    heads = [line for line in grid.splitlines() if not line[:1].strip()]  # the first column has no heading
    told = " ".join(heads).split()
    assert told.count("attention-") == 2  # broken after the hyphen
    assert {"avg", "max", "lime", "l1", "l2"} <= set(told)
    seen = [number for line in grid.splitlines() if line[:1].strip() for number in line.split()[1:8]]
    assert {f"{10 * i + j}" for i in range(7) for j in range(7)} <= set(seen)


def test_a_lab_answers_first_then_says_its_title() -> None:
    report = LabReport("narrow", "A narrow lab", "Nobody 2026", tuple(LabRun().parts))
    first, second, *_ = as_text(report.document()).splitlines()
    assert first.startswith(report.answer)
    assert "A narrow lab" not in first
    assert second == "A narrow lab"
