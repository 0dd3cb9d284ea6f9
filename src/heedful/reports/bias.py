"""Heads and pronouns as a document: whether attention moves with the pronoun, each head with its control."""

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
from heedful.core.numbers import fixed, fixed_signed, p_value, span, with_interval
from heedful.heads.roles.pronoun_bias import Bias, HeadBias, MeanBias
from heedful.reports.notes import note_lines

MAX_HEADS = 12  # drawn
LEAST = 3  # drawn where no head moves for sure


def document(found: Bias) -> Document:
    source = (
        Span(found.model, "strong"),
        f", {len(found.heads)} heads, {found.templates} templates in four variants",
    )
    return Document(
        f"{found.model}: heads and pronouns",
        nodes(
            Headline(_answer(found), source=source),
            Bullets(tuple(_sentences(found))),
            _figure(found),
            _numbers(found),
            _made(found),
        ),
    )


def _answer(found: Bias) -> str:
    moved = len(found.moved())
    if not moved:
        return "No head moves significantly with the pronoun"
    return f"{moved} of {len(found.heads)} heads move with the pronoun"


def _largest(found: Bias) -> list[HeadBias]:
    return sorted(found.heads, key=lambda head: -abs(head.pronoun.value))


def _sentences(found: Bias) -> list[str]:
    lines = [
        f"The largest effect of a head is {fixed(abs(_largest(found)[0].pronoun.value), 3)}. With pronoun "
        f"labels drawn at random, the largest of any head stays below {fixed(found.control, 3)} in 95 % of "
        "draws.",
    ]
    if found.preference is not None:
        result = found.preference
        lines.append(
            "Where the pronoun is due, the logit of pronoun 1 minus that of pronoun 2 is "
            f"{fixed_signed(result.value, 2)} ({span(*result.interval, fixed_signed)}); with a first "
            f"minus with b first: {fixed_signed(result.roles, 2)} "
            f"({span(*result.roles_interval, fixed_signed)})."
        )
    lines.append("Attention that moves is not yet harm: it shows where to look next.")
    return [*lines, *note_lines(found.notes)]


def _figure(found: Bias) -> Section:
    heads = found.moved()[:MAX_HEADS] or _largest(found)[:LEAST]
    rows = [("all heads", found.overall), *((f"layer {h.layer} head {h.head}", h) for h in heads)]
    lines = [Line(name, head.pronoun.value, *head.pronoun.interval) for name, head in rows]
    axis = "share of attention on a, pronoun 1 minus pronoun 2"
    lead = (
        "Attention from the pronoun to the words a or b, as the share of a. The dot says how it moves when "
        "only the pronoun changes, with intervals for all heads together."
    )
    chart = Forest(lines, axis, "Effect of the pronoun on the share of a")
    return Section("How attention moves with the pronoun", (Figure(chart, name="pronoun"),), lead)


def _numbers(found: Bias) -> Fold:
    heads = ("head", "to a or b", "share of a", "pronoun", "p", "place")
    rows = [("all", *_row(found.overall)), *((f"{h.layer}.{h.head}", *_row(h)) for h in _largest(found))]
    lead = (
        "Pronoun: pronoun 1 minus pronoun 2. Place: a first minus b first. Intervals and p are for all heads "
        "together. Largest effect first."
    )
    return Fold("The numbers", (Paragraph(lead, "soft"), text_table("Every head", heads, rows)))


def _row(head: HeadBias) -> tuple[str, ...]:
    p = p_value(head.pronoun.p)
    return fixed(head.mass, 3), fixed(head.share, 3), _effect(head.pronoun), p, _effect(head.roles)


def _effect(mean: MeanBias) -> str:
    return with_interval(mean.value, *mean.interval, fixed_signed)


def _made(found: Bias) -> Fold:
    facts = (("model", found.model), ("templates", str(found.templates)), ("seed", str(found.seed)))
    return Fold("How this was made", (Facts(facts),))
