"""Results as matplotlib figures, for papers and notebooks.

    Attribution   a bar per word, or the shaded picture
    Comparison    words × methods, shaded, or the picture by every method
    Audit         skill of every method with its interval, and the line of random orders
    Trial         every finding with its interval and its control

Every function returns a `Plot`, a matplotlib Figure. Nothing is shown and no global state of matplotlib is
touched. `figure.savefig("x.png")` writes it, and a notebook draws it as the last value of a cell.
"""

from __future__ import annotations

import io
import math
import textwrap
import warnings
from collections.abc import Sequence
from functools import singledispatch
from typing import TYPE_CHECKING, Any

import matplotlib
import matplotlib.font_manager
import numpy as np
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure as MplFigure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from heedful.audits.result import Audit
from heedful.comparisons.result import Comparison, ranked_unit
from heedful.core.attribution import Attribution, UnitScore
from heedful.core.defaults import CONTROL
from heedful.core.errors import HeedfulError
from heedful.core.evidence import Evidence
from heedful.core.target import Target
from heedful.modalities.image import ImageInput
from heedful.reports.columns import ScoreColumn, column, columns
from heedful.reports.picture_plots import shade_axes
from heedful.reports.picture_svg import COLOURS
from heedful.reports.visible import visible
from heedful.stats.intervals import NORMAL_QUANTILE
from heedful.trials.result import Trial
from heedful.trials.rows import TrialRow

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FONTS = ("DejaVu Sans", "Noto Sans CJK SC", "Noto Sans Hebrew", "Noto Sans Arabic", "Arial Unicode MS")
TOWARDS, AWAY, UNSIGNED, SOFT = "#5b9bd9", "#ec9a4a", "#ab9fd6", "#5c6670"
DARK = "#14528f"
MARKERS = ("o", "s", "^", "D", "v", "P")
LINE_COLOURS = ("#14528f", "#9a4a00", "#6a5aa8", "#1b7a4b", "#8a1c4a", "#5c6670")
MAX_WORDS = 40  # columns of the words × methods figure
MAX_LABEL = 24  # characters of a word
MAX_NAME = 48  # characters of a method, a metric or a finding
MAX_TITLE = 300  # characters
LETTERS_PER_INCH = 9.5


class Plot(MplFigure):
    """A figure that a notebook draws whichever backend is chosen."""

    def _repr_png_(self) -> bytes:
        out = io.BytesIO()
        with warnings.catch_warnings():
            warnings.filterwarnings(
                "ignore", "Glyph .* missing from font", UserWarning
            )  # a box stands for it
            self.savefig(out, format="png", dpi=110)
        return out.getvalue()


def plot(result: object, **options: Any) -> Plot:
    """The figure of a result."""
    known = set(matplotlib.font_manager.get_font_names())
    style: Any = {  # matplotlib types the names of its settings
        "font.family": [font for font in FONTS if font in known],
        "font.size": 10,
        "axes.titlesize": 11,
        "axes.titlelocation": "left",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "text.parse_math": False,  # a token "$x$" is no formula
        "figure.facecolor": "white",
    }
    with matplotlib.rc_context(style):
        return drawn(result, **options)


@singledispatch
def drawn(result: object, **options: Any) -> Plot:
    raise HeedfulError(f"there is no plot for {type(result).__name__}")


# --- one method ----------------------------------------------------------------------------------------


