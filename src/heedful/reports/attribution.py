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
from heedful.core.numbers import short
from heedful.reports import comparison_parts as parts
from heedful.reports.columns import ScoreColumn, columns
from heedful.reports.comparison_summary import explained_number
from heedful.reports.text_map import text_map
from heedful.reports.word_labels import numbered
from heedful.reports.word_table import word_table

NAMED_WORDS = 5
TERMINAL_WORDS = 10


def document(item: Attribution) -> Document:
    alone = Comparison((item,))
    (col,) = columns(alone)
    value = "" if math.isnan(item.output) else f" ({short(item.output, 4)})"
    head = Headline(item.method, source=f"scores of the words for {explained_number(alone)}{value}")
    legend = Only("html", (Legend(item.signed, not item.signed),))
    shading = Choice("Shaded by", (Tab(item.method, (text_map(col, str(item.x.raw)), legend)),))
    tables = [word_table(alone, TERMINAL_WORDS, few=True)] if col.words else []
    made = (*parts.remarks(alone), *parts.cost(alone))
    tabs = Tabs("More", (Tab("Words", _words(alone, col)), Tab("How it was made", made)))
    strongest = Paragraph(_strongest(col))
    return Document(
        f"{item.method}: {item.target.name}",
        nodes(head, shading, strongest, Only("terminal", nodes(tables, _shown(col))), tabs),
    )


def _words(alone: Comparison, col: ScoreColumn) -> tuple[Node, ...]:
    """All words, and what was written before the explained token."""
    table: list[Table] = [word_table(alone)] if col.words else []
    return nodes(table, parts.written(alone))


def _strongest(col: ScoreColumn) -> str:
    """Strongest words: “great” (+0.754), “bad” (−0.632)."""
    labels = numbered([word.text for word in col.words])
    order = sorted(range(len(labels)), key=lambda i: -abs(col.words[i].score))[:NAMED_WORDS]
    words = [col.words[i] for i in order if math.isfinite(col.words[i].score)]
    if not words:
        return "No word has a score."
    named = zip((labels[i] for i in order), words, strict=False)
    scores = ", ".join(f"“{label}” ({col.sign(word)}{col.number(word)}{col.unit})" for label, word in named)
    sign = "" if col.item.signed else " This method gives sizes without a sign."
    return f"Strongest words: {scores}.{sign}"


def _shown(col: ScoreColumn) -> Paragraph | None:
    count = len(col.words)
    if count <= TERMINAL_WORDS:
        return None
    return Paragraph(f"{TERMINAL_WORDS} of {count} words, by highest scores.", "soft")
