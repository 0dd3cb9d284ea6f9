"""What heads are worth, as a document: how many help or harm, one dot with interval per head."""

from __future__ import annotations

from collections.abc import Sequence

from heedful.core.charts import Forest, Line
from heedful.core.document import (
    Bullets,
    Cell,
    Column,
    Document,
    Facts,
    Figure,
    Fold,
    Headline,
    Paragraph,
    Row,
    Section,
    Span,
    Table,
    nodes,
)
from heedful.core.numbers import fixed, fixed_signed, p_value, span
from heedful.core.phrases import listed
from heedful.heads.ablation.importance_results import Importance, Unit
from heedful.reports.notes import note_lines

MAX_HEADS = 10  # drawn from each end of the ranking
EFFECTS = {1: "helps", -1: "better without", 0: ""}
STYLES = {1: "strong", -1: "bad", 0: ""}


def document(found: Importance) -> Document:
    return Document(
        f"{found.model}: what each {found.level} is worth",
        nodes(
            Headline(_answer(found), source=_source(found)),
            Bullets(tuple(_sentences(found))),
            _figure(found),
            _numbers(found),
            _made(found),
        ),
    )


def _many(found: Importance) -> str:
    return "heads" if found.level == "head" else "layers"


def _source(found: Importance) -> tuple[str | Span, ...]:
    return (Span(found.model, "strong"), f", {len(found.units)} {_many(found)}, {found.texts} texts")


def _answer(found: Importance) -> str:
    helps, harms, what = len(found.helps), len(found.improves), _many(found)
    harm = f"{harms} {'does' if harms == 1 else 'do'} harm" if harms else "none is shown to do harm"
    return f"{helps} of {len(found.units)} {what} {'helps' if helps == 1 else 'help'}; {harm}"


def _sentences(found: Importance) -> list[str]:
    what, better = _many(found), [unit.name for unit in found.improves]
    lines = []
    if better:
        more = f" and {len(better) - MAX_HEADS} more" if len(better) > MAX_HEADS else ""
        lines.append(f"The model does better without {listed(better[:MAX_HEADS])}{more} (each alone).")
    else:
        lines.append(f"No {found.level} was shown to do harm.")
    merely = sum(unit.drops[found.metric].value < 0 for unit in found.unclear)
    lines.append(
        f"{len(found.unclear)} {what} cannot be distinguished from {what} that do nothing ({merely} of these "
        "seem to do harm)."
    )
    for reference in found.references:
        ends = span(*reference.intervals[found.metric], lambda value: fixed_signed(value, 4))
        drop = fixed_signed(reference.drops[found.metric], 4)
        lines.append(f"For scale, removing {reference.name}: drop {drop} ({ends}).")
    base = ", ".join(f"{name} {fixed(value, 3)}" for name, value in found.base.items())
    lines.append(f"With all heads: {base}, of {found.about}. Removed by: {found.how}.")
    return [*lines, *note_lines(found.notes)]


def _figure(found: Importance) -> Section:
    """Both ends of the ranking."""
    ranked, what, metric = found.ranked(), _many(found), found.metric
    some = ranked if len(ranked) <= 2 * MAX_HEADS else ranked[:MAX_HEADS] + ranked[-MAX_HEADS:]
    lines = [Line(u.name, u.drops[metric].value, *u.drops[metric].interval) for u in some]
    title = f"Drop of {metric} without each {found.level}"
    chart = Forest(lines, f"drop of {metric} without it (above 0: it helps)", title)
    middle = len(ranked) - len(some)
    left = f" {middle} {what} between them are in the numbers." if middle else ""
    lead = (
        f"Largest drop first, with 95 % intervals for all {what} together. Random signs would show drops up "
        f"to {fixed(found.chance[metric], 4)}.{left}"
    )
    return Section(f"Drop of {metric} without each {found.level}", (Figure(chart, name="drops"),), lead)


def _numbers(found: Importance) -> Fold:
    others = [name for name in found.metrics if name != found.metric]
    columns = (
        Column(found.level),
        Column(f"drop of {found.metric}", "95 %, together"),
        Column("p"),
        *(Column(f"drop of {name}") for name in others),
        Column("gradient"),
        Column("effect", words=True),
    )
    rows = tuple(_row(unit, found, others) for unit in found.ranked())
    lead = f"p is of no effect, for all {_many(found)} together."
    if found.agreement is not None:
        lead += (
            f" Gradient: how much a {found.level} moves the metric, in either direction, to first order; its "
            f"Spearman correlation with the size of the drop is {fixed(found.agreement)}."
        )
    table = Table(f"Every {found.level}", columns, rows, sortable=True)
    return Fold("The numbers", (Paragraph(lead, "soft"), table))


def _row(unit: Unit, found: Importance, others: Sequence[str]) -> Row:
    drop, effect = unit.drops[found.metric], unit.effect(found.metric)
    ends = f"({span(*drop.interval, lambda value: fixed_signed(value, 4))})"
    more = (Cell(fixed_signed(unit.drops[name].value, 4), value=unit.drops[name].value) for name in others)
    slope = (
        Cell("–") if unit.sensitivity is None else Cell(fixed(unit.sensitivity, 4), value=unit.sensitivity)
    )
    return Row(
        (
            Cell(unit.name),
            Cell(fixed_signed(drop.value, 4), ends, value=drop.value, style=STYLES[effect]),
            Cell(p_value(drop.p), value=drop.p),
            *more,
            slope,
            Cell(EFFECTS[effect]),
        )
    )


def _made(found: Importance) -> Fold:
    facts = (
        ("model", f"{found.model} ({found.model_kind})"),
        ("texts", f"{found.texts:,}"),
        ("model inputs", f"{found.rows:,}"),
        ("removed by", found.how),
        ("metrics", f"{', '.join(found.metrics)} of {found.about}"),
        ("seed", str(found.seed)),
    )
    return Fold("How this was made", (Facts(facts),))
