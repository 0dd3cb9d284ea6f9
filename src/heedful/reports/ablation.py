"""One text without some heads, as a document: whether the answer changed, compared with random heads."""

from __future__ import annotations

from heedful.core.charts import Forest, Line
from heedful.core.document import Bullets, Document, Figure, Headline, Node, nodes, text_table
from heedful.core.numbers import fixed, fixed_signed
from heedful.heads.ablation.ablate_text import AblationResult, Prediction
from heedful.reports.notes import note_lines

MANY = 8  # heads named in a line


def document(found: AblationResult) -> Document:
    return Document("Without some heads", summary(found))


def summary(found: AblationResult) -> tuple[Node, ...]:
    """All of it, also for a document that shows more."""
    named = ", ".join(found.heads[:MANY]) + (", ..." if len(found.heads) > MANY else "")
    source = f"Without {named} ({len(found.heads)} of {found.of} heads, replaced by: {found.how})"
    rows = [["with all heads", _said(found.before)], ["without these heads", _said(found.after)]]
    table = (
        text_table("What the model says", ("", "the model says"), rows, words=True) if found.before else None
    )
    return nodes(
        Headline(_answer(found), source=source), table, Bullets(tuple(_sentences(found))), _chart(found)
    )


def _answer(found: AblationResult) -> str:
    if found.changed is None:
        return (
            f"{found.metric.capitalize()} falls by {fixed(found.drop, 3)}"
            if found.metric
            else "No prediction"
        )
    return "The answer changes" if found.changed else "The answer stays the same"


def _said(prediction: Prediction) -> str:
    """Labels with their values; a written text has none."""
    return ", ".join(
        f"{name!r}" if value != value else f"{name} {fixed(value, 3)}" for name, value in prediction
    )


def _sentences(found: AblationResult) -> list[str]:
    lines = []
    if found.metric:
        lines.append(
            f"{found.metric} of {found.about}: {fixed(found.value, 3)} with all heads, drop "
            f"{fixed_signed(found.drop)} without these."
        )
    if found.draws:
        low, high = found.random_range
        others = "a random head" if len(found.heads) == 1 else f"{len(found.heads)} random heads"
        lines.append(
            f"Control, without {others} ({found.draws} draws): drop {fixed_signed(found.random)}, from "
            f"{fixed_signed(low)} to {fixed_signed(high)}."
        )
    return [*lines, *note_lines(found.notes)]


def _chart(found: AblationResult) -> Figure | None:
    if not found.draws:
        return None
    low, high = found.random_range
    lines = (Line("these heads", found.drop), Line("random heads", found.random, low, high))
    title = f"Drop of {found.metric} without these heads and without random heads"
    chart = Forest(lines, f"drop of {found.metric}", title)
    return Figure(chart, "The line of random heads goes from the lowest to the highest draw.", "drop")
