"""Words: what was measured and what methods claim, as text around the table, and the text by every method."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from heedful.comparisons.result import Comparison, ranked_unit, unit_noun
from heedful.core.document import (
    Bullets,
    Cell,
    Column,
    Fold,
    Group,
    Legend,
    Node,
    Paragraph,
    Row,
    Section,
    Table,
    nodes,
    text_table,
)
from heedful.core.input import NEVER
from heedful.core.phrases import listed, plural
from heedful.reports.columns import ScoreColumn, columns, written_columns, written_words
from heedful.reports.comparison_summary import explained
from heedful.reports.contradictions import contradictions
from heedful.reports.input_map import has_picture
from heedful.reports.input_share import CANNOT, by_count, shares, written_part
from heedful.reports.picture_grid import by_method
from heedful.reports.text_map import text_map
from heedful.reports.word_labels import numbered
from heedful.reports.word_table import TABLE_ROWS, score_cell, word_table

OWN = "occlusion"  # its scores are the removals themselves
SHOWN_CONTRADICTIONS = 10


def words(comparison: Comparison) -> tuple[Node, ...]:
    """One table: what was measured, what each method claims; then the text by every method at once."""
    if has_picture(comparison.x):
        return (by_method(comparison), claims(comparison))
    return nodes(claims(comparison), written(comparison), side_by_side(comparison))


def claims(comparison: Comparison) -> Section:
    return Section(
        "Claimed and measured",
        (word_table(comparison), how_to_read(comparison), *contradicted(comparison)),
        words_lead(comparison),
        "words",
    )


def words_lead(comparison: Comparison) -> str:
    unit = unit_noun(comparison)
    lead = f"Explained: {explained(comparison)}. "
    if comparison.internals.removals:
        lead += f"Measured: how far it fell when this {unit} alone was removed; then what each method claims."
    else:
        lead += f"What each method claims about each {unit}."
    count = len(comparison.x.units(ranked_unit(comparison)))
    return (
        f"{lead} Shown are the {TABLE_ROWS} strongest of {count} {plural(unit)}."
        if count > TABLE_ROWS
        else lead
    )


def how_to_read(comparison: Comparison) -> Fold:
    """What the numbers of the table are."""
    unit, removals = unit_noun(comparison), comparison.internals.removals
    atoms = f"the {comparison.x.atom}s of the {unit}"
    lines = [f"A claim is the sum of the scores of {atoms}, in the method's own unit."]
    lines.append("Colours: each method is shown relative to its own strongest score.")
    if removals:
        lines.append(f"Removed by {listed([r.operator for r in removals])}; – was not run.")
    if any(col.item.stderr is not None for col in columns(comparison)):
        lines.append("± is one standard error. ? marks a sign that is unsure: the 95 % interval contains 0.")
    if removals:
        lines.append(
            "The last row is Kendall’s τ between claims and measurements: 1 is the same order, 0 unrelated. "
            "Where a method has no sign, sizes are compared."
        )
        if OWN in comparison:
            lines.append(f"{OWN} itself removes single {plural(unit)}, so a high τ of {OWN} is expected.")
    return Fold("How to read this table", (Bullets(tuple(lines)),))


def contradicted(comparison: Comparison) -> tuple[Node, ...]:
    """Words with claims whose measured effect has the other sign."""
    found, unit = contradictions(comparison), unit_noun(comparison)
    if not found:
        return ()
    rows = [(each.word, each.methods, each.claimed, each.measured) for each in found[:SHOWN_CONTRADICTIONS]]
    table = text_table("Contradicted claims", (unit, "claimed by", "claimed", "measured"), rows)
    count = f"{len(found)} {plural(unit) if len(found) > 1 else unit}"
    more = f" The {len(rows)} strongest are shown." if len(found) > len(rows) else ""
    about = f"Shown are strong claims: a quarter or more of the method's strongest score.{more}"
    return (Fold(f"{count} with claims of the wrong sign", (Paragraph(about, "soft"), table)),)


def written(comparison: Comparison) -> Section | None:
    """What was already written: the share of the text, and the words with their scores."""
    result = shares(comparison)
    if not result:
        return None
    inside: list[Node] = [text_table("Input dependence by method", ("method", "on the text"), result)]
    if (behind := written_part(comparison)) is not None:
        cols = written_columns(comparison)
        inside += [Paragraph(str(behind.x.raw).strip(), "quote"), _written_table(cols, ranked_unit(behind))]
    lead = by_count(comparison) + (f" {CANNOT}" if any(share == "–" for _, share in result) else "")
    return Section("The text, and what was already written", tuple(inside), lead, "written")


def _written_table(cols: Sequence[ScoreColumn], unit: str) -> Table:
    labels = numbered([word.text for word in cols[0].words])
    rows = [
        Row((Cell(label), *(score_cell(col, col.words[index]) for col in cols)))
        for index, label in enumerate(labels)
    ]
    heads = (Column(unit), *(Column(col.label, col.unit) for col in cols))
    return Table("Scores of what was written", heads, tuple(rows))


def side_by_side(comparison: Comparison) -> Fold:
    """The text as every method sees it."""
    cols = columns(comparison)
    also = ", written ones included" if any(written_words(col.item, "word") for col in cols) else ""
    lead = (
        "One colour scale for all: full colour is each method's own strongest "
        f"{ranked_unit(comparison)}{also}, because their numbers have different units."
    )
    signed, unsigned = any(c.item.signed for c in cols), any(not c.item.signed for c in cols)
    inside = (
        Paragraph(lead, "soft"),
        Legend(signed, unsigned, parts=comparison.words.parts),
        methods(comparison),
    )
    return Fold("The text by every method", inside)


def methods(comparison: Comparison) -> Group:
    """One shaded text per method."""
    text = str(comparison.x.raw)
    sections = [
        Section(col.label, (text_map(col, text),), " · ".join(_method_facts(col)), "method", minor=True)
        for col in columns(comparison)
    ]
    return Group(tuple(sections), "methods")


def _method_facts(col: ScoreColumn) -> Iterator[str]:
    yield "signed" if col.item.signed else "no sign"
    yield f"strongest {col.show(col.top)} {col.unit}".strip()
    if NEVER in col.item.x.units(col.item.over).owner:
        yield f"{100 * col.item.special_mass:.0f} % on special tokens"
    for name, value in col.item.params.items():
        if name == "operator":
            yield f"{name} {value}"
