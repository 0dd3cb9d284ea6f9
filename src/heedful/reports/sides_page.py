"""One HTML file for before | after: no script, nothing fetched, every string escaped."""

from __future__ import annotations

from heedful.core.numbers import by_size
from heedful.features.steering.results import Continuation, Sides
from heedful.reports.comparison_page import cell, document
from heedful.reports.html_parts import esc, part
from heedful.reports.steer_page import STYLE, made


def page(sides: Sides) -> str:
    """A self-contained HTML5 document."""
    title = f"{sides.model.get('name')}: before and after"
    return document(title, body(sides, 1), style=STYLE)


def fragment(sides: Sides) -> str:
    """The same body for a notebook cell."""
    return cell(body(sides, 3), STYLE)


def body(sides: Sides, size: int) -> str:
    """Before beside after; `size` is the heading level of the headline."""
    kicker = f'<p class="kicker"><b>{esc(sides.model.get("name"))}</b> after “{esc(sides.prompt)}”</p>'
    notes = list(sides.notes) + (["The steer changed no token."] if sides.same else [])
    lines = "".join(f"<li>{esc(line)}</li>" for line in notes)
    title = f'<h{size} class="verdict">Before and after</h{size}>'
    head = f'<header>{kicker}{title}<ul class="sentences">{lines}</ul></header>'
    drawn = "".join(_side(name, side, size + 1) for name, side in sides.columns.items())
    settings = {**sides.settings, "mean length of what was added to a position": by_size(sides.size)}
    how = made(sides.model, settings, size + 1)
    return f'{head}\n<div class="sides">{drawn}</div>\n{how}'


def _side(name: str, side: Continuation, size: int) -> str:
    lead = f"Perplexity under the unsteered model {by_size(side.perplexity)}, repeats {side.repetition:.0%}."
    return part(
        name.replace(" ", "-"), name.capitalize(), lead, f'<p class="said">{esc(side.text)}</p>', size
    )
