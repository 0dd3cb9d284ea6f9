"""The one table of words: what removing each word did, beside what each method claims."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from heedful.comparisons.agreement import kendall
from heedful.comparisons.result import Comparison, unit_noun
from heedful.core.attribution import UnitScore
from heedful.core.defaults import CONTROL, EFFECTS_ONLY
from heedful.core.document import Cell, Column, Row, Table
from heedful.core.internals import Removal
from heedful.core.numbers import fixed
from heedful.reports.columns import ScoreColumn, columns
from heedful.reports.tested_methods import ordered, removal, shown_first
from heedful.reports.word_labels import numbered

TABLE_ROWS = 300  # words in the table; the shaded text always has them all
SHOWN = 4  # methods whose columns are shown at first, the control besides
FEW = 2  # in the terminal


def word_table(comparison: Comparison, rows: int = TABLE_ROWS, few: bool = False) -> Table:
    """`few`: only the columns that fit a terminal, and no row of agreement."""
    order = ordered(comparison)
    cols = sorted(columns(comparison), key=lambda col: order.index(col.method))
    labels = numbered([word.text for word in cols[0].words])
    removals, main = comparison.internals.removals, removal(comparison)
    shown = {*shown_first(comparison, FEW if few else SHOWN), CONTROL}
    kept = strongest(columns(comparison), rows, main if few else None)
    if comparison.settings.get(EFFECTS_ONLY) and removals:
        shown = set()
    if few:
        removals = tuple(r for r in removals if r is main)
        cols = [col for col in cols if col.method in shown]
    lines, before = [], -1
    for index in kept:
        if index != before + 1 and not few:
            lines.append(Row((Cell("⋯"),), kind="gap"))
        cells = [_measured(r, index) for r in removals]
        cells += [score_cell(col, col.words[index]) for col in cols]
        lines.append(Row((Cell(labels[index]), *cells), unit=index))
        before = index
    if removals and not few:
        lines.append(_agreement(removals, cols))
    heads = [Column(unit_noun(comparison))]
    brief = "measured" if few and comparison.evidence else ""  # the sentence above names the operator
    heads += [Column("measured", r.operator, brief, shown=r is main) for r in removals]
    heads += [Column(col.label, col.unit, shown=col.method in shown) for col in cols]
    title = f"Scores by {unit_noun(comparison)} and method"
    return Table(
        title, tuple(heads), tuple(lines), sortable=not few, switches=not few and len(heads) > 3, bars=few
    )


def score_cell(col: ScoreColumn, word: UnitScore) -> Cell:
    error, unsure = col.error(word), col.unsure(word)
    return Cell(
        f"{'? ' if unsure else ''}{col.sign(word)}{col.number(word)}",
        f"± {error}" if error else "",
        col.share(word),
        col.item.signed,
        word.score if math.isfinite(word.score) else 0.0,
        "unsure" if unsure else "",
    )


def _measured(given: Removal, index: int) -> Cell:
    value = given.leave_one_out[index]
    top = max((abs(v) for v in given.leave_one_out if math.isfinite(v)), default=0.0) or 1.0
    if not math.isfinite(value):
        return Cell("–", style="strong")
    sign = "+" if value > 0 else "−" if value < 0 else ""
    return Cell(f"{sign}{abs(value):.3f}", shade=value / top, value=value, style="strong")


def _agreement(removals: Sequence[Removal], cols: Sequence[ScoreColumn]) -> Row:
    """Kendall's τ of claims with the operator that measured most words."""
    facts = [dict(enumerate(each.leave_one_out)) for each in removals]
    fullest = max(facts, key=lambda fact: sum(map(math.isfinite, fact.values())))
    known = {index: value for index, value in fullest.items() if math.isfinite(value)}
    cells = [Cell("τ" if fact is fullest else "") for fact in facts]
    cells += [Cell(fixed(_tau(col, known))) for col in cols]
    return Row((Cell("claimed and measured"), *cells), kind="gap last")


def _tau(col: ScoreColumn, known: Mapping[int, float]) -> float:
    claims, facts = np.array([col.words[i].score for i in known]), np.array([*known.values()])
    if len(known) < 3 or not np.isfinite(claims).all():
        return math.nan
    return kendall(claims, facts) if col.item.signed else kendall(np.abs(claims), np.abs(facts))


def strongest(cols: Sequence[ScoreColumn], rows: int | None, measured: Removal | None = None) -> list[int]:
    """Indices, in reading order, of the words with the largest measured effect; without measurements (and
    among words that were not measured), with the largest summed |share| over the methods."""
    count = len(cols[0].words)
    if rows is None or count <= rows:
        return list(range(count))
    weight = [sum(abs(c.share(c.words[i])) for c in cols if c.method != CONTROL) for i in range(count)]
    effects = [math.nan] * count if measured is None else measured.leave_one_out

    def key(i: int) -> tuple[float, float]:
        return -abs(effects[i]) if math.isfinite(effects[i]) else math.inf, -weight[i]

    return sorted(sorted(range(count), key=key)[:rows])
