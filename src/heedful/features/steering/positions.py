"""Which positions of a pass are meant, also when a model writes token by token with a cache.

    "all"       every position that is no padding, special tokens ([CLS], a beginning of text) included
    "last"      the last position of each pass: of a text its last token; while a model writes, the last token
                of the prompt and then every token as it is read
    [0, 5]      places in the row, special tokens counted, also in later passes that read only what is new

How many tokens a cache holds, and which are padding, is told by the arguments of the stack that the site is
in: a hook on it notes them. A module that is called without a mask is taken to have no padding.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from heedful.core.errors import HeedfulError
from heedful.models.adapter import TokenModel

Positions = str | Sequence[int]


@dataclass(eq=False)
class PassWatch:
    """What the pass that is running was called with."""

    past: int = 0  # tokens a cache holds
    mask: Tensor | None = None  # (B, past + T)

    def of(self, batch: int, length: int, positions: Positions) -> Tensor | None:
        """(B, T) bool: where a change is made; None: everywhere."""
        real = self._real(batch, length)
        if isinstance(positions, str):
            if positions == "all":
                return None if real is None or bool(real.all()) else real
            return _last(batch, length) if real is None else _last_of(real)
        places = torch.arange(self.past, self.past + length)
        chosen = torch.isin(places, torch.tensor(list(positions), dtype=torch.long))
        return chosen.expand(batch, length) if real is None else chosen.to(real.device) & real

    def _real(self, batch: int, length: int) -> Tensor | None:
        mask = self.mask
        if mask is None or mask.shape != (batch, self.past + length):
            return None
        return mask[:, self.past :].bool()


def _last(batch: int, length: int) -> Tensor:
    return (torch.arange(length) == length - 1).expand(batch, length)


def _last_of(real: Tensor) -> Tensor:
    """The last position of each row that is no padding, on whichever side padding is."""
    ahead = real.flip(1).cumsum(1).flip(1)  # real positions from here on
    return real & (ahead == 1)


def check(positions: Any) -> Positions:
    """Refuses what is not meant, before any pass."""
    if isinstance(positions, str):
        if positions in ("all", "last"):
            return positions
        raise HeedfulError(f"unknown positions {positions!r}", fix='Use "all", "last" or a list of places')
    places = list(positions)
    if any(isinstance(place, bool) or not isinstance(place, int) or place < 0 for place in places):
        raise HeedfulError("positions must be whole numbers from 0 on", fix='Or "all", or "last"')
    return places


@contextmanager
def watching(model: TokenModel, site: str) -> Iterator[PassWatch]:
    """Notes the arguments of every pass inside, for as long as the block lasts."""
    watch = PassWatch()

    def note(_module: nn.Module, _args: Any, kwargs: dict[str, Any]) -> None:
        past, mask = kwargs.get("past_key_values"), kwargs.get("attention_mask")
        watch.past = 0 if past is None else _length(past)
        watch.mask = mask if isinstance(mask, Tensor) and mask.ndim == 2 else None

    handle = _stack(model, site).register_forward_pre_hook(note, with_kwargs=True)
    try:
        yield watch
    finally:
        handle.remove()


def _stack(model: TokenModel, site: str) -> nn.Module:
    """The module whose arguments speak of the site's positions."""
    module = model.module
    config = getattr(module, "config", None)
    if not getattr(config, "is_encoder_decoder", False):
        return module
    name = "get_decoder" if site.startswith("decoder.") else "get_encoder"
    result: nn.Module = getattr(module, name)()
    return result


def _length(past: Any) -> int:
    if hasattr(past, "get_seq_length"):
        return int(past.get_seq_length())
    return int(past[0][0].shape[-2])
