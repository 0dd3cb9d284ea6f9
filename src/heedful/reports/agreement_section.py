"""The part of the report that says how far methods agree: Kendall's table, the other measures folded up."""

from __future__ import annotations

import math

from heedful.comparisons.agreement import MEASURES, chance
from heedful.comparisons.result import Comparison, matrix, ranked_count, ranked_unit, with_written
from heedful.core.defaults import CONTROL
from heedful.core.numbers import fixed
from heedful.reports.comparison_summary import measured
from heedful.reports.html_parts import esc, part, table
from heedful.reports.shading import hue, level

TOP_WORDS = 5  # strongest words whose overlap is shown


def agreement(comparison: Comparison, size: int) -> str:
    """Kendall's table, and the other measures folded up below it."""
    if len(comparison) < 2:
        return ""
    lines = {measure: _lead(comparison, measure) for measure in MEASURES}
    names = {
        "kendall": "Kendall τ",
        "spearman": "Spearman ρ",
        "top-k": f"Overlap of the {TOP_WORDS} strongest",
    }
    first, *others = MEASURES
    folded = "".join(
        f'<details class="more"><summary>{names[measure]}</summary><p class="lead">{lines[measure]}</p>'
        f"{_table(comparison, measure, names[measure])}</details>"
        for measure in others
    )
    text = "".join(f"<li>{esc(line)}</li>" for line in measured(comparison))
    counted = f'<ul class="sentences">{text}</ul>' if text else ""
    body = counted + _table(comparison, first, names[first]) + folded
    lead = (
        f"{lines[first]} Where a method has no sign, sizes are compared. Methods can agree and all be wrong."
    )
    return part("agreement", "Do the methods agree?", lead, body, size)


def _lead(comparison: Comparison, measure: str) -> str:
    """What the numbers mean, and what chance gives."""
    unit, count = ranked_unit(comparison), ranked_count(comparison)
    expected = chance(measure, count, TOP_WORDS)
    if measure == "top-k":
        share = f"share of the {TOP_WORDS} strongest {unit}s, by size, that two methods have in common"
        return f"The {share}: 1 is all of them, and unrelated rankings reach {expected:.2f} on average."
    name = "Kendall τ" if measure == "kendall" else "Spearman ρ, the correlation of ranks,"
    both = ", written ones included" if with_written(comparison) else ""
    lead = f"{name} between the rankings of the {unit}s{both}: 1 is the same order, 0 unrelated, −1 reversed."
    if not math.isnan(expected):
        lead += f" Chance stays within ±{expected:.2f} for 95 of 100 pairs of rankings of this many {unit}s."
    return lead


def _table(comparison: Comparison, measure: str, name: str) -> str:
    names, values = matrix(comparison, measure, TOP_WORDS)
    order = sorted(range(len(names)), key=lambda i: names[i] == CONTROL)
    labels = [f"{esc(names[i])}{' (control)' if names[i] == CONTROL else ''}" for i in order]
    rows = []
    for label, i in zip(labels, order, strict=True):
        cells = []
        for j in order:
            value = float(values[i, j])
            shade = "" if i == j else f"{hue(value, measure != 'top-k')} l{level(value)}"
            cells.append(f'<td class="{shade}">{"·" if i == j else fixed(value)}</td>')
        rows.append(f'<tr><th scope="row">{label}</th>{"".join(cells)}</tr>')
    return table(["", *labels], rows, f"Agreement between methods: {name}")
