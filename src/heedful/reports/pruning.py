"""How many heads can be removed, as a document: the answer, the curve with its controls, every step."""

from __future__ import annotations

from collections.abc import Sequence

from heedful.core.charts import Curve, Curves
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
from heedful.core.numbers import fixed, fixed_signed, span, with_interval
from heedful.heads.ablation.pruning_results import Pruning
from heedful.reports.notes import note_lines

TOLERANCES = (0.01, 0.05, 0.1)
TOLERANCE = 0.05  # the loss that the headline allows


def document(found: Pruning) -> Document:
    return Document(
        f"{found.model}: how many {_many(found)} can be removed",
        nodes(
            Headline(_answer(found), source=_source(found)),
            Bullets(tuple(_sentences(found))),
            _curve(found),
            _numbers(found),
            _made(found),
        ),
    )


def _many(found: Pruning) -> str:
    return "heads" if found.level == "head" else "layers"


def _source(found: Pruning) -> tuple[str | Span, ...]:
    return (Span(found.model, "strong"), f", {found.units} {_many(found)}, removed by: {found.how}")


def _answer(found: Pruning) -> str:
    gone = found.within(TOLERANCE)
    if not gone:
        return f"No {found.level} can be removed safely: the loss may be above {TOLERANCE:g}"
    return f"{gone} of {found.units} {_many(found)} can be removed with a loss of at most {TOLERANCE:g}"


def _sentences(found: Pruning) -> list[str]:
    what, (chose, measured) = _many(found), found.texts
    lines = _losses(found)
    lines.append(
        f"The {what} were chosen on {chose} texts. The loss was measured on {measured} other texts: with all "
        f"heads, {found.metric} of {found.about} is {fixed(found.base, 3)}."
    )
    if len(found.steps) < found.units:
        lines.append(f"The curve ends at {len(found.steps)} of {found.units} {what}.")
    return [*lines, *note_lines(found.notes)]


def _losses(found: Pruning) -> list[str]:
    """How much is lost at most, for each number of heads that one of the limits allows."""
    lines, said = [], 0
    for tolerance in TOLERANCES:
        gone = found.within(tolerance)
        if gone > said:
            step = next(step for step in found.steps if step.gone == gone)
            lines.append(
                f"Without {_counted(found, gone)} the loss of {found.metric} is at most {tolerance:g} (95 % "
                f"confidence). Measured: {fixed_signed(step.drop)}; with random {_many(found)}: "
                f"{fixed_signed(found.base - step.random)}."
            )
        said = max(said, gone)
    unsafe = [tolerance for tolerance in TOLERANCES if not found.within(tolerance)]
    if unsafe and found.steps:
        lines.append(
            f"Already without {_counted(found, 1)} the loss of {found.metric} may be above {unsafe[-1]:g}."
        )
    return lines


def _counted(found: Pruning, count: int) -> str:
    return f"1 {found.level}" if count == 1 else f"{count} {_many(found)}"


def _curve(found: Pruning) -> Section:
    start, steps = (0.0, found.base), found.steps
    gone = [float(step.gone) for step in steps]

    def line(name: str, values: list[float], low: Sequence[float] = (), high: Sequence[float] = ()) -> Curve:
        points = [start, *zip(gone, values, strict=True)]
        return Curve(name, points, [found.base, *low] if low else (), [found.base, *high] if high else ())

    greedy = line(
        "best first",
        [step.value for step in steps],
        [found.base - step.interval[1] for step in steps],
        [found.base - step.interval[0] for step in steps],
    )
    once = line("one-shot", [step.one_shot for step in steps])
    random = line(
        "random order",
        [step.random for step in steps],
        [step.random_range[0] for step in steps],
        [step.random_range[1] for step in steps],
    )
    chart = Curves(
        [greedy, once, random],
        f"{_many(found)} removed",
        found.metric,
        f"{found.metric} while {_many(found)} are removed",
        better="high",
    )
    what, level = _many(found), found.level
    tried = f"All {what} that are left are tried"
    if found.shortlist is not None:
        tried = f"The {found.shortlist} {what} that cost least when last tried are tried"
    lead = (
        f"Best first: each step removes the {level} that costs least. {tried}. Its band is a 95 % interval "
        f"for all steps together. One-shot: the order of single-{level} importance. Random order: mean of "
        f"{found.draws} random orders; its band goes from the lowest to the highest."
    )
    title = f"{found.metric.capitalize()} while {what} are removed"
    return Section(title, (Figure(chart, name="curve"),), lead)


def _numbers(found: Pruning) -> Fold:
    heads = ("removed", found.level, found.metric, "loss (95 %, together)", "one-shot", "random", "range")
    rows = [
        (
            str(step.gone),
            step.name,
            fixed(step.value, 3),
            with_interval(step.drop, *step.interval, fixed_signed),
            fixed(step.one_shot, 3),
            fixed(step.random, 3),
            span(*step.random_range, lambda value: fixed(value, 3)),
        )
        for step in found.steps
    ]
    lead = "Measured on the texts that were not used to choose. Range: lowest to highest random order."
    return Fold("Every step", (Paragraph(lead, "soft"), text_table("Every step", heads, rows)))


def _made(found: Pruning) -> Fold:
    facts = (
        ("model", found.model),
        ("texts to choose, texts to measure", f"{found.texts[0]:,}, {found.texts[1]:,}"),
        (f"{found.metric} with all heads, on the texts to choose", fixed(found.base_chosen, 3)),
        ("removed by", found.how),
        ("tried at each step", "all" if found.shortlist is None else str(found.shortlist)),
        ("random orders", str(found.draws)),
        ("order of one-shot", ", ".join(found.one_shot)),
        ("seed", str(found.seed)),
    )
    return Fold("How this was made", (Facts(facts),))
