"""How many heads can go, as a document: the answer, the curve with its controls, every step."""

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
from heedful.core.numbers import fixed, fixed_signed, span
from heedful.heads.ablation.pruning_results import Pruning
from heedful.reports.notes import note_lines

TOLERANCES = (0.01, 0.05, 0.1)


def document(found: Pruning) -> Document:
    return Document(
        f"{found.model}: how many {_many(found)} can go",
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
    return f"{found.within(0.05)} of {found.units} {_many(found)} can go at a loss of 0.05 or less"


def _sentences(found: Pruning) -> list[str]:
    what, (chose, measured) = _many(found), found.texts
    lines = [
        f"A loss of {found.metric} above {tolerance:g} is ruled out up to {found.within(tolerance)} {what} "
        "gone."
        for tolerance in TOLERANCES
    ]
    lines.append(
        f"{chose} texts chose the {what}, {measured} other texts measured {found.metric} of {found.about}: "
        f"{fixed(found.base, 3)} with all heads."
    )
    if len(found.steps) < found.units:
        lines.append(f"{len(found.steps)} of {found.units} steps were taken.")
    return [*lines, *note_lines(found.notes)]


def _curve(found: Pruning) -> Section:
    start, steps = (0.0, found.base), found.steps
    gone = [float(step.gone) for step in steps]

    def line(name: str, values: list[float], low: Sequence[float] = (), high: Sequence[float] = ()) -> Curve:
        points = [start, *zip(gone, values, strict=True)]
        return Curve(name, points, [found.base, *low] if low else (), [found.base, *high] if high else ())

    greedy = line(
        "least missed first",
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
    tried = f"all {_many(found)} left" if found.shortlist is None else f"the {found.shortlist} missed least"
    lead = (
        f"Least missed first: at each step the best of {tried} goes; the band is its 95 % interval for all "
        f"steps together. One-shot: the order of single-{found.level} importance. Random order: mean of "
        f"{found.draws} draws, the band from the lowest to the highest."
    )
    return Section(
        f"{found.metric.capitalize()} while {_many(found)} go", (Figure(chart, name="curve"),), lead
    )


def _numbers(found: Pruning) -> Fold:
    heads = ("gone", found.level, found.metric, "drop (95 %, together)", "one-shot", "random", "of draws")
    rows = [
        (
            str(step.gone),
            step.name,
            fixed(step.value, 3),
            f"{fixed_signed(step.drop)} ({span(*step.interval, fixed_signed)})",
            fixed(step.one_shot, 3),
            fixed(step.random, 3),
            span(*step.random_range, lambda value: fixed(value, 3)),
        )
        for step in found.steps
    ]
    lead = "On the texts that did not choose."
    return Fold("Every step", (Paragraph(lead, "soft"), text_table("Every step", heads, rows)))


def _made(found: Pruning) -> Fold:
    facts = (
        ("model", found.model),
        ("texts that chose, that measured", f"{found.texts[0]:,}, {found.texts[1]:,}"),
        (f"{found.metric} with all heads, on the texts that chose", fixed(found.base_chosen, 3)),
        ("removed by", found.how),
        ("tried at each step", "all" if found.shortlist is None else str(found.shortlist)),
        ("random orders", str(found.draws)),
        ("order of one-shot", ", ".join(found.one_shot)),
        ("seed", str(found.seed)),
    )
    return Fold("How this was made", (Facts(facts),))
