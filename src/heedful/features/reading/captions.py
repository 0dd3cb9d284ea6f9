"""What is to be told of features that are set: which dictionary they are of, and what they fire on.

    fires on    the strongest token of each window in which a feature is strongest; each token once

Cost: one forward up to the site and one encoding a token, of 20,000 tokens by default.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heedful.features.reading.examples import Snippet
from heedful.features.reading.read_features import read_features
from heedful.features.sae.autoencoder import SAE, WEIGHTS
from heedful.features.steering.diff_of_means import MAX_ROWS

if TYPE_CHECKING:
    from heedful.models.adapter import TokenModel

SHOWN_TOKENS = 6  # tokens


def fires_on(
    model: TokenModel,
    sae: SAE,
    features: Sequence[int],
    texts: Iterable[str] | str | Path,
    *,
    site: str | None = None,
    rows: int = MAX_ROWS,
) -> dict[int, tuple[str, ...]]:
    """The tokens on which each feature is strongest; () where it fired on none."""
    wanted, windows = list(features), 4 * SHOWN_TOKENS
    readings = read_features(model, sae, texts, wanted, examples=windows, quantiles=1, site=site, rows=rows)
    return {one.feature: _once(model, one.top) for one in readings}


def _once(model: TokenModel, strongest: Sequence[Snippet]) -> tuple[str, ...]:
    """Half a character has no piece of its own: it is spelled."""
    named = (s.context.pieces[s.at] or model.spelled(s.context.ids[s.at]) for s in strongest)
    return tuple(dict.fromkeys(named))[:SHOWN_TOKENS]


def quoted(tokens: Sequence[str]) -> str:
    """Tokens in a line, their spaces seen; nothing is no token."""
    lines = (token.replace("\n", "↵").replace(" ", "␣") for token in tokens)
    return ", ".join(f"“{token}”" for token in lines) or "none of the tokens read"


def sentence(feature: int, tokens: Sequence[str]) -> str:
    return f"Feature {feature} fires most on: {quoted(tokens)}."


def facts_of(sae: SAE, name: str) -> dict[str, Any]:
    """A dictionary for the record: where it came from, what it is, and a short hash of its weights."""
    digest = hashlib.sha256()
    for weight in WEIGHTS:
        if (tensor := getattr(sae, weight)) is not None:
            digest.update(f"{weight} {tensor.dtype} {tuple(tensor.shape)}".encode())
            digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    c = sae.config
    return {"name": name, "kind": c.kind, "features": c.width, "fingerprint": digest.hexdigest()[:16]}
