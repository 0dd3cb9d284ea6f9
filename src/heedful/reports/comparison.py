"""The document of an explanation: the answer, the text, why, whom to trust; then tabs."""

from __future__ import annotations

import math
from collections.abc import Sequence

from heedful.comparisons.result import Comparison, ranked_unit, unit_noun
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
    Span,
    Tab,
    Tabs,
    nodes,
)
from heedful.core.numbers import short
from heedful.core.phrases import EMPTY_MAP, left_out, plural
from heedful.reports import comparison_parts as parts
from heedful.reports import first_screen
from heedful.reports.columns import columns
from heedful.reports.comparison_summary import after_written, explained_number, notes
from heedful.reports.contradictions import first_contradictions, removing
from heedful.reports.input_map import effects_map, has_picture, shaded_map, unshaded_map
from heedful.reports.prediction import predictions
from heedful.reports.tested_methods import none_passed, nothing_changes, ordered, removal
from heedful.reports.word_table import word_table

INTERRUPTED = "interrupted"
TERMINAL_WORDS = 10
OTHERS = 4  # further labels beside the prediction


def document(comparison: Comparison) -> Document:
    ranked = predictions(comparison.model)
    title = f"{ranked[0][0]} {ranked[0][1]}: why?" if ranked else "Explanation"
    if not comparison.attributions:
        return Document(title, nodes(headline(comparison), *parts.remarks(comparison)))
    table = word_table(comparison, TERMINAL_WORDS, few=True)
    shown = [table] if len(table.columns) > 1 and not nothing_changes(comparison) else []
    saving = Island("saving", _numbers(comparison))
    return Document(
        title,
        nodes(
            headline(comparison),
            first(comparison),
            Only("terminal", nodes(shown, Paragraph(_scale(comparison), "soft"))),
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


def first(comparison: Comparison, ask: str = "") -> tuple[Node, ...]:
    """The first screen below the prediction; `ask` is said where no audit recommends a method, by default
    what to type where the explanation was made."""
    sentences = [first_screen.why(comparison), *first_contradictions(comparison)]
    sentences += [first_screen.little(comparison), first_screen.none_better(comparison)]
    sentences += [first_screen.better_than_random(comparison), first_screen.better_control(comparison)]
    sentences += [first_screen.scored_lower(comparison)]
    text_notes = [note for who, note in notes(comparison) if who == comparison.x.noun]
    text_notes += [f"{who}: {note}." for who, note in notes(comparison) if note == EMPTY_MAP]
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
    """The text by each method, the one that beat most random orders first; where none passed, by the measured
    effects."""
    cols = {col.method: col for col in columns(comparison)}
    standing = {one.method: one for one in standings(comparison.evidence)}
    flat = nothing_changes(comparison)
    options = [_without_method(comparison)] if none_passed(comparison) or flat else []
    for method in ordered(comparison):
        one = standing.get(method)
        note = f"beat {one.beat} of {one.draws}" if one else "control" if method == CONTROL else ""
        col = cols[method]
        shown, parts = has_picture(comparison.x), comparison.words.parts
        legend = Only("html", (Legend(col.item.signed, not col.item.signed, shown, parts),))
        named = first_screen.named_units(comparison) if has_picture(comparison.x) else ()
        drawn = shaded_map(col, comparison.x, ranked_unit(comparison), named)
        options.append(Tab(method, (*drawn, legend), note))
    return Choice("Shaded by", tuple(options))


def _without_method(comparison: Comparison) -> Tab:
    """What was explained, where no method may shade it."""
    x, measured = comparison.x, removal(comparison)
    if nothing_changes(comparison):
        return Tab("nothing", unshaded_map(x), "the output does not change")
    if measured is None:
        return Tab("nothing", unshaded_map(x), "no method passed")
    how = removing(comparison, measured.operator)
    named = first_screen.named_units(comparison) if has_picture(x) else ()
    drawn = effects_map(measured, columns(comparison)[0], ranked_unit(comparison), named)
    note = f"by {how} each {unit_noun(comparison)}"
    legend = Legend(True, unsigned=False, hatched=has_picture(x), parts=comparison.words.parts)
    return Tab("measured effect", (*drawn, Only("html", (legend,))), note)


def _scale(comparison: Comparison) -> str:
    """Which words are shown, and what the numbers are."""
    count, units = len(comparison.x.units(ranked_unit(comparison))), plural(unit_noun(comparison))
    chosen = "by highest scores" if removal(comparison) is None else "by measured effect"
    some = count > TERMINAL_WORDS and not nothing_changes(comparison)
    of = f"{TERMINAL_WORDS} of {count} {units}, {chosen}. " if some else ""
    output = comparison.attributions[0].output
    value = "" if math.isnan(output) else f" ({short(output, 4)})"
    return f"{of}Explained: {explained_number(comparison)}{value}."


def tabs(comparison: Comparison) -> tuple[Tab, ...]:
    """Only those that have something to show."""
    made: Sequence[tuple[str, tuple[Node, ...]]] = (
        ("Words" if comparison.x.noun == "text" else "Methods", parts.words(comparison)),
        ("Evidence", (*parts.evidence(comparison), *parts.agreement(comparison))),
        ("Attention", parts.attention(comparison)),
        ("Features", parts.features(comparison)),
        ("How it was made", (*parts.remarks(comparison), *parts.cost(comparison), *parts.made(comparison))),
    )
    return tuple(Tab(title, inside) for title, inside in made if inside)


words = parts.words  # the live page shows this tab alone


def _numbers(comparison: Comparison) -> dict[str, object]:
    """The comparison as JSON without the word views, which the script works out again (half the size), and
    without the agreement, which is on the page."""
    data = comparison.to_dict()
    del data["agreement"]
    picture = has_picture(comparison.x)
    if picture:  # it is on the page, and scores by pixel are many
        (data["x"].get("picture") or data["x"]).pop("png", None)
    for item in data["attributions"]:
        for name in ("scores", "stderr") if picture else ("words",):
            del item[name]
    return data
