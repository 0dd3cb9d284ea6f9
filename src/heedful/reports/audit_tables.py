"""The tables of an audit: the verdict by method, shares apart, skills, every number."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from heedful.audits.result import Audit
from heedful.core import registry
from heedful.core.defaults import CONTROLS as NO_MODEL
from heedful.core.document import Cell, Column, Row, Section, Table, text_table
from heedful.core.evidence import Evidence
from heedful.core.numbers import MISSING, at_most, fixed, fixed_signed, percent, short, span
from heedful.metrics.rankings import order_agreement
from heedful.metrics.verdict_types import ControlVerdict, MethodVerdict

BETTER, NOT_PROVEN, CIRCULAR = "●", "○", "↻"
HEADS = ("method", "{many} won", "orders beaten", "z", "gap", "model inputs")
LEGEND = (
    "● better than random orders; ○ not proven better. "
    "{Many} won: {many} on which it beat most random orders. "
    "Orders beaten: share of random orders that it beat, mean over {many}. "
    "z: distance from random orders, in their standard deviations. Gap: no method is better by more. "
    "Model inputs: per explanation."
)
CONTROLS = (
    " A control does not look at the model. Not shown better than: the controls for which a paired test over "
    "{many} does not show that the method is better."
)
NOT_SHOWN = "not shown better than"
SINGLE = "Each interval is for one number. The marks under By method are corrected for many comparisons."
SKILL = (
    "Skill, with its 95 % interval over {many}: 0 is a random order, 1 the best order found. "
    f"{CIRCULAR} circular: the method was fitted by the removal operator of this table. {SINGLE}"
)
APART = "Share of random orders beaten, by family of metrics and by removal operator. These were not tested."
NUMBERS = (
    "Means over {many}, in the unit of the metric. ↑: higher is better; ↓: lower is better. "
    "Range: the lowest and the highest value of random orders on a {noun}, means over {many}."
)
SPREAD = (
    "Removing {parts} makes {many} that no model was trained on. Where the skill depends much on how {parts} "
    "are removed, that part of the number is the removal and not the explanation."
)
SMOOTHING = (
    "Each method, and random scores, with the scores averaged over neighbouring {parts}. This adds no "
    "information about the model. Gain: more than 0 means that smoothing improves the number. Means over "
    "{many}."
)
ORDERS_AGREE = (
    "Do both orders of ROAD rank the methods alike? Kendall's τ between the rankings by road-morf and by "
    "road-lerf is {tau} (1: the same ranking, −1: the reverse)."
)
MEASURED = (
    "Value: mean over {many}; ↑: higher is better; ↓: lower is better. Skill: 0 is random scores, 1 the best "
    "value, with its 95 % interval over {many}. The rows were not tested against each other."
)
BY_AREA = "chance"  # heading of the control of metrics that ask where a thing is
MOST_MEASURED = 6  # tables on the first screen
MIN_SPREAD, MOST_SPREADS = 0.25, 20


def worded(text: str, audit: Audit) -> str:
    """With the words for what was audited: texts and words, or pictures and patches."""
    words = audit.verdict.words
    return text.format(many=words.many, Many=words.many.capitalize(), noun=words.noun, parts=words.parts)


def ordered(audit: Audit) -> list[MethodVerdict]:
    """The recommended method first."""
    return sorted(audit.verdict.methods, key=lambda one: one.method != audit.verdict.use)


def verdict_heads(audit: Audit) -> tuple[str, ...]:
    """With a column for controls, where methods were compared with them."""
    heads = (*HEADS, NOT_SHOWN) if audit.verdict.controlled else HEADS
    return tuple(worded(head, audit) for head in heads)


def verdict_rows(audit: Audit) -> list[tuple[str, ...]]:
    """One row per method of the verdict, under `verdict_heads`; the controls below."""
    controlled = bool(audit.verdict.controlled)
    rows = [(*_verdict_row(one), *[", ".join(one.not_shown_better)] * controlled) for one in ordered(audit)]
    below = [(*_control_row(one), *[""] * controlled) for one in audit.verdict.controls]
    return rows + below if rows else []


def _control_row(one: ControlVerdict) -> tuple[str, ...]:
    won = f"{one.won:,} of {one.texts:,}"
    return f"{one.control} (control)", won, percent(one.share), fixed(one.z), "", ""


def _verdict_row(one: MethodVerdict) -> tuple[str, ...]:
    gap = MISSING if math.isnan(one.gap) else "0" if one.gap <= 0 else at_most(one.gap)
    return (
        f"{BETTER if one.better else NOT_PROVEN} {one.method}",
        f"{one.won:,} of {one.texts:,}",
        percent(one.share),
        fixed(one.z),
        gap,
        MISSING if math.isnan(one.inputs) else f"{one.inputs:,.0f}",
    )


def verdict_section(audit: Audit) -> Section | None:
    rows = verdict_rows(audit)
    if not rows:
        return None
    used = [one.method == audit.verdict.use for one in ordered(audit)] + [False] * len(audit.verdict.controls)
    drawn = [
        Row(tuple(Cell(text, style="good" if use else "") for text in row))
        for row, use in zip(rows, used, strict=True)
    ]
    columns = [
        replace(column, words=column.words or column.title == NOT_SHOWN)
        for column in _columns(verdict_heads(audit))
    ]
    table = Table("The verdict by method", tuple(columns), tuple(drawn))
    legend = LEGEND + (CONTROLS if audit.verdict.controlled else "")
    return Section("The verdict by method", (table,), worded(legend, audit), "by-method")


def _columns(heads: Sequence[str]) -> tuple[Column, ...]:
    return tuple(Column(head, words=not place) for place, head in enumerate(heads))


# --- audits without a verdict ----------------------------------------------------------------------


def measured_section(audit: Audit) -> Section | None:
    """What was measured, where no metric of the verdict ran: one short table per metric and operator."""
    if audit.verdict.cells or not audit.table:
        return None
    groups = _by_metric(audit)
    tables = [_measured_table(audit, found) for found in groups[:MOST_MEASURED]]
    lead = worded(MEASURED, audit)
    if any(column.title == BY_AREA for table in tables for column in table.columns):
        lead += " Chance: what random scores reach, computed from the area of the mask."
    if any(one.method in NO_MODEL for one in audit.table):
        lead += " A control does not look at the model."
    if len(groups) > MOST_MEASURED:
        lead += " More tables are under Numbers."
    return Section("What was measured", tuple(tables), lead, "measured")


def _measured_table(audit: Audit, found: Sequence[Evidence]) -> Table:
    """Methods by their skill, then the controls."""
    first = found[0]
    known = registry.metrics().get(first.metric)
    chance = BY_AREA if known is not None and known.masks and known.chance else "random"
    heads = (_measured_name(audit, first), "value", chance, "skill (95 %)", audit.verdict.words.many)
    order = sorted(found, key=lambda one: (one.method in NO_MODEL, -one.skill))
    rows = [
        Row(
            (
                Cell(f"{one.method} (control)" if one.method in NO_MODEL else one.method),
                Cell(short(one.value)),
                Cell(short(one.control)),
                Cell(fixed(one.skill), interval(one)),
                Cell(f"{one.n:,}"),
            )
        )
        for one in order
    ]
    return Table(heads[0], _columns(heads), tuple(rows))


def _measured_name(audit: Audit, one: Evidence) -> str:
    """↑ pointing, or ↓ road-morf by blur"""
    arrow = "↑" if audit.better.get(one.metric) == "high" else "↓"
    return f"{arrow} {one.metric}" + (f" by {one.operator}" if one.operator else "")


# --- smoothed scores -------------------------------------------------------------------------------

SMOOTH_HEADS = ("scores of", "gain (95 %)", "as they are", "smoothed", "metric")


def smoothing_section(audit: Audit) -> Section | None:
    """Each method's own scores smoothed, and random scores smoothed: a control of ROAD."""
    if not audit.smoothed:
        return None
    rows = [
        Row(
            (
                Cell(one.name),
                Cell(fixed_signed(one.gain), f"({span(*one.interval, fixed_signed)})"),
                Cell(_number(one.value)),
                Cell(_number(one.smoothed)),
                Cell(one.metric),
            )
        )
        for one in audit.smoothed
    ]
    table = Table("Smoothed scores", _columns(SMOOTH_HEADS), tuple(rows))
    lead = worded(SMOOTHING, audit)
    if math.isfinite(tau := order_agreement(audit.table)):
        lead += f" {ORDERS_AGREE.format(tau=fixed_signed(tau))}"
    return Section("Smoothed scores", (table,), lead, "smoothed")