@drawn.register
def _attribution(result: Attribution, unit: str = "", top: int = 20) -> Plot:
    """Bars in reading order; of a long text the `top` strongest words. A picture is shaded."""
    unit = unit or result.own_unit
    if isinstance(result.x, ImageInput):
        return _shaded([column(result, unit)], result.x, unit, result.target)
    words = [each for each in result.units(unit) if math.isfinite(each.score)]
    kept = sorted(sorted(words, key=lambda each: -abs(each.score))[:top], key=lambda each: each.start)
    figure = Plot(figsize=(6.4, 1.4 + 0.28 * max(len(kept), 1)), layout="constrained")
    axes = figure.subplots()
    scores = [each.score if result.signed else abs(each.score) for each in kept]
    colours = [UNSIGNED if not result.signed else TOWARDS if s >= 0 else AWAY for s in scores]
    errors = [0.0 if each.stderr is None else NORMAL_QUANTILE * each.stderr for each in kept]
    bars: dict[str, Any] = {"xerr": errors, "ecolor": SOFT} if result.stderr is not None else {}
    axes.barh(range(len(kept)), scores, color=colours, height=0.7, **bars)
    axes.set_yticks(range(len(kept)), [_label(each.text) for each in kept])
    axes.invert_yaxis()
    axes.axvline(0, color=SOFT, linewidth=0.8)
    goal, error = _goal(result.target), "; line: 95 % interval" if result.stderr is not None else ""
    if result.signed:
        axes.set_xlabel(f"score, in units of the output (← away from {goal}, → towards it{error})")
    else:
        axes.set_xlabel(f"size of the score (larger: more important; no sign{error})")
    of = f", {len(kept)} strongest of {len(words)} {unit}s" if len(kept) < len(words) else ""
    axes.set_title(f"{result.method or 'scores'}: {unit}s for {goal}{of}")
    return figure


def _goal(target: Target) -> str:
    return f"“{_label(target.name)}”"


def _label(text: str, most: int = MAX_LABEL) -> str:
    shown = visible(text.strip()) or "␣"
    return shown if len(shown) <= most else shown[: most - 1] + "…"


def _name(text: str) -> str:
    return _label(text, MAX_NAME)


def _wrapped(figure: Plot, text: str) -> str:
    """In lines that fit the figure."""
    return textwrap.fill(text, int(figure.get_figwidth() * LETTERS_PER_INCH))


def _headline(figure: Plot, text: str) -> None:
    """Above all panels."""
    figure.suptitle(_wrapped(figure, _label(text, MAX_TITLE)), x=0.01, ha="left", fontsize=11)


# --- several methods -----------------------------------------------------------------------------------


