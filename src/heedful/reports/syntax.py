"""Heads and syntax as a document: where a head beats the best fixed offset, by how much, every relation."""

from __future__ import annotations

from heedful.core.charts import Forest, Line
from heedful.core.document import (
    Bullets,
    Document,
    Facts,
    Figure,
    Fold,
    Headline,
    Paragraph,
    Section,
    Span,
    nodes,
    text_table,
)
from heedful.core.numbers import fixed, fixed_signed, span
from heedful.heads.roles.syntax import HeadAccuracy, Relation, Syntax
from heedful.reports.notes import note_lines

MAX_RELATIONS = 20  # drawn


def document(found: Syntax) -> Document:
    source = (
        Span(found.model, "strong"),
        f", {found.sentences} sentences, relations with at least {found.least} examples",
    )
    return Document(
        f"{found.model}: do heads follow syntax?",
        nodes(
            Headline(_answer(found), source=source),
            Bullets(tuple(_sentences(found))),
            _figure(found),
            _numbers(found),
            _made(found),
        ),
    )


def _answer(found: Syntax) -> str:
    sure = sum(row.crossed.interval[0] > 0 for row in found.relations)
    if not sure:
        return "No head beats the best fixed offset"
    return f"In {sure} of {len(found.relations)} relations a head beats the best fixed offset"


def _sentences(found: Syntax) -> list[str]:
    return [
        "A head is right for a word if, of all other words, it attends most to the word's syntactic head "
        "(to), or if the syntactic head attends most to the word (from).",
        "Head and offset were chosen on one half of the sentences and measured on the other. Naive: both on "
        "all sentences, which is too high.",
        "Each interval is for its own relation: of 40 relations without an effect about one is above 0 by "
        "chance.",
        *note_lines(found.notes),
    ]


def _figure(found: Syntax) -> Section:
    shown = found.relations[:MAX_RELATIONS]
    lines = [
        Line(
            f"{row.relation} {_head(row)}",
            100 * row.crossed.gain,
            *(100 * end for end in row.crossed.interval),
        )
        for row in shown
    ]
    chart = Forest(
        lines, "gain over the best offset, percentage points", "Gain of the best head", better="high"
    )
    more = len(found.relations) - len(shown)
    left = f" {more} more relations are in the numbers." if more else ""
    lead = f"The best head of each relation, with 95 % intervals over sentences.{left}"
    return Section("Gain over the best fixed offset", (Figure(chart, name="gain"),), lead)


def _head(row: Relation) -> str:
    return f"{row.layer}-{row.head} {row.direction}" + ("" if row.agreed else " ?")


def _numbers(found: Syntax) -> Fold:
    heads = ("relation", "n", "head", "right", "offset", "gain, 95 %", "naive", "chance")
    rows = [
        (
            row.relation,
            f"{row.n:,}",
            _head(row),
            _percent(row.crossed.accuracy),
            _percent(row.crossed.baseline),
            _gain(row.crossed),
            _percent(row.naive.accuracy),
            _percent(row.chance),
        )
        for row in found.relations
    ]
    lead = (
        "% of words. Right: the head. Offset: the best fixed offset. ?: the two halves chose different "
        "heads; the one named is the best on all sentences."
    )
    table = text_table("Every relation", heads, rows)
    return Fold("The numbers", (Paragraph(lead, "soft"), table), opened=True)


def _gain(choice: HeadAccuracy) -> str:
    low, high = (100 * end for end in choice.interval)
    ends = span(low, high, lambda value: fixed_signed(value, 1))
    return f"{fixed_signed(100 * choice.gain, 1)} ({ends})"


def _percent(share: float) -> str:
    return fixed(100 * share, 1)


def _made(found: Syntax) -> Fold:
    facts = (
        ("model", found.model),
        ("sentences", str(found.sentences)),
        ("fewest examples of a relation", str(found.least)),
        ("seed", str(found.seed)),
    )
    return Fold("How this was made", (Facts(facts),))
