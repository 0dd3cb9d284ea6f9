"""One method's answer: the method, what it explains, and its strongest words. It was not tested alone, so
nothing is said about whether to trust it."""

from __future__ import annotations

import math

from heedful.comparisons.result import Comparison
from heedful.core.attribution import Attribution
from heedful.core.document import (
    Choice,
    Document,
    Headline,
    Legend,
    Node,
    Only,
    Paragraph,
    Tab,
    Table,
    Tabs,
    nodes,
)
from heedful.core.input import Input
from heedful.core.numbers import short
from heedful.core.phrases import plural
from heedful.reports import comparison_parts as parts
from heedful.reports.columns import ScoreColumn, columns
from heedful.reports.comparison_summary import explained_number
from heedful.reports.input_map import has_picture, shaded_map
from heedful.reports.word_labels import numbered
from heedful.reports.word_table import word_table

NAMED_WORDS = 5
NUMBERED = 3  # units of a picture that are outlined
TERMINAL_WORDS = 10


def document(item: Attribution) -> Document:
    alone = Comparison((item,), settings={"unit": item.own_unit})
    (col,) = columns(alone)
    value = "" if math.isnan(item.output) else f" ({short(item.output, 4)})"
    head = Headline(
        item.method, source=f"scores of the {alone.words.parts} for {explained_number(alone)}{value}"
    )
    picture = has_picture(item.x)
    legend = Only("html", (Legend(item.signed, not item.signed, picture, alone.words.parts),))
    drawn = shaded_map(col, item.x, item.own_unit, _order(col)[:NUMBERED] if picture else ())
    shading = Choice("Shaded by", (Tab(item.method, (*drawn, legend)),))
    tables = [word_table(alone, TERMINAL_WORDS, few=True)] if col.words else []
    made = (*parts.remarks(alone), *parts.cost(alone))
    tabs = Tabs(
        "More", (Tab("Scores" if picture else "Words", _words(alone, col)), Tab("How it was made", made))
    )
    strongest = Paragraph(_strongest(col, item.x))
    return Document(
        f"{item.method}: {item.target.name}",
        nodes(head, shading, strongest, Only("terminal", nodes(tables, _shown(col))), tabs),
    )


def _order(col: ScoreColumn) -> list[int]:
    """The strongest first."""
    return sorted(range(len(col.words)), key=lambda i: -abs(col.words[i].score))


def _words(alone: Comparison, col: ScoreColumn) -> tuple[Node, ...]:
    """All words, and what was written before the explained token."""
    table: list[Table] = [word_table(alone)] if col.words else []
    return nodes(table, parts.written(alone))


def _strongest(col: ScoreColumn, x: Input) -> str:
    """Strongest words: “great” (+0.754), “bad” (−0.632)."""
    labels = numbered([word.text for word in col.words])
    order = _order(col)[:NAMED_WORDS]
    words = [col.words[i] for i in order if math.isfinite(col.words[i].score)]
    if not words:
        return f"No {x.unit_noun(col.item.own_unit)} has a score."
    named = zip((labels[i] for i in order), words, strict=False)
    joint = "; " if x.noun == "picture" else ", "
    scores = joint.join(f"“{label}” ({col.sign(word)}{col.number(word)}{col.unit})" for label, word in named)
    sign = "" if col.item.signed else " This method gives sizes without a sign."
    return f"Strongest {plural(x.unit_noun(col.item.own_unit))}: {scores}.{sign}"


def _shown(col: ScoreColumn) -> Paragraph | None:
    count = len(col.words)
    if count <= TERMINAL_WORDS:
        return None
    units = plural(col.item.x.unit_noun(col.item.own_unit))
    return Paragraph(f"{TERMINAL_WORDS} of {count} {units}, by highest scores.", "soft")
