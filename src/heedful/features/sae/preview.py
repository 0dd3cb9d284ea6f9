"""An early look at features while a dictionary trains: the same few at every checkpoint, on a few texts.

Features are drawn once, at the first look, among those that fire; so one sees them sharpen, move or die. What
stands there is no result: rates and examples are of few tokens, and the dictionary is not finished.

Cost of a look: one forward up to the site and one encoding of 2,048 tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from heedful.core.errors import HeedfulError
from heedful.features.reading.examples import Snippet
from heedful.features.reading.read_features import read_features
from heedful.features.reading.results import Reading
from heedful.features.sae.autoencoder import SAE

if TYPE_CHECKING:
    from heedful.models.adapter import TokenModel

PREVIEW_TOKENS = 2048
TOKENS_BEFORE, TOKENS_AFTER = 5, 2  # tokens around the marked one
Tell = Callable[[int, list[str]], None]  # step, one line per feature


def preview_callback(
    model: TokenModel,
    texts: Iterable[str] | str | Path,
    site: str,
    tell: Tell,
    *,
    count: int = 3,
    seed: int = 0,
) -> Callable[[SAE, int], None]:
    """What `heedful.train_sae(look=...)` takes: tells where `count` features are strongest."""
    chosen: list[int] = []

    def look(sae: SAE, step: int) -> None:
        try:
            readings = read_features(
                model,
                sae,
                texts,
                chosen or None,
                choose=f"random:{count}",
                examples=2,
                quantiles=1,
                site=site,
                rows=PREVIEW_TOKENS,
                seed=seed,
            )
        except HeedfulError as error:  # nothing fires yet: training goes on
            tell(step, [str(error)])
            return
        chosen[:] = [one.feature for one in readings]
        tell(step, [line(one) for one in readings])

    return look


def line(one: Reading) -> str:
    """feature 17, 0.8 % of tokens: …the state of the [Union] is…"""
    if not one.fired:
        return f"feature {one.feature} is silent on {one.tokens:,} tokens"
    text = " | ".join(marked(snippet) for snippet in one.top)
    return f"feature {one.feature}, {100 * one.rate:.2g} % of tokens: {text}"


def marked(snippet: Snippet) -> str:
    """A few tokens, the strongest in brackets, in one line."""
    pieces, at = snippet.context.pieces, snippet.at
    before, after = pieces[max(0, at - TOKENS_BEFORE) : at], pieces[at + 1 : at + 1 + TOKENS_AFTER]
    token = pieces[at]
    space = token[: len(token) - len(token.lstrip())]
    shown = f"…{''.join(before)}{space}[{token.lstrip() or token}]{''.join(after)}…"
    return " ".join(shown.split())
