"""One HTML file for a sweep over strength, or for before | after: no script, nothing fetched, all escaped."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from heedful.features.steering.results import BROKEN, Sweep, SweepPoint
from heedful.reports.charts.forest_scatter import Series, scatter
from heedful.reports.comparison_page import cell, document
from heedful.reports.comparison_sections import again
from heedful.reports.html_parts import esc, part, table
from heedful.reports.steer_terminal import row

STYLE = (
    ".heedful .sides{display:grid;grid-template-columns:repeat(auto-fit,minmax(16em,1fr));gap:1.5em}"
    ".heedful .said{white-space:pre-wrap}"
)


NAMED = {"how": "times the direction is added", "max_new_tokens": "tokens written at most"}


def page(sweep: Sweep) -> str:
    """A self-contained HTML5 document."""
    return document(f"{sweep.model.get('name')}: how far can it be steered?", body(sweep, 1), style=STYLE)


def fragment(sweep: Sweep) -> str:
    """The same body for a notebook cell."""
    return cell(body(sweep, 3), STYLE)


def body(sweep: Sweep, size: int) -> str:
    drawn = (_answer, _trade, _growth, _numbers, _texts, _made)
    return "\n".join(text for draw in drawn if (text := draw(sweep, size if draw is _answer else size + 1)))


def _answer(sweep: Sweep, size: int) -> str:
    kicker = f"<b>{esc(sweep.model.get('name'))}</b> steered at {esc(sweep.settings.get('site'))}"
    lines = "".join(f"<li>{esc(line)}</li>" for line in sweep.sentences())
    head = f'<p class="kicker">{kicker}</p><h{size} class="verdict">How far can it be steered?</h{size}>'
    return f'<header>{head}<ul class="sentences">{lines}</ul></header>'


def _trade(sweep: Sweep, size: int) -> str:
    """What is gained for what is lost."""
    series = [
        Series(method, [_traded(point) for point in (sweep.base, *sweep.of(method))], joined=True)
        for method in sweep.methods
    ]
    lead = (
        f"Up is more of what was wanted, right is text the unsteered model finds less likely; over "
        f"{math.log10(BROKEN):.2f} it counts as broken. Every line begins at the unsteered texts."
    )
    drawn = scatter(series, "log10 of perplexity × unsteered", "presence", "Presence against perplexity")
    return part("trade", "What is gained, and what it costs", lead, drawn, size)


def _traded(point: SweepPoint) -> tuple[float, float]:
    ratio = point.ratio.value
    return math.log10(ratio) if ratio > 0 else math.nan, point.presence.value


def _growth(sweep: Sweep, size: int) -> str:
    series = [
        Series(method, [(p.size, p.repetition.value) for p in (sweep.base, *sweep.of(method))], joined=True)
        for method in sweep.methods
    ]
    lead = "Methods stand at the same size: what each adds to a position has the same mean length."
    drawn = scatter(series, "mean length of what is added", "repetition", "Repetition against size")
    return part("growth", "Going round in circles", lead, drawn, size)


def _numbers(sweep: Sweep, size: int) -> str:
    heads = ["strength", "method", "added", "perplexity", "× unsteered", "presence", "repeats"]
    rows = [
        f'<tr><th scope="row">{esc(p.strength)}</th>'
        + "".join(f"<td>{esc(c)}</td>" for c in row(p))
        + "</tr>"
        for p in sweep.points
    ]
    lead = "Means over prompts, with 95 % intervals. Perplexity is the unsteered model's."
    return part("numbers", "The numbers", lead, table(heads, rows, "Every number"), size)


def _texts(sweep: Sweep, size: int) -> str:
    rows = [
        f'<tr><th scope="row">{esc(point.strength)}</th><td>{esc(point.method)}</td>'
        f'<td>{esc(sweep.prompts[w.prompt])}</td><td class="said">{esc(w.text)}</td></tr>'
        for point in sweep.points
        for w in point.texts
    ]
    heads = ["strength", "method", "prompt", "written"]
    return part("texts", "What was written", "", table(heads, rows, "Every text"), size)


def _made(sweep: Sweep, size: int) -> str:
    return made(sweep.model, sweep.settings, size)


def made(model: Mapping[str, Any], settings: Mapping[str, Any], size: int) -> str:
    """Model, dictionary, features and settings by name, then the command where one was typed."""
    facts = [("model" if name == "name" else name, value) for name, value in model.items()]
    for name, value in settings.items():
        if name == "command":
            continue
        facts += _facts(name, value) if isinstance(value, Mapping) else [(NAMED.get(name, name), value)]
    rows = "".join(f"<dt>{esc(n)}</dt><dd>{esc(_plain(n, v))}</dd>" for n, v in facts if v not in (None, ""))
    code = again(settings.get("command"))
    return part("made", "How this was made", "", f'<dl class="facts-list">{rows}</dl>{code}', size)


def _facts(name: str, values: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """A mapping line by line: {"268": "2x"} of "how" is feature 268 set to 2x."""
    if name == "how":
        return [(f"feature {feature}", f"set to {value}") for feature, value in values.items()]
    if name == "fires on":
        return [(f"feature {feature} fires most on", value) for feature, value in values.items()]
    return [(name if key == "name" else f"{name}, {key}", value) for key, value in values.items()]


def _plain(name: str, value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return (
        f"{value:,}"
        if isinstance(value, int) and not isinstance(value, bool) and name != "seed"
        else str(value)
    )
