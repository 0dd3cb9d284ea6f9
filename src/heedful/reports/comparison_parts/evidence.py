"""Evidence: how far each method is better than random orders on this text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from heedful.comparisons.result import Comparison, ranked_unit, unit_noun
from heedful.core.charts import BandCurve, BandCurves
from heedful.core.document import Bullets, Cell, Column, Figure, Node, Row, Section, Table, nodes
from heedful.core.evidence import Evidence
from heedful.core.numbers import fixed, short
from heedful.core.phrases import plural
from heedful.reports.tested_methods import ordered

Points = Sequence[tuple[float, float]]
Band = tuple[float, float, float]
TITLE = "Which methods are better than random?"


def evidence(comparison: Comparison) -> tuple[Node, ...]:
    """Skill by method and metric compared with random orders, and the curves."""
    result = comparison.evidence
    if not result:
        return ()
    pairs = list(dict.fromkeys((e.metric, e.operator) for e in result))
    cells = {(e.method, e.metric, e.operator): e for e in result}
    order = [m for m in ordered(comparison) if any(e.method == m for e in result)]
    order += [m for m in dict.fromkeys(e.method for e in result) if m not in order]
    rows = [Row((Cell(m), *(evidence_cell(cells.get((m, *pair))) for pair in pairs))) for m in order]
    heads = (Column("method"), *(Column(metric, operator) for metric, operator in pairs))
    lead = (
        "Skill: 0 is the mean of random orders, 1 the best value that any method or random order reached on "
        f"this {comparison.x.noun}. Then: how many random orders it beat, the measured value, and between "
        "which values random orders were. c: the method was fitted by this removal, so it is not judged here."
    )
    verdict = Bullets(tuple(comparison.verdict.splitlines()))
    if len(comparison.x.units(ranked_unit(comparison))) == 1:  # all orders are the same
        return (Section(TITLE, (verdict,), name="evidence"),)
    table = Table("Evidence by method and metric", heads, tuple(rows))
    return (
        Section(TITLE, nodes(verdict, table, deletion(comparison), insertion(comparison)), lead, "evidence"),
    )


def evidence_cell(found: Evidence | None) -> Cell:
    if found is None:
        return Cell("–")
    low, high = found.chance
    beat = f"beat {found.beat} of {len(found.orders)}" if found.orders else ""
    note = f"{beat} ({short(found.value)}; random {short(low)} to {short(high)})".strip()
    return Cell(f"{fixed(found.skill)}{' c' if found.circular else ''}", note, found.skill, value=found.skill)


def deletion(comparison: Comparison) -> Figure | None:
    """One panel per method: the explained number as its best words are removed, and the random orders."""
    found = next((r for r in comparison.internals.removals if r.curves), None)
    if found is None:
        return None
    chart = _along(comparison, found.curves, found.band, f"removed ({found.operator})", "low")
    return Figure(chart, "Grey band: where random orders were. A good method falls lower and sooner.")


def insertion(comparison: Comparison) -> Figure | None:
    """The same as its best words are kept and all others removed."""
    found = next((r for r in comparison.internals.removals if r.insertions), None)
    if found is None:
        return None
    how = f"kept, all others removed ({found.operator})"
    chart = _along(comparison, found.insertions, found.insertion_band, how, "high")
    return Figure(chart, "Grey band: where random orders were. A good method rises higher and sooner.")


def _along(
    comparison: Comparison, curves: Mapping[str, Points], band: Sequence[Band], how: str, better: str
) -> BandCurves:
    units = plural(unit_noun(comparison))
    return BandCurves(
        [BandCurve(method, points, band) for method, points in curves.items()],
        f"share of {units} {how}, each method's best first",
        "explained number",
        f"The explained number as {units} are {how}, each method's best first",
        better,
    )
