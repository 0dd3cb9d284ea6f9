"""Directions in activation space from texts: difference of means, and what features reach on texts or rows.

    v = mean over texts A of mean over tokens of x  -  the same over texts B

The plain baseline that every steer by a dictionary is held to: it needs no dictionary. Beside its length
stands the length that the same texts give when their labels are drawn at random.

    m_i = max over rows of f_i(x)        what "5x" is a multiple of; training records it, see `row_maxima`

Cost: one forward up to the site a text; of `row_maxima` one encoding a row. Needs: a site of the model.
Belrose 2023 (difference of means); Wu et al. 2025 (AxBench), where it detects concepts better than
dictionaries do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from heedful.core.errors import HeedfulError
from heedful.core.result import NotebookRepr
from heedful.features.sae.autoencoder import SAE
from heedful.io.json_codec import to_jsonable
from heedful.modalities.text import TextInput
from heedful.modalities.text_windows import windows
from heedful.models.adapter import TokenModel
from heedful.models.sites.access import read

SHUFFLES = 100


@dataclass(frozen=True, eq=False)
class Direction(NotebookRepr):
    """A vector at a site."""

    vector: Tensor  # (d,)
    site: str
    texts: tuple[int, int] = (0, 0)  # how many on each side
    chance: float = float("nan")  # mean length with labels drawn at random
    notes: tuple[str, ...] = ()

    @property
    def length(self) -> float:
        return float(torch.linalg.vector_norm(self.vector))

    def unit(self) -> Direction:
        """The same, of length 1."""
        return self.scaled(1.0)

    def scaled(self, length: float) -> Direction:
        """The same, of another length."""
        if not self.length:
            raise HeedfulError("the direction has no length", "the texts of both sides look the same here")
        return replace(self, vector=self.vector * (length / self.length))

    def to_dict(self) -> dict[str, Any]:
        return {
            "site": self.site,
            "length": self.length,
            "length with shuffled labels": to_jsonable(self.chance),
            "texts": list(self.texts),
            "notes": list(self.notes),
        }


def difference(
    model: TokenModel, site: str, texts_a: Sequence[str], texts_b: Sequence[str], *, seed: int = 0
) -> Direction:
    """From texts B to texts A; every text counts once, however long. Special tokens are left out."""
    for side in (texts_a, texts_b):
        if isinstance(side, str) or not side:
            raise HeedfulError("a difference of means needs texts on both sides", fix="Give two lists")
    means, cut = [], 0
    for x, acts in activations(model, site, [*texts_a, *texts_b]):
        means.append(acts[_own(x)].double().mean(0))
        cut += bool(x.notes)
    sides = torch.stack(means)  # (n, d)
    labels = np.arange(len(sides)) < len(texts_a)
    rng = np.random.default_rng(seed)
    drawn = [_apart(sides, rng.permutation(labels)) for _ in range(SHUFFLES)]
    chance = float(torch.stack(drawn).norm(dim=1).mean())
    vector = _apart(sides, labels).float()
    notes = (f"{cut} texts were longer than the model reads and were cut",) if cut else ()
    return Direction(vector, site, (len(texts_a), len(texts_b)), chance, notes)


def _apart(means: Tensor, labels: Any) -> Tensor:
    chosen = torch.as_tensor(labels)
    return means[chosen].mean(0) - means[~chosen].mean(0)


def random_direction(d: int, site: str, seed: int = 0) -> Direction:
    """Of length 1 and uniformly pointed: what any push does."""
    drawn = torch.randn(d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return Direction((drawn / drawn.norm()).float(), site)


def activations(model: TokenModel, site: str, texts: Sequence[str]) -> Iterator[tuple[TextInput, Tensor]]:
    """Each text and what the site holds for its tokens (T, d); one that is too long is cut, in its notes."""
    for text in texts:
        x = model.encode(text, long="truncate")
        yield x, at_site(model, x, site)


def at_site(model: TokenModel, x: TextInput, site: str) -> Tensor:
    """(T, d); of a decoder's sites (1, d), at its start token."""
    ids = torch.tensor([x.ids])
    types = None if x.type_ids is None else torch.tensor([x.type_ids])
    inputs = model.padded(ids, types=types)
    with (
        model.meter.counted(forwards=1, unique=1, tokens=len(x)),
        torch.inference_mode(False),
        torch.no_grad(),
    ):
        return read(model, inputs, [site])[site][0].float()


def _own(x: TextInput) -> Tensor:
    """(T,) bool: tokens of the text; all where there are no others."""
    own = ~torch.tensor(x.special)
    return own if bool(own.any()) else ~own


def feature_maxima(model: TokenModel, sae: SAE, texts: Sequence[str], *, site: str | None = None) -> Tensor:
    """(F,) the greatest activation of each feature on the texts' own tokens; 0 where it never fired.

    A text longer than the model reads is read in windows, so that each of its tokens counts.
    """
    if isinstance(texts, str) or not texts:
        raise HeedfulError("maxima are measured on texts", "none were given", "Give a list of texts")
    best = torch.zeros(sae.config.width, dtype=sae.W_enc.dtype)
    place = site_of(sae, site)
    for x in (piece for text in texts for piece in _read_whole(model, text)):
        best = torch.maximum(best, sae.encode(at_site(model, x, place)[_own(x)]).amax(0))
    return best


def _read_whole(model: TokenModel, text: str) -> list[TextInput]:
    x = model.encode_whole(text)
    if model.window is None or len(x) <= model.window:
        return [x]
    return [piece for piece, _ in windows(x, model.window)]


def site_of(by: Any, site: str | None) -> str:
    """The site given, else the one that is recorded."""
    if site is not None:
        return site
    result = by.config.source.get("site") if isinstance(by, SAE) else getattr(by, "site", None)
    if not result:
        raise HeedfulError(
            "it is not known where to steer", "no site is recorded", 'Give site="blocks.2.resid" (--site)'
        )
    return str(result)
