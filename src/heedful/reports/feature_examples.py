"""Examples of a feature as lines of text, every token shaded by its activation. Every string is escaped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from heedful.core.numbers import short
from heedful.features.reading.examples import Snippet
from heedful.features.reading.results import Page
from heedful.reports.html_parts import esc
from heedful.reports.shaded_text import level


def tops(one: Page, size: int) -> str:
    return (
        f'<div class="examples"><h{size} class="name">Strongest examples</h{size}>'
        f"{lines(one.reading.top, one.reading.greatest)}</div>"
    )


def quantiles(one: Page, size: int) -> str:
    r = one.reading
    drawn = []
    for number, q in reversed(list(enumerate(r.quantiles))):
        share = f"{100 * number / len(r.quantiles):.0f} to {100 * (number + 1) / len(r.quantiles):.0f} %"
        drawn.append(
            f'<p class="quantile">{share} of its firings: {short(q.low)} to {short(q.high)}</p>'
            f"{lines(q.examples, r.greatest)}"
        )
    lead = "Drawn at random from every part of its activations: the strongest alone can hide other meanings."
    return (
        f'<div class="examples"><h{size} class="name">Examples of every strength</h{size}>'
        f'<p class="lead">{lead}</p>{"".join(drawn)}</div>'
    )


def own(one: Page, size: int) -> str:
    if not one.own:
        return ""
    greatest = max(one.reading.greatest, *(max(s.values, default=0.0) for s in one.own))
    title = f'<h{size} class="name">Your own text</h{size}>'
    return f'<div class="examples">{title}{lines(one.own, greatest)}</div>'


def lines(snippets: Sequence[Snippet], greatest: float) -> str:
    """Examples, one per line; `greatest` is the activation of the deepest colour."""
    items = "".join(
        f'<li><span class="strength">{short(s.value)}</span>'
        f'<span class="tokens" dir="auto">{"".join(_tokens(s, greatest))}</span></li>'
        for s in snippets
    )
    return f"<ol>{items}</ol>"


def _tokens(snippet: Snippet, greatest: float) -> Iterator[str]:
    for at, (piece, value) in enumerate(zip(snippet.context.pieces, snippet.values, strict=True)):
        here = " here" if at == snippet.at and value > 0 else ""
        shade = max(1, level(value / greatest)) if value > 0 and greatest > 0 else 0
        if shade:
            yield f'<mark class="any l{shade}{here}" title="{short(value)}">{_shown(piece) or "·"}</mark>'
        else:
            yield _shown(piece)


def _shown(piece: str) -> str:
    """Line breaks as a sign, so that an example is a line."""
    parts = piece.replace("\r\n", "\n").split("\n")
    return '<span class="break">↵</span>'.join(esc(text) for text in parts)