# --- families and operators ------------------------------------------------------------------------


def apart_heads(audit: Audit) -> tuple[str, ...]:
    if not audit.verdict.methods:
        return ()
    one = audit.verdict.methods[0]
    families = [name.replace("-", " the ") for name in one.by_family]
    return ("method", *families, *one.by_operator, "spread over operators")


def judged_apart(audit: Audit) -> list[tuple[str, ...]]:
    """Shares by family and by operator, under `apart_heads`."""
    rows = []
    for one in audit.verdict.methods:
        shares = [*one.by_family.values(), *one.by_operator.values()]
        operators = one.by_operator.values()
        spread = max(operators) - min(operators) if operators else math.nan
        rows.append((one.method, *(percent(share) for share in (*shares, spread))))
    return rows


def apart_section(audit: Audit) -> Section | None:
    heads = apart_heads(audit)
    if not heads:
        return None
    table = text_table("Shares apart", heads, judged_apart(audit))
    return Section("Where metrics and operators disagree", (table,), APART, "apart")


def spread_section(audit: Audit) -> Section | None:
    """Only where the way of removing words matters much, the widest first."""
    pairs = dict.fromkeys((e.metric, e.method) for e in audit.table)
    every = [(metric, method, audit.spread(metric, method)) for metric, method in pairs]
    wide = sorted((each for each in every if each[2] >= MIN_SPREAD), key=lambda each: -each[2])
    if not wide:
        return None
    rows = [(f"{metric}, {method}", fixed(value)) for metric, method, value in wide[:MOST_SPREADS]]
    heads = ("metric and method", "largest minus smallest skill")
    table = text_table("Spread over operators", heads, rows)
    return Section("Where the removal operator matters most", (table,), worded(SPREAD, audit), "spread")


