"""Examples of a feature as lines of text, each token shaded by its activation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from heedful.core.document import Fold, Node, Paragraph, Piece, Section, UnitMap
from heedful.core.numbers import short
from heedful.features.reading.examples import Snippet
from heedful.features.reading.results import Page

LEAST = 0.05  # the least share of full colour: a token on which the feature fires is never plain


def strongest(one: Page) -> Section:
    lead = (
        "The deeper the colour of a token, the larger its activation. The underlined token is the one the "
        "example was chosen for."
    )
    return Section("Strongest examples", lines(one.reading.top, one.reading.greatest), lead)


def every_strength(one: Page) -> Fold:
    r = one.reading
    lead = (
        "Drawn at random from each range of its activations: the strongest examples alone can hide other "
        "meanings."
    )
    nodes: list[Node] = [Paragraph(lead, "soft")]
    for number, part in reversed(list(enumerate(r.quantiles))):
        share = f"{100 * number / len(r.quantiles):.0f} to {100 * (number + 1) / len(r.quantiles):.0f} %"
        nodes.append(
            Paragraph(f"{share} of its activations, from {short(part.low)} to {short(part.high)}", "soft")
        )
        nodes += lines(part.examples, r.greatest)
    return Fold("Examples of every strength", tuple(nodes))


def own(one: Page) -> Section | None:
    if not one.own:
        return None
    greatest = max(one.reading.greatest, *(max(s.values, default=0.0) for s in one.own))
    return Section("Your own text", lines(one.own, greatest))


def lines(snippets: Sequence[Snippet], greatest: float) -> tuple[UnitMap, ...]:
    """One per example; `greatest` is the activation of the deepest colour."""
    return tuple(UnitMap(tuple(_pieces(s, greatest)), signed=False, label=short(s.value)) for s in snippets)


def _pieces(snippet: Snippet, greatest: float) -> Iterator[Piece]:
    for at, (piece, value) in enumerate(zip(snippet.context.pieces, snippet.values, strict=True)):
        text = piece.replace("\r\n", "\n").replace("\n", "↵")  # so that an example is one line
        text = text if at or not text.strip() else text.lstrip()
        if value > 0 and greatest > 0:
            share = max(LEAST, value / greatest)
            yield Piece(text or "·", share, short(value), here=at == snippet.at)
        else:
            yield Piece(text)
