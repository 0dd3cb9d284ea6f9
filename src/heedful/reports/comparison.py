"""The document of an explanation: the answer, the text, why, whom to trust; then tabs."""

from __future__ import annotations

from collections.abc import Sequence

from heedful.comparisons.result import Comparison, ranked_unit
from heedful.comparisons.single_text import standings
from heedful.core.defaults import CONTROL
from heedful.core.document import (
    Bullets,
    Choice,
    Document,
    Headline,
    Inline,
    Island,
    Legend,
    Node,
    Only,
    Paragraph,
    Section,
    Span,
    Tab,
    Tabs,
    nodes,
)
from heedful.core.phrases import left_out
from heedful.reports import comparison_parts as parts
from heedful.reports import first_screen
from heedful.reports.columns import columns
from heedful.reports.comparison_summary import after_written, explained, notes
from heedful.reports.prediction import predictions
from heedful.reports.text_map import text_map
from heedful.reports.word_table import word_table

INTERRUPTED = "interrupted"
SHOWN_CONTRADICTIONS = 1
TERMINAL_WORDS = 10
OTHERS = 4  # further labels beside the prediction


def document(comparison: Comparison) -> Document:
    ranked = predictions(comparison.model)
    title = f"{ranked[0][0]} {ranked[0][1]}: why?" if ranked else "Explanation"
    if not comparison.attributions:
        return Document(title, nodes(headline(comparison), *parts.remarks(comparison)))
    table = word_table(comparison, TERMINAL_WORDS, few=True)
    saving = Island("saving", _numbers(comparison))
    return Document(
        title,
        nodes(
            headline(comparison),
            first(comparison),
            Only("terminal", nodes(table, Paragraph(_scale(comparison), "soft"))),
            Tabs("More", tabs(comparison)),
            saving,
        ),
    )


def headline(comparison: Comparison) -> Headline:
    ranked = predictions(comparison.model)
    model = str(comparison.model.get("name", "a model"))
    after = after_written(comparison)
    source: Inline = (Span(model, "strong"), f", {after}") if after else (Span(model, "strong"),)
    if not ranked:
        return Headline("Explanation", source=source)
    (label, value, share), *others = ranked
    rest = [(name, number) for name, number, _ in others[:OTHERS]]
    return Headline(label, value, share, source, tuple(rest))


def first(comparison: Comparison, ask: str = first_screen.ASK_FOR_AUDIT) -> tuple[Node, ...]:
    """The first screen below the prediction; `ask` is said where no audit recommends a method."""
    sentences = [first_screen.why(comparison)]
    shading = first_screen.ordered(comparison)[0]
    against = first_screen.contradictions(comparison, [shading])[:SHOWN_CONTRADICTIONS]
    sentences += map(str, against)
    sentences += [first_screen.little(comparison), first_screen.better_than_random(comparison)]
    text_notes = [note for who, note in notes(comparison) if who == "text"]
    cut = {method: why for method, why in comparison.skipped.items() if INTERRUPTED in why}
    text_notes += [f"{method} not run: {why}." for method, why in cut.items()]
    text_notes += [left_out(comparison.skipped)]
    use = first_screen.which_to_use(comparison, ask)
    return nodes(
        shaded(comparison),
        Bullets(tuple(filter(None, [*sentences, *text_notes]))),
        Paragraph(use, "answer") if use else None,
    )


def shaded(comparison: Comparison) -> Choice:
    """The text by each method; the one that beat most random orders first."""
    cols = {col.method: col for col in columns(comparison)}
    standing = {one.method: one for one in standings(comparison.evidence)}
    options = []
    for method in first_screen.ordered(comparison):
        one = standing.get(method)
        note = f"beat {one.beat} of {one.draws}" if one else "control" if method == CONTROL else ""
        col = cols[method]
        legend = Only("html", (Legend(col.item.signed, not col.item.signed),))
        options.append(Tab(method, (text_map(col, str(comparison.x.raw)), legend), note))
    return Choice("Shaded by", tuple(options))


def _scale(comparison: Comparison) -> str:
    """What the numbers are."""
    unit = ranked_unit(comparison)
    count = len(comparison.x.units(unit))
    of = f"{TERMINAL_WORDS} of {count} {unit}s. " if count > TERMINAL_WORDS else ""
    return f"{of}Explained: {explained(comparison)}."


def tabs(comparison: Comparison) -> tuple[Tab, ...]:
    """Only those that have something to show."""
    made: Sequence[tuple[str, tuple[Node, ...]]] = (
        ("Words", words(comparison)),
        ("Evidence", (*parts.evidence(comparison), *parts.agreement(comparison))),
        ("Attention", parts.attention(comparison)),
        ("Features", parts.features(comparison)),
        ("How it was made", (*parts.remarks(comparison), *parts.cost(comparison), *parts.made(comparison))),
    )
    return tuple(Tab(title, inside) for title, inside in made if inside)


def words(comparison: Comparison) -> tuple[Node, ...]:
    """One table: what was measured, what each method claims; then the text by every method at once."""
    return nodes(
        Section(
            "Claimed and measured",
            (word_table(comparison), parts.how_to_read(comparison), *parts.contradicted(comparison)),
            parts.words_lead(comparison),
            "words",
        ),
        parts.written(comparison),
        parts.side_by_side(comparison),
    )


def _numbers(comparison: Comparison) -> dict[str, object]:
    """The comparison as JSON without the word views, which the script works out again (half the size), and
    without the agreement, which is on the page."""
    data = comparison.to_dict()
    del data["agreement"]
    for item in data["attributions"]:
        del item["words"]
    return data