@drawn.register
def _comparison(result: Comparison, top: int = MAX_WORDS) -> Plot:
    """Methods from top to bottom, words in reading order; each method on its own scale."""
    methods = columns(result)
    if not methods:
        raise HeedfulError("there is nothing to plot", "the comparison has no method")
    if isinstance(result.x, ImageInput):
        return _shaded(methods, result.x, ranked_unit(result), result.target)
    kept = _strongest(methods, top)
    words = [methods[0].words[i] for i in kept]
    figure = Plot(figsize=(max(6.4, 2.6 + 0.42 * len(kept)), 2.4 + 0.32 * len(methods)), layout="constrained")
    axes = figure.subplots()
    axes.imshow([[_shade(col, col.words[i]) for i in kept] for col in methods], aspect="auto")
    axes.set_xticks(range(len(kept)), [_label(word.text) for word in words], rotation=45, ha="right")
    axes.set_yticks(range(len(methods)), [col.label + ("" if col.top else " (all 0)") for col in methods])
    axes.set_xticks(np.arange(len(kept) + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(len(methods) + 1) - 0.5, minor=True)
    axes.grid(which="minor", color="white", linewidth=1.5)
    axes.tick_params(which="both", length=0)
    for side in axes.spines.values():
        side.set_visible(False)
    unit, every, goal = ranked_unit(result), len(methods[0].words), _goal(result.target)
    of = f"{len(kept)} strongest of {every} {unit}s" if len(kept) < every else f"all {every} {unit}s"
    axes.set_xlabel(f"{unit}s in reading order ({of})")
    axes.set_title(f"Which {unit}s each method holds responsible for {goal}")
    marks = [Patch(color=TOWARDS, label=f"towards {goal}"), Patch(color=AWAY, label=f"away from {goal}")]
    if not all(col.item.signed for col in methods):
        marks.append(Patch(color=UNSIGNED, label="size only, no sign"))
    title = "full colour: the method's own largest score"
    figure.legend(handles=marks, loc="outside lower center", ncols=3, frameon=False, title=title)
    return figure


def _shaded(methods: Sequence[ScoreColumn], x: ImageInput, unit: str, target: Target) -> Plot:
    """The picture by each method, at most four in a row."""
    across = min(4, len(methods))
    down = -(-len(methods) // across)
    figure = Plot(figsize=(max(4.2, 2.6 * across), 2.9 * down + 0.9), layout="constrained")
    every = figure.subplots(down, across, squeeze=False).ravel()
    for axes in every:
        axes.set_axis_off()
    for axes, col in zip(every, methods, strict=False):
        shade_axes(axes, col, x, unit)
        axes.set_title(col.label)
    goal = _goal(target)
    marks = [Patch(color=COLOURS["pos"], label=f"towards {goal}")]
    marks.append(Patch(facecolor=COLOURS["neg"], hatch="////", label=f"away from {goal}"))
    if not all(col.item.signed for col in methods):
        marks.append(Patch(color=COLOURS["any"], label="size only, no sign"))
    title = f"full colour: the method's own strongest {x.unit_noun(unit)}"
    figure.legend(handles=marks, loc="outside lower center", ncols=across, frameon=False, title=title)
    return figure


def _strongest(methods: Sequence[ScoreColumn], top: int) -> list[int]:
    """Words with the largest mean share over methods, the control apart; in reading order."""
    ranked = [col for col in methods if col.method != CONTROL] or list(methods)
    count = len(methods[0].words)
    means = [sum(abs(col.share(col.words[i])) for col in ranked) / len(ranked) for i in range(count)]
    return sorted(sorted(range(count), key=lambda i: -means[i])[:top])


def _shade(col: ScoreColumn, word: UnitScore) -> tuple[float, ...]:
    share = col.share(word)
    hue = to_rgb(UNSIGNED if not col.item.signed else TOWARDS if share > 0 else AWAY)
    return tuple(1 - abs(share) * (1 - part) for part in hue)


# --- an audit ------------------------------------------------------------------------------------------


@drawn.register
def _audit(result: Audit, metrics: Sequence[str] | None = None) -> Plot:
    """One panel per metric; a row per method, best first; a mark per removal operator."""
    there = list(dict.fromkeys(e.metric for e in result.table if math.isfinite(e.skill)))
    judged = {cell.metric for cell in result.verdict.cells}
    chosen = list(metrics) if metrics is not None else [m for m in there if m in judged] or there
    if unknown := [m for m in chosen if m not in there]:
        raise HeedfulError(
            f"this audit has no skill by {', '.join(unknown)}", fix=f"Choose from: {', '.join(there)}"
        )
    if not chosen:
        raise HeedfulError("there is nothing to plot", "no metric of this audit has a skill")
    rows = [e for e in result.table if e.metric in chosen and math.isfinite(e.skill)]
    methods = _by_skill(rows)
    operators = list(dict.fromkeys(e.operator for e in rows))
    size = (max(6.4, 2.2 + 3.0 * len(chosen)), 2.4 + 0.34 * len(methods))
    figure = Plot(figsize=size, layout="constrained")
    panels: Any = figure.subplots(1, len(chosen), sharey=True, squeeze=False)[0]
    for axes, metric in zip(panels, chosen, strict=True):
        _skills(axes, [e for e in rows if e.metric == metric], methods, operators)
        axes.set_title(_name(metric))
        axes.set_xlabel("skill")
    panels[0].set_yticks(range(len(methods)), [_name(method) for method in methods])
    panels[0].invert_yaxis()
    _headline(figure, result.verdict.headline)
    title = _wrapped(figure, "skill (95 % interval): 0 random order, 1 best order found; higher is better")
    marks = _audit_legend(rows, operators)
    figure.legend(handles=marks, loc="outside lower center", ncols=4, frameon=False, title=title)
    return figure


def _by_skill(rows: Sequence[Evidence]) -> list[str]:
    """Methods, the largest mean skill first."""
    skills: dict[str, list[float]] = {}
    for e in rows:
        skills.setdefault(e.method, []).append(e.skill)
    return sorted(skills, key=lambda method: -sum(skills[method]) / len(skills[method]))


def _skills(axes: Axes, rows: Sequence[Evidence], methods: Sequence[str], operators: Sequence[str]) -> None:
    axes.axvline(0, color=SOFT, linewidth=1.2, linestyle="--")
    for e in rows:
        turn = operators.index(e.operator)
        y = methods.index(e.method) + 0.22 * (turn - (len(operators) - 1) / 2)
        colour, marker = LINE_COLOURS[turn % 6], MARKERS[turn % len(MARKERS)]
        if all(map(math.isfinite, e.interval)):
            axes.plot(e.interval, (y, y), color=colour, linewidth=1.5)
        inside = "white" if e.circular else colour
        axes.plot(e.skill, y, marker, color=colour, markerfacecolor=inside, markersize=6)
    axes.grid(axis="x", color="#dde1e5", linewidth=0.6)
    axes.set_axisbelow(True)


def _audit_legend(rows: Sequence[Evidence], operators: Sequence[str]) -> list[Line2D]:
    marks = [
        Line2D(
            [],
            [],
            color=LINE_COLOURS[i % 6],
            marker=MARKERS[i % 6],
            label=f"removal: {_name(each or 'none')}",
        )
        for i, each in enumerate(operators)
    ]
    marks.append(Line2D([], [], color=SOFT, linestyle="--", label="random order"))
    if any(e.circular for e in rows):
        label = "fitted by this operator: not judged here"
        marks.append(Line2D([], [], color=SOFT, marker="o", markerfacecolor="white", ls="", label=label))
    return marks


# --- a trial -------------------------------------------------------------------------------------------


@drawn.register
def _trial(result: Trial, tests: Sequence[str] | None = None) -> Plot:
    """One panel per test and unit: findings from top to bottom."""
    rows = [row for row in result.findings if math.isfinite(row.value)]
    there = list(dict.fromkeys(row.test for row in rows))
    if unknown := [name for name in tests or () if name not in there]:
        raise HeedfulError(
            f"this trial has no result of {', '.join(unknown)}", fix=f"Choose from: {', '.join(there)}"
        )
    groups: dict[tuple[str, str], list[TrialRow]] = {}
    for row in rows:
        if tests is None or row.test in tests:
            groups.setdefault((row.test, row.unit), []).append(row)
    if not groups:
        raise HeedfulError("there is nothing to plot", "no test of this trial gave a number")
    sizes = [len(group) + 2.2 for group in groups.values()]  # rows, and room for the axis
    figure = Plot(figsize=(8.5, 1.0 + 0.34 * sum(sizes)), layout="constrained")
    panels: Any = figure.subplots(len(groups), 1, squeeze=False, height_ratios=sizes)[:, 0]
    for axes, ((test, unit), group) in zip(panels, groups.items(), strict=True):
        _findings(axes, group)
        axes.set_title(_name(test))
        controls = dict.fromkeys(row.control_name for row in group if math.isfinite(row.control))
        below = f"\n◇ control: {_label('; '.join(controls), 90)}" if any(controls) else ""
        axes.set_xlabel(f"{_name(unit)}, mean with 95 % interval{below}")
    model = _name(str(result.model.get("name") or "a model"))
    _headline(figure, f"Is attention explanation? {model}, {result.texts:,} texts")
    marks = [
        Line2D([], [], color=DARK, marker="o", label="measured"),
        Line2D([], [], color=AWAY, marker="D", markerfacecolor="white", linestyle="", label="control"),
    ]
    figure.legend(handles=marks, loc="outside lower center", ncols=2, frameon=False)
    return figure


def _findings(axes: Axes, rows: Sequence[TrialRow]) -> None:
    for y, row in enumerate(rows):
        if all(map(math.isfinite, row.interval)):
            axes.plot(row.interval, (y, y), color=DARK, linewidth=1.6)
        if math.isfinite(row.control):
            axes.plot(row.control, y, "D", color=AWAY, markerfacecolor="white", markersize=6)
        axes.plot(row.value, y, "o", color=DARK, markersize=6)
    axes.set_yticks(range(len(rows)), [_name(row.what) for row in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.grid(axis="x", color="#dde1e5", linewidth=0.6)
    axes.set_axisbelow(True)
