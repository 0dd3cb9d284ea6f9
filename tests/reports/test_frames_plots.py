"""`to_frame` and `plot`: the numbers of the result, titles and directions on every axis, no side effects."""

from __future__ import annotations

import io
import math
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from tests.reports import every
from tests.reports.conftest import compare

from heedful.core.errors import HeedfulError
from heedful.core.lab_report import LabReport, NumberTable
from heedful.heads.ablation.importance_results import Drop, Importance, Unit

PLOTTED: dict[str, Callable[[], Any]] = {
    "attribution": lambda: every.explanation()["lime"],
    "comparison": every.explanation,
    "audit": every.audit,
    "trial": every.trial,
}


def importance() -> Importance:
    drops = {"loss": Drop(0.1, (0.05, 0.2), (0.06, 0.15), 0.01)}
    units = (Unit("0.0", "self", 0, 0, drops, 0.1, 0.2), Unit("0.1", "self", 0, 1, drops, None, None))
    return Importance(
        *("m", "classifier", "zero", "head", "loss", ("loss",), "labels", 9, 3, 0),
        base={"loss": 0.5},
        chance={"loss": 0.7},
        units=units,
        references=(),
    )


def test_the_frame_of_an_attribution_has_its_words_in_order() -> None:
    item = compare("good food good")["lime"]
    frame = item.to_frame()
    assert list(frame.columns[:4]) == ["method", "part", "index", "text"]
    assert list(frame["text"]) == [word.text for word in item.words()]
    assert list(frame["score"]) == [word.score for word in item.words()]
    assert list(frame["index"]) == [0, 1, 2]
    assert set(frame["part"]) == {"text"}
    assert len(item.to_frame("token")) == len(item.units("token"))


def test_the_frame_of_a_comparison_is_long() -> None:
    comparison = compare("good food")
    frame = comparison.to_frame()
    assert len(frame) == sum(len(item.words()) for item in comparison.values())
    assert list(dict.fromkeys(frame["method"])) == list(comparison)
    wide = frame.pivot(index="index", columns="method", values="score")
    for method, item in comparison.items():
        assert np.allclose(wide[method], [word.score for word in item.words()], equal_nan=True)
    without = [item.method for item in comparison.values() if item.stderr is None]
    assert frame[frame["method"].isin(without)]["stderr"].isna().all()


def test_the_frame_of_an_audit_is_its_evidence() -> None:
    audit = every.audit()
    frame = audit.to_frame()
    assert list(frame.columns) == audit.to_csv().splitlines()[0].split(",")
    assert list(frame["skill"]) == [e.skill for e in audit.table]
    assert list(zip(frame["low"], frame["high"], strict=True)) == [e.interval for e in audit.table]


def test_the_frame_of_a_trial_has_a_row_per_finding() -> None:
    trial = every.trial()
    frame = trial.to_frame()
    assert list(frame["what"]) == [row.what for row in trial.findings]
    assert list(frame["value"]) == [row.value for row in trial.findings]
    assert list(frame["extra"]) == [dict(row.extra) for row in trial.findings]


def test_the_frame_of_head_importance_is_its_table() -> None:
    frame = importance().to_frame()
    assert list(frame["name"]) == ["0.0", "0.1"]
    assert list(frame["loss drop"]) == [0.1, 0.1]


def test_a_lab_gives_its_claims_and_its_tables_by_title() -> None:
    report = every.lab()
    claims = report.to_frame()
    assert list(claims["holds"]) == [True, False]
    assert list(claims["low"]) == [0.2, 0.5]  # an exact value has no width
    assert math.isnan(claims["against"][1])
    table = NumberTable("same", ("a", "b"), ((1, 2.5),))
    named = LabReport("toy", "t", "c", (table, replace(table, rows=((3, 4.5),)))).to_frames()
    assert list(named) == ["same", "same (2)"]
    assert named["same (2)"]["b"].tolist() == [4.5]


@pytest.mark.filterwarnings("ignore:Glyph")  # this machine's fonts have no emoji
@pytest.mark.parametrize("kind", PLOTTED)
def test_a_plot_says_what_its_axes_are_and_touches_nothing(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import matplotlib.pyplot as plt

    monkeypatch.setattr(plt, "show", lambda *a, **k: pytest.fail("plots are never shown"))
    before = dict(mpl.rcParams)
    figure = PLOTTED[kind]().plot()
    assert dict(mpl.rcParams) == before
    assert plt.get_fignums() == []
    for axes in figure.axes:
        assert axes.get_xlabel()
        assert axes.get_title(loc="left")
    assert figure._repr_png_().startswith(b"\x89PNG")  # markup, Hebrew and emoji are only text
    if kind != "trial":  # whose control has a name of 100 characters here
        words = [figure._suptitle, *(text for box in figure.legends for text in (box, box.get_title()))]
        for text in filter(None, words):
            box = text.get_window_extent()
            assert box.x0 >= 0, "nothing is cut"
            assert box.x1 <= figure.bbox.x1


def test_bars_are_the_scores_with_their_direction() -> None:
    item = compare("good food is not bad")["lime"]
    (axes,) = item.plot().axes
    assert [bar.get_width() for bar in axes.patches] == [word.score for word in item.words()]
    colours = {math.copysign(1, bar.get_width()): bar.get_facecolor() for bar in axes.patches}
    assert len(set(colours.values())) == len(colours)
    assert "towards" in axes.get_xlabel()
    assert "3 strongest of 5 words" in item.plot(top=3).axes[0].get_title(loc="left")
    unsigned = compare("good food")["grad-l2"].plot().axes[0]
    assert "towards" not in unsigned.get_xlabel()


def test_words_and_methods_are_the_sides_of_the_comparison() -> None:
    comparison = compare("good food is not bad")
    (axes,) = comparison.plot().axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["good", "food", "is", "not", "bad"]
    assert len(axes.get_yticklabels()) == len(comparison)
    assert len(comparison.plot(top=2).axes[0].get_xticklabels()) == 2


def test_an_audit_has_its_random_line_and_its_intervals() -> None:
    audit = every.audit()
    (axes,) = audit.plot().axes
    lines = [tuple(map(float, line.get_xdata())) for line in axes.lines]
    assert (0.0, 0.0) in lines
    assert [audit.table[0].interval] * 2 == [line for line in lines if line == audit.table[0].interval]
    with pytest.raises(HeedfulError, match="no skill by nonsense"):
        audit.plot(metrics=["nonsense"])


def test_a_trial_shows_value_interval_and_control() -> None:
    trial = every.trial()
    (axes,) = trial.plot().axes
    points = {float(line.get_xdata()[0]) for line in axes.lines if len(line.get_xdata()) == 1}
    assert points == {0.3, 0.2}
    with pytest.raises(HeedfulError, match="no result of frozen"):
        trial.plot(tests=["frozen"])


def test_figures_are_saved_as_any_matplotlib_figure() -> None:
    out = io.BytesIO()
    compare("good food").plot().savefig(out, format="svg")
    assert b"<svg" in out.getvalue()


@pytest.mark.parametrize(
    ("package", "extra", "call"),
    [
        ("pandas", "frames", lambda: compare("good food").to_frame()),
        ("pandas", "frames", lambda: every.lab().to_frames()),
        ("matplotlib", "plots", lambda: compare("good food").plot()),
    ],
    ids=["to_frame", "to_frames", "plot"],
)
def test_a_missing_package_is_one_clear_line(
    package: str, extra: str, call: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(HeedfulError, match=rf"needs {package}.*pip install 'heedful\[{extra}\]'"):
        call()
