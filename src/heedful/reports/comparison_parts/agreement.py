"""Agreement: how far the methods order the words alike. It is no evidence that any of them is right."""

from __future__ import annotations

import math

from heedful.comparisons.agreement import MEASURES, chance
from heedful.comparisons.result import Comparison, matrix, ranked_count, unit_noun, with_written
from heedful.core.defaults import CONTROL
from heedful.core.document import Bullets, Cell, Column, Fold, Node, Paragraph, Row, Tab, Table, Tabs
from heedful.core.numbers import fixed
from heedful.core.phrases import plural
from heedful.reports.comparison_summary import agreeing, measured, pointed

TOP_WORDS = 5  # strongest words whose overlap is shown


def agreement(comparison: Comparison) -> tuple[Node, ...]:
    """How far the methods agree, folded: agreement is no evidence that any of them is right."""
    if len(comparison) < 2 or ranked_count(comparison) < 2:
        return ()
    names = {
        "kendall": "Kendall τ",
        "spearman": "Spearman ρ",
        "top-k": f"Overlap of the {TOP_WORDS} strongest",
    }
    lines = [line for line in (pointed(comparison), *agreeing(comparison), *measured(comparison)) if line]
    tabs = tuple(
        Tab(
            names[measure],
            (Paragraph(_lead(comparison, measure), "soft"), _matrix(comparison, measure, names[measure])),
        )
        for measure in MEASURES
    )
    last = "Where a method has no sign, sizes are compared. Methods can agree and all be wrong."
    inside = (Bullets(tuple(lines)), Paragraph(last, "soft"), Tabs("Measures of agreement", tabs))
    return (Fold("Do the methods agree?", inside),)


def _lead(comparison: Comparison, measure: str) -> str:
    """What the numbers mean, and what chance gives."""
    unit, count = plural(unit_noun(comparison)), ranked_count(comparison)
    expected = chance(measure, count, TOP_WORDS)
    if measure == "top-k":
        share = f"share of the {TOP_WORDS} strongest {unit}, by size, that two methods have in common"
        return f"The {share}: 1 is all of them, and unrelated rankings reach {expected:.2f} on average."
    name = "Kendall τ" if measure == "kendall" else "Spearman ρ, the correlation of ranks,"
    both = ", written ones included" if with_written(comparison) else ""
    lead = f"{name} between the rankings of the {unit}{both}: 1 is the same order, 0 unrelated, −1 reversed."
    if not math.isnan(expected):
        lead += f" Chance stays within ±{expected:.2f} for 95 of 100 pairs of rankings of this many {unit}."
    return lead


def _matrix(comparison: Comparison, measure: str, name: str) -> Table:
    names, values = matrix(comparison, measure, TOP_WORDS)
    order = sorted(range(len(names)), key=lambda i: names[i] == CONTROL)
    labels = [f"{names[i]} (control)" if names[i] == CONTROL else names[i] for i in order]
    rows = []
    for label, i in zip(labels, order, strict=True):
        cells = [
            Cell("·") if i == j else Cell(fixed(v := float(values[i, j])), shade=v, signed=measure != "top-k")
            for j in order
        ]
        rows.append(Row((Cell(label), *cells)))
    return Table(f"Agreement between methods: {name}", tuple(map(Column, ["", *labels])), tuple(rows))