# --- skills ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SkillTable:
    """Skills under one operator: methods by metrics."""

    operator: str  # "" where nothing is removed
    metrics: list[str]
    methods: list[str]  # highest mean skill first
    cells: dict[tuple[str, str], Evidence]  # (metric, method)
    parts: str = "words"

    @property
    def title(self) -> str:
        return (
            f"{self.parts.capitalize()} removed by: {self.operator}" if self.operator else "Nothing removed"
        )

    def cell(self, metric: str, method: str) -> Cell:
        one = self.cells.get((metric, method))
        if one is None:
            return Cell(MISSING)
        mark = f"{CIRCULAR} " if one.circular else ""
        return Cell(f"{mark}{fixed(one.skill)}", interval(one), one.skill, value=one.skill)


def interval(one: Evidence) -> str:
    """(0.72 to 0.95), or nothing."""
    return "" if math.isnan(one.interval[0]) else f"({span(*one.interval, fixed)})"


def blocks(audit: Audit) -> list[SkillTable]:
    """One per operator, those that remove something first."""
    operators = dict.fromkeys(e.operator for e in audit.table)
    return [_block(audit, operator) for operator in sorted(operators, key=lambda name: not name)]


def _block(audit: Audit, operator: str) -> SkillTable:
    here = [e for e in audit.table if e.operator == operator]
    cells = {(e.metric, e.method): e for e in here}
    metrics = list(dict.fromkeys(e.metric for e in here))

    def mean(method: str) -> float:
        skills = [e.skill for e in here if e.method == method and math.isfinite(e.skill)]
        return sum(skills) / len(skills) if skills else -math.inf

    methods = sorted(dict.fromkeys(e.method for e in here), key=lambda method: -mean(method))
    return SkillTable(operator, metrics, methods, cells, audit.verdict.words.parts)


def skill_sections(audit: Audit) -> Iterator[Section]:
    for place, block in enumerate(blocks(audit)):
        rows = [
            Row((Cell(method), *(block.cell(metric, method) for metric in block.metrics)))
            for method in block.methods
        ]
        table = Table(f"Skill by method, {block.title}", _columns(("method", *block.metrics)), tuple(rows))
        yield Section(block.title, (table,), "" if place else worded(SKILL, audit))


# --- every number ----------------------------------------------------------------------------------


def number_sections(audit: Audit) -> Iterator[Section]:
    """One table per metric and operator."""
    heads = ("method", "value", "random", "range of random", "best", "skill", audit.verdict.words.many)
    for place, found in enumerate(_by_metric(audit)):
        metric, operator = found[0].metric, found[0].operator
        arrow = "↑" if audit.better.get(metric) == "high" else "↓"
        removed = f"{audit.verdict.words.parts} removed by: {operator}" if operator else "nothing removed"
        title = f"{arrow} {metric}, {removed}"
        table = Table(title, _columns(heads), tuple(map(_number_row, found)))
        yield Section(title, (table,), "" if place else worded(NUMBERS, audit))


def _by_metric(audit: Audit) -> list[list[Evidence]]:
    """The evidence of each metric and operator."""
    groups: dict[tuple[str, str], list[Evidence]] = {}
    for each in audit.table:
        groups.setdefault((each.metric, each.operator), []).append(each)
    return list(groups.values())


def _number_row(one: Evidence) -> Row:
    numbers = (one.value, one.control, span(*one.chance, _number), one.best)
    cells = (Cell(each if isinstance(each, str) else _number(each)) for each in numbers)
    return Row((Cell(one.method), *cells, Cell(fixed(one.skill), interval(one)), Cell(f"{one.n:,}")))


def _number(value: float) -> str:
    return short(value, 4)
