"""Before and after a steer as a document: whether the text changed or broke, then the texts side by side."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from heedful.core.document import Bullets, Document, Group, Headline, Paragraph, Section, Span, nodes
from heedful.core.numbers import by_size
from heedful.features.steering.results import BROKEN, MAX_REPETITION, Continuation, Sides
from heedful.reports.steer import made


def document(sides: Sides) -> Document:
    settings = {**sides.settings, "mean length of what was added to a position": by_size(sides.size)}
    columns = tuple(_side(name, side) for name, side in sides.columns.items())
    return Document(
        f"{sides.model.get('name')}: before and after",
        nodes(
            Headline(_answer(sides), source=_source(sides)),
            Bullets((_judged(sides), *sides.notes)),
            Group(columns, "sides"),
            made(sides.model, settings),
        ),
    )


def _source(sides: Sides) -> tuple[str | Span, ...]:
    return (
        Span(str(sides.model.get("name")), "strong"),
        f"{_set(sides.settings.get('how'))}, after “{sides.prompt}”",
    )


def _answer(sides: Sides) -> str:
    if sides.same:
        return "The steer changed no token"
    if _ratio(sides) > BROKEN:
        return "The steered text breaks"
    return (
        "The steered text repeats itself" if _repeats(sides.after) else "The text changed and did not break"
    )


def _ratio(sides: Sides) -> float:
    before, after = sides.before.perplexity, sides.after.perplexity
    return after / before if before > 0 and math.isfinite(after) else math.nan


def _repeats(side: Continuation) -> bool:
    return side.repetition > MAX_REPETITION


def _judged(sides: Sides) -> str:
    """By the same two limits as a sweep; one text is little evidence."""
    before = " The text before the steer repeats itself, too." if _repeats(sides.before) else ""
    ratio = _ratio(sides)
    if math.isnan(ratio):
        return f"The perplexity of the two texts cannot be compared.{before}"
    return (
        f"The unsteered model's perplexity of the steered text is {by_size(ratio)} × that of the text "
        f"before; over {BROKEN:g} × counts as broken. {sides.after.repetition:.0%} of its trigrams are "
        f"repeats; over {MAX_REPETITION:.0%} counts as repeating itself.{before} This is one text: --sweep "
        "measures many."
    )


def _set(how: Any) -> str:
    """Which features were set."""
    if not isinstance(how, Mapping):
        return ""
    return ", " + ", ".join(f"feature {feature} set to {value}" for feature, value in how.items())


def _side(name: str, side: Continuation) -> Section:
    lead = f"Perplexity under the unsteered model {by_size(side.perplexity)}, repeats {side.repetition:.0%}."
    return Section(name.capitalize(), (Paragraph(side.text, "quote"),), lead)
