"""The one table of words: what removing each word did, beside what each method claims."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from heedful.comparisons.agreement import kendall
from heedful.comparisons.result import Comparison, ranked_unit
from heedful.core.attribution import UnitScore
from heedful.core.defaults import CONTROL
from heedful.core.document import Cell, Column, Row, Table
from heedful.core.internals import Removal
from heedful.core.numbers import fixed
from heedful.reports import first_screen
from heedful.reports.columns import ScoreColumn, columns
from heedful.reports.word_labels import numbered

TABLE_ROWS = 300  # words in the table; the shaded text always has them all
SHOWN = 4  # methods whose columns are shown at first, the control besides
FEW = 2  # in the terminal


def word_table(comparison: Comparison, rows: int = TABLE_ROWS, few: bool = False) -> Table:
    """`few`: only the columns that fit a terminal, and no row of agreement."""
    order = first_screen.ordered(comparison)
    cols = sorted(columns(comparison), key=lambda col: order.index(col.method))
    removals = comparison.internals.removals
    main = first_screen.removal(comparison)
    if few:
        removals = tuple(r for r in removals if r is main)
        cols = [*[c for c in cols if c.method != CONTROL][:FEW], *[c for c in cols if c.method == CONTROL]]
    labels = numbered([word.text for word in cols[0].words])
    kept = strongest(columns(comparison), rows)
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
    heads = [Column(ranked_unit(comparison))]
    heads += [Column("measured", r.operator, shown=r is main) for r in removals]
    shown = {col.method for col in cols if col.method != CONTROL}
    shown = {method for method in order if method in shown and order.index(method) < SHOWN} | {CONTROL}
    heads += [Column(col.label, col.unit, shown=few or col.method in shown) for col in cols]
    title = f"Scores by {ranked_unit(comparison)} and method"
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


def _measured(removal: Removal, index: int) -> Cell:
    value = removal.leave_one_out[index]
    top = max((abs(v) for v in removal.leave_one_out if math.isfinite(v)), default=0.0) or 1.0
    if not math.isfinite(value):
        return Cell("–", style="strong")
    sign = "+" if value > 0 else "−" if value < 0 else ""
    return Cell(f"{sign}{abs(value):.3f}", shade=value / top, value=value, style="strong")


def _agreement(removals: Sequence[Removal], cols: Sequence[ScoreColumn]) -> Row:
    """Kendall's τ of claims with the operator that measured most words."""
    facts = [dict(enumerate(removal.leave_one_out)) for removal in removals]
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


def strongest(cols: Sequence[ScoreColumn], rows: int | None) -> list[int]:
    """Indices, in reading order, of the words with the largest summed |share| over the methods."""
    count = len(cols[0].words)
    if rows is None or count <= rows:
        return list(range(count))
    weight = [sum(abs(c.share(c.words[i])) for c in cols if c.method != CONTROL) for i in range(count)]
    return sorted(sorted(range(count), key=lambda i: -weight[i])[:rows])
