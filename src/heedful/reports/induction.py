"""Induction heads as a document: which heads there are, each with its control, and what the model gains."""

from __future__ import annotations

from collections.abc import Sequence

from heedful.core.charts import Forest, Line
from heedful.core.document import (
    Bullets,
    Document,
    Facts,
    Figure,
    Fold,
    Headline,
    Node,
    Paragraph,
    Section,
    Span,
    nodes,
    text_table,
)
from heedful.core.numbers import fixed, fixed_signed, span
from heedful.heads.roles.induction import ROLES, AttentionShare, HeadRole, Induction
from heedful.reports.notes import note_lines

MAX_HEADS = 12  # drawn of a role
TARGETS = {"induction": "the token after the same token", "duplicate": "the same token"}


def document(found: Induction) -> Document:
    source = (
        Span(found.model, "strong"),
        f", {len(found.heads)} heads, {found.draws} texts of {found.period} random tokens, read twice",
    )
    return Document(
        f"{found.model}: induction heads",
        nodes(
            Headline(_answer(found), source=source),
            Bullets((_loss(found), _control(found), *note_lines(found.notes))),
            [_role(found, role) for role in TARGETS],
            _numbers(found),
            _made(found),
        ),
    )


def _answer(found: Induction) -> str:
    counts = {role: len(found.named(role)) for role in TARGETS}
    return (
        f"{counts['induction'] or 'No'} induction heads, {counts['duplicate'] or 'no'} duplicate-token heads"
    )


def _loss(found: Induction) -> str:
    loss = found.loss
    return (
        f"Loss per token: {fixed(loss.first)} in the first copy, {fixed(loss.second)} in the second; change "
        f"{fixed_signed(loss.change, 2)} ({span(*loss.interval, fixed_signed)}), without repetition "
        f"{fixed_signed(loss.control, 2)}. A change below 0 means that the model uses the repetition."
    )


def _control(found: Induction) -> str:
    return (
        "Control: the same head on texts with a fresh second half. Uniform attention would give "
        f"{fixed(found.uniform, 3)}. Attention shows where a head looks, not that the copying comes from it."
    )


def _role(found: Induction, role: str) -> Section:
    heads = found.named(role)
    title = f"{role.capitalize()} heads: {len(heads) or 'none'}"
    if not heads:
        return Section(title, (), _nearest(found, role))
    inside: tuple[Node, ...] = (Figure(_chart(heads[:MAX_HEADS], role), name=role),)
    more = len(heads) - MAX_HEADS
    if more > 0:
        inside += (Paragraph(f"And {more} more: see the numbers.", "soft"),)
    lead = (
        f"They look at {TARGETS[role]}. The dot is the attention beyond the control, with its interval for "
        "all heads together."
    )
    return Section(title, inside, lead)


def _chart(heads: Sequence[HeadRole], role: str) -> Forest:
    lines = []
    for head in heads:
        share: AttentionShare = getattr(head, role)
        lines.append(Line(_name(head), share.value - share.control, *share.interval))
    return Forest(lines, f"attention to {TARGETS[role]}, minus control", f"{role.capitalize()} heads")


def _name(head: HeadRole) -> str:
    return f"layer {head.layer} head {head.head}"


def _nearest(found: Induction, role: str) -> str:
    best = max(found.heads, key=lambda head: getattr(head, role).value - getattr(head, role).control)
    share: AttentionShare = getattr(best, role)
    return (
        f"For no head is the attention to {TARGETS[role]} significantly more than {found.margin:g} above its "
        f"control. Nearest is {_name(best)}: {fixed(share.value, 3)}, control {fixed(share.control, 3)}."
    )


def _numbers(found: Induction) -> Fold:
    heads = ["head", *(f"{role}, control, difference" for role in ROLES), "roles"]
    order = sorted(found.heads, key=lambda head: (not head.roles, -head.induction.value))
    rows = [
        [f"{head.layer}.{head.head}", *(_cell(getattr(head, role)) for role in ROLES), ", ".join(head.roles)]
        for head in order
    ]
    lead = "Heads with a role first, then by induction score. The control of previous is uniform attention."
    return Fold("The numbers", (Paragraph(lead, "soft"), text_table("Every head", heads, rows)))


def _cell(share: AttentionShare) -> str:
    return f"{fixed(share.value, 3)}, {fixed(share.control, 3)}, {span(*share.interval, fixed_signed)}"


def _made(found: Induction) -> Fold:
    facts = (
        ("model", found.model),
        ("tokens of the text that is repeated", str(found.period)),
        ("random texts", str(found.draws)),
        ("least attention beyond the control that names a head", f"{found.margin:g}"),
        ("seed", str(found.seed)),
    )
    return Fold("How this was made", (Facts(facts),))
