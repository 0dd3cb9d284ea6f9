"""Before and after a steer as a document: whether the text changed or broke, then the texts side by side."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from heedful.core.document import Bullets, Document, Group, Headline, Paragraph, Section, Span, nodes
from heedful.core.numbers import by_size, percent
from heedful.features.steering.results import BROKEN, MAX_REPETITION, Continuation, Sides, TextChange
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
    before, after = percent(sides.before.repetition), percent(sides.after.repetition)
    repeats = f"({after} of trigrams, {before} before)"
    return {
        TextChange.NONE: "The steer changed no token",
        TextChange.BROKEN: "The steered text breaks",
        TextChange.REPEATS: f"The steered text repeats itself {repeats}",
        TextChange.REPEATS_MORE: f"The text changed. It repeats itself more {repeats}",
        TextChange.CHANGED: "The text changed and did not break",
    }[sides.change]


def _judged(sides: Sides) -> str:
    """By the same limits as a sweep and the slider of the page; one text is little evidence."""
    repeats = sides.before.repetition > MAX_REPETITION
    before = " The text before the steer repeats itself, too." if repeats else ""
    if math.isnan(sides.ratio):
        return f"The perplexity of the two texts cannot be compared.{before}"
    return (
        f"The perplexity of the steered text is {by_size(sides.ratio)} × that of the text before (over "
        f"{BROKEN:g} × counts as broken). {percent(sides.after.repetition)} of its trigrams are repeats, "
        f"{percent(sides.before.repetition)} before (over {percent(MAX_REPETITION)} counts as repeating "
        f"itself).{before} This is one text: --sweep measures many."
    )


def _set(how: Any) -> str:
    """Which features were set."""
    if not isinstance(how, Mapping):
        return ""
    return ", " + ", ".join(f"feature {feature} set to {value}" for feature, value in how.items())


def _side(name: str, side: Continuation) -> Section:
    repeats = percent(side.repetition)
    lead = f"Perplexity under the unsteered model {by_size(side.perplexity)}, repeated trigrams {repeats}."
    return Section(name.capitalize(), (Paragraph(side.text, "quote"),), lead)
