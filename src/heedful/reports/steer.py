"""A sweep over strength as a document: where the text breaks, what is gained for what is lost, the texts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from heedful.core.charts import Curve, Curves, Scatter, Series
from heedful.core.command_line import stored_line
from heedful.core.document import (
    Bullets,
    Cell,
    Code,
    Column,
    Document,
    Facts,
    Figure,
    Fold,
    Headline,
    Node,
    Only,
    Paragraph,
    Row,
    Section,
    Span,
    Table,
    nodes,
    text_table,
)
from heedful.core.evidence import MeasuredValue
from heedful.core.numbers import by_size, with_interval
from heedful.features.steering.results import BROKEN, MAX_REPETITION, Sweep, SweepPoint

NAMED = {"how": "times the direction is added", "max_new_tokens": "tokens written at most"}
UNSTEERED = "unsteered"


def document(sweep: Sweep) -> Document:
    name = str(sweep.model.get("name"))
    return Document(
        f"{name}: how far can it be steered?",
        nodes(
            Headline(_answer(sweep), source=_source(sweep)),
            Bullets(tuple(sweep.sentences())),
            Only("html", (_trade(sweep),)),  # a terminal has its numbers in the table
            _repeats(sweep),
            _first_prompt(sweep),
            _numbers(sweep),
            _texts(sweep),
            made(sweep.model, sweep.settings),
        ),
    )


def _source(sweep: Sweep) -> tuple[str | Span, ...]:
    count = len(sweep.prompts)
    place = f" steered at {sweep.settings.get('site')}, {count} prompt{'s' * (count != 1)}"
    return (Span(str(sweep.model.get("name")), "strong"), place)


def _answer(sweep: Sweep) -> str:
    """Where the text of the first method breaks, or that it does not."""
    if not sweep.methods:
        return "Nothing was steered"
    strengths = [point.strength for point in sweep.of(sweep.methods[0])]
    at = sweep.breaks()
    if at is None:
        circles = None if sweep.base.looping else sweep.loops()
        text, more = f"The text does not break up to {strengths[-1]}", sweep.repeats_more()
        if circles:
            return f"{text}, but repeats itself from {circles} on"
        return text + (f", but repeats itself more from {more} on" if more else "")
    before = strengths[: strengths.index(at)]
    return f"The text breaks at {at}" + (f"; up to {before[-1]} it does not" if before else "")


def _trade(sweep: Sweep) -> Section:
    """What is gained for what is lost."""
    series = [
        Series(method, [_traded(point) for point in (sweep.base, *sweep.of(method))], joined=True)
        for method in sweep.methods
    ]
    lead = (
        "Higher: the feature is present on more of the text. Further right: the unsteered model finds the "
        f"text less likely; over {math.log10(BROKEN):.2f} the text counts as broken. Every line starts at "
        "the unsteered texts."
    )
    chart = Scatter(
        series,
        "perplexity of the text, log10 of the ratio to unsteered (lower is better)",
        "presence of the feature",
        "Presence against perplexity",
        better="high",
    )
    return Section("What is gained, and what it costs", (Figure(chart, name="trade"),), lead)


def _traded(point: SweepPoint) -> tuple[float, float]:
    ratio = point.ratio.value
    return math.log10(ratio) if ratio > 0 else math.nan, point.presence.value


def _repeats(sweep: Sweep) -> Section:
    def curve(method: str) -> Curve:
        points = (sweep.base, *sweep.of(method))
        return Curve(method, [(point.size, point.repetition.value) for point in points])

    lead = (
        "Methods are compared at the same size: the mean length of what each adds to a position is the same. "
        f"Over {MAX_REPETITION:g} the text counts as repeating itself."
    )
    chart = Curves(
        [curve(method) for method in sweep.methods],
        "mean length of what is added to a position",
        "share of repeated trigrams",
        "Repetition against size",
        better="low",
    )
    return Section("Does it repeat itself?", (Figure(chart, name="repetition"),), lead)


def _first_prompt(sweep: Sweep) -> Section | None:
    """What the first method writes to one prompt, from weak to strong."""
    first = next(iter(sweep.base.texts), None)
    if first is None:
        return None
    rows = []
    for point in sweep.points:
        if point is not sweep.base and point.method != sweep.methods[0]:
            continue
        text = next((w.text for w in point.texts if w.prompt == first.prompt), "")
        mark = "broken" if point.broken else "repeats itself" if point.looping else ""
        name = UNSTEERED if point is sweep.base else point.strength
        rows.append(Row((Cell(name), Cell(text, style="wrap said"), Cell(mark))))
    columns = (Column("strength"), Column("text", words=True), Column("judged", words=True))
    table = Table("What is written to one prompt", columns, tuple(rows), style="texts")
    return Section(f"After “{sweep.prompts[first.prompt]}”", (table,))


def _numbers(sweep: Sweep) -> Fold:
    heads = ("strength", "method", "added", "perplexity", "× unsteered", "presence", "repeats")
    rows = [[point.strength, *_row(point)] for point in sweep.points]
    table = text_table("Every number", heads, rows)
    lead = "Perplexity is that of the unsteered model."
    if len(sweep.prompts) > 1:
        lead = f"Means over prompts, with 95 % intervals. {lead}"
    return Fold("The numbers", (Paragraph(lead, "soft"), table), opened=True)


def _row(point: SweepPoint) -> tuple[str, ...]:
    """The cells of a point after its strength."""
    numbers = (point.perplexity, point.ratio, point.presence, point.repetition)
    return (point.method, by_size(point.size), *map(_ranged, numbers))


def _ranged(mean: MeasuredValue) -> str:
    """A mean, and its interval where there is one."""
    if mean.low == mean.high:
        return by_size(mean.value)
    return with_interval(mean.value, mean.low, mean.high, by_size)


def _texts(sweep: Sweep) -> Fold:
    rows = [
        [point.strength, point.method, sweep.prompts[w.prompt], w.text]
        for point in sweep.points
        for w in point.texts
    ]
    heads = ("strength", "method", "prompt", "text")
    return Fold("Every text", (text_table("Every text", heads, rows, words=True),))


# --- how it was made, of a sweep and of one text -------------------------------------------------------


def made(model: Mapping[str, Any], settings: Mapping[str, Any]) -> Fold:
    """Model, SAE, features and settings by name, then the command where one was typed."""
    facts = [("model" if name == "name" else name, value) for name, value in model.items()]
    for name, value in settings.items():
        if name != "command":
            facts += _facts(name, value) if isinstance(value, Mapping) else [(NAMED.get(name, name), value)]
    pairs = tuple((name, _plain(name, value)) for name, value in facts if value not in (None, ""))
    inside: list[Node] = [Facts(pairs)]
    if command := stored_line(settings.get("command")):
        inside.append(Code(command, "Reproduce this"))
    return Fold("How this was made", tuple(inside))


def _facts(name: str, values: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """A mapping as facts: {"268": "2x"} of "how" is feature 268 set to 2x."""
    if name == "how":
        return [(f"feature {feature}", f"set to {value}") for feature, value in values.items()]
    if name == "fires on":
        return [(f"feature {feature} fires most on", value) for feature, value in values.items()]
    name = "SAE" if name == "dictionary" else name
    return [(name if key == "name" else f"{name}, {key}", value) for key, value in values.items()]


def _plain(name: str, value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    number = isinstance(value, int) and not isinstance(value, bool) and name != "seed"
    return f"{value:,}" if number else str(value)
