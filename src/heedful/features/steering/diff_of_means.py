"""The difference of means that stands beside a steer by features: their own firings as labels, no dictionary.

    v_i = E[x | f_i(x) > 0] - E[x | f_i(x) = 0]            over tokens of texts
    v   = sum_i ± v_i / ||v_i||                            minus where the steer takes a feature out

What the dictionary adds to the tokens it fires on is a direction, and so is this; a steer is worth no more
than what this reaches at the same size. Beside its length stands what labels drawn at random would give,

    sqrt(tr Cov[x] (1/n_on + 1/n_off))                     (root mean square, tokens taken as independent)

Cost: one forward up to the site and one encoding a token, of 20,000 tokens by default.
Wu et al. 2025 (AxBench), where the difference of means is the baseline that dictionaries are held to.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from heedful.core.errors import HeedfulError
from heedful.core.numbers import short
from heedful.features.activations.eval_windows import Corpus, corpus, rows_at
from heedful.features.sae.autoencoder import SAE
from heedful.features.steering.directions import Direction, site_of
from heedful.features.steering.strength import parse_all
from heedful.models.adapter import TokenModel

MAX_ROWS = 20_000
NONE = "There is no difference of means to compare with: there are no texts to take it from."
Texts = Iterable[str] | str | Path | Corpus


def contrast(
    model: TokenModel,
    sae: SAE,
    how: Mapping[int, Any],
    texts: Texts,
    *,
    site: str | None = None,
    rows: int = MAX_ROWS,
) -> Direction:
    """The direction that `how` = {feature: value} is compared with; its length is 1 for one feature.

    texts   a list or a file; about `rows` tokens of them are read
    """
    wanted = parse_all(how, sae.config.width)
    if not wanted:
        raise HeedfulError("which features?", "a difference of means needs one", 'Write {268: "5x"}')
    place = site_of(sae, site)
    result = texts if isinstance(texts, Corpus) else corpus(model, texts, rows=rows)
    sums = _Sums(sae, [one.feature for one in wanted])
    for (x,) in rows_at(model, result, [place]):
        sums.add(x)
    apart = [sums.apart(at) for at in range(len(wanted))]
    signs = [-1.0 if one.takes_out else 1.0 for one in wanted]
    vector = torch.stack([sign * v / v.norm() for sign, (v, _) in zip(signs, apart, strict=True)]).sum(0)
    on = min(int(count) for count in sums.on)
    text = (
        f"Difference of means: {on:,} tokens on which the feature fires, compared with {sums.n - on:,} on "
        "which it does not."
    )
    lengths = "; ".join(f"{short(float(v.norm()))} (by chance {short(chance)})" for v, chance in apart)
    return Direction(vector.float(), place, (on, sums.n - on), apart[0][1], (f"{text} Length {lengths}.",))


def beside(
    model: TokenModel, sae: SAE, how: Mapping[int, Any], texts: Texts | None, site: str | None
) -> tuple[Direction | None, str]:
    """The baseline of a steer and what is to be said of it, or why there is none."""
    if texts is None:
        return None, NONE
    try:
        direction = contrast(model, sae, how, texts, site=site)
    except HeedfulError as error:
        return None, f"There is no difference of means to compare with: {error}"
    return direction, direction.notes[0]


class _Sums:
    """Of activations x (n, d), over all tokens and over those on which each feature fires."""

    def __init__(self, sae: SAE, features: list[int]) -> None:
        self.sae, self.features, self.n = sae, features, 0
        self.x = torch.zeros(sae.config.d, dtype=torch.float64)
        self.squares = 0.0
        self.fired = torch.zeros(len(features), sae.config.d, dtype=torch.float64)
        self.on = torch.zeros(len(features), dtype=torch.float64)

    def add(self, x: Tensor) -> None:
        with torch.no_grad():
            on = (self.sae.encode(x)[:, self.features] > 0).double()  # (n, m)
        wide = x.double()
        self.n += len(x)
        self.x += wide.sum(0)
        self.squares += float(wide.square().sum())
        self.fired += on.T @ wide
        self.on += on.sum(0)

    def apart(self, at: int) -> tuple[Tensor, float]:
        """(d,) the difference of means of one feature, and the length that chance gives."""
        on, off = float(self.on[at]), self.n - float(self.on[at])
        if not on or not off:
            raise HeedfulError(
                f"feature {self.features[at]} is active on {'every' if on else 'no'} token of these texts",
                f"{self.n:,} were read: there is no difference of means",
                "Give other texts, or --towards and --away",
            )
        vector = self.fired[at] / on - (self.x - self.fired[at]) / off
        spread = self.squares / self.n - float((self.x / self.n).square().sum())
        return vector, math.sqrt(max(0.0, spread) * (1 / on + 1 / off))
