"""Steering: set features of a dictionary, or push along a direction, while the model runs.

    x <- decode(f with f_i := value) + (x - decode(f))  =  x + sum_i (value_i - f_i) W_dec,i       SAE
    x <- x + strength v                                                                    a direction

The error term x - decode(f) is kept, and what is added is computed as the right-hand side: no reconstruction
is made, so a feature that already has its value adds exactly nothing, and an empty steer changes no bit.
In every pass inside the block, generation with a cache too; steers nest, and nothing is left behind.

Cost: one encoding of the chosen positions a pass. Needs: a site of the model (heedful.models.sites.access).
Templeton et al. 2024, "Scaling Monosemanticity" (clamping with the error term kept).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from heedful.core.errors import HeedfulError
from heedful.core.result import NotebookRepr
from heedful.features.sae.autoencoder import SAE
from heedful.features.sae.maxima import known_maxima
from heedful.features.steering import strength
from heedful.features.steering.directions import Direction, feature_maxima, site_of
from heedful.features.steering.positions import check, watching
from heedful.models.adapter import TokenModel
from heedful.models.sites.access import changing, width

Push = Callable[[Tensor], Tensor]  # activations (n, d) -> what is added (n, d)


@dataclass(eq=False)
class Applied(NotebookRepr):
    """What a steer did so far: how many positions it reached, and by how much it moved them."""

    positions: int = 0
    total: float = 0.0  # sum of the lengths of what was added

    @property
    def size(self) -> float:
        """Mean length of what was added to a position."""
        return self.total / self.positions if self.positions else 0.0


@contextmanager
def steer(
    model: TokenModel,
    by: SAE | Direction | Tensor,
    how: Any,
    *,
    positions: Any = "all",
    site: str | None = None,
    maxima: Any = None,
) -> Iterator[Applied]:
    """Change features or activations of a model, inside a `with` block.

    Parameters
    ----------
    model
        The result of `heedful.load`.
    by
        A `heedful.SAE`, or a direction: a tensor of shape (d,) or a `Direction`.
    how
        For an SAE: `{feature: strength}`, where a strength is a value (3.0), a multiple of the maximum
        ("5x"), a change ("+2") or a multiple of the current value ("2x own"). For a direction: the number by
        which it is multiplied before it is added.
    positions
        "all", "last", or a list of token positions.
    site
        Place in the model. If `None`, the place of the SAE or of the direction.
    maxima
        For strengths such as "5x": the maximum of each feature, as an array or as `{feature: number}`, or
        texts on which the maxima are measured. If `None`, the maxima that are stored in the SAE.

    Yields
    ------
    Applied
        The number of changed positions, and the total size of the change.

    Examples
    --------
    >>> import heedful
    >>> model = heedful.load("zoo:lm")
    >>> sae = heedful.SAE.load("zoo:lm")
    >>> before = model.generate("The king", max_new_tokens=3)
    >>> with heedful.steer(model, sae, {3: "2x"}):
    ...     steered = model.generate("The king", max_new_tokens=3)
    >>> steered == before
    False
    >>> model.generate("The king", max_new_tokens=3) == before
    True
    """
    place = site_of(by, site)
    push = _pushed(model, by, how, place, maxima)
    chosen = check(positions)
    applied = Applied()
    if push is None:
        yield applied
        return
    with watching(model, place) as watch:

        def edit(x: Tensor) -> Tensor:
            return _moved(x, watch.of(x.shape[0], x.shape[1], chosen), push, applied)

        with changing(model, place, edit):
            yield applied


def _pushed(model: TokenModel, by: Any, how: Any, site: str, maxima: Any) -> Push | None:
    """What is added at a position; None where nothing is asked for."""
    d = width(model, site)
    if isinstance(by, SAE):
        if not isinstance(how, Mapping):
            raise HeedfulError("an SAE is steered by its features", fix='Write {268: "5x"}')
        if by.config.d != d:
            raise HeedfulError(
                f"the SAE reads activations of width {by.config.d}",
                f"{site} of {model.name} has {d}",
                "Name the site it was trained at",
            )
        return _of_features(model, by, how, site, maxima)
    if isinstance(how, bool) or not isinstance(how, int | float):
        raise HeedfulError(f"a direction is added so many times, not {how!r}", fix="Give a number")
    vector = by.vector if isinstance(by, Direction) else by
    if vector.shape != (d,):
        raise HeedfulError(f"a direction of shape {tuple(vector.shape)}", f"{site} has width {d}")
    if not math.isfinite(how):
        raise HeedfulError(f"the strength of a direction cannot be {how}", "it must be a finite number")
    added = vector * float(how)
    return (lambda x: added.to(x).expand_as(x)) if how else None


def _of_features(model: TokenModel, sae: SAE, how: Mapping[int, Any], site: str, maxima: Any) -> Push | None:
    wanted = strength.parse_all(how, sae.config.width)
    if not wanted:
        return None
    known = maxima
    if any(one.form == "max" for one in wanted):
        if known is None:
            known = known_maxima(sae)
        elif is_text_list(known):
            known = feature_maxima(model, sae, known, site=site)
    greatest = strength.greatest(wanted, known)
    features = [one.feature for one in wanted]

    def push(x: Tensor) -> Tensor:
        old = sae.encode(x.to(sae.W_enc.device))[:, features]  # (n, m)
        new = [one.new(old[:, i], greatest.get(one.feature)) for i, one in enumerate(wanted)]
        return (torch.stack(new, 1) - old) @ sae.W_dec[features]  # (n, d)

    return push


def is_text_list(given: Any) -> bool:
    return isinstance(given, list | tuple) and bool(given) and isinstance(given[0], str)


def _moved(x: Tensor, where: Tensor | None, push: Push, applied: Applied) -> Tensor:
    """x (B, T, d) with what is pushed at `where` (B, T); rows that nothing is added to keep their bits."""
    flat = x.reshape(-1, x.shape[-1])
    rows = None if where is None else where.reshape(-1).nonzero()[:, 0].to(x.device)
    before = flat if rows is None else flat[rows]
    if not len(before):
        return x
    added = push(before).to(x)
    lengths = torch.linalg.vector_norm(added.detach().float(), dim=1)  # (n,)
    applied.positions += len(lengths)
    applied.total += float(lengths.sum())
    after = torch.where((added != 0).any(1, keepdim=True), before + added, before)
    return (after if rows is None else flat.index_copy(0, rows, after)).reshape(x.shape)
