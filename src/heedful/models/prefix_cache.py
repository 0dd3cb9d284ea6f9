"""Rows of a causal model that begin like the text share its keys and values, which are computed once.

    text      a b c d e f g h       one pass, whose keys and values are kept
    row       a b c d . f g h       only what follows the common beginning is run

Without word j of T there are T - j tokens to run instead of T: half on average. The beginning is cut to whole
blocks of tokens, so that rows of one block make one batch, and the cache is used just as in writing text:
nothing is skipped in the middle, positions follow on. Models whose cache is no plain list of keys and values
(sliding windows, states), or that answer differently with it, are found by a probe and run as without.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor

from heedful.core.cost import Meter
from heedful.models.backend import Inputs
from heedful.models.passes import Prefix


class SharedPrefix(Prefix):
    """The beginning of a text, read when the first row asks for it."""

    def __init__(self, ids: Sequence[int], backend: Any, meter: Meter) -> None:
        super().__init__(ids)
        self.backend, self.meter = backend, meter
        self.past: Any = None

    def read(self) -> None:
        """Once; it counts as a model input that was run, though no method asked for it."""
        if self.past is None:
            with self.meter.counted(unique=1, tokens=len(self.ids)):
                self.past = self.backend.begun(self.ids)

    def forward(self, inputs: Inputs, length: int) -> Tensor:
        """Logits of a batch whose first `length` tokens were read before."""
        past = first(self.past, length, len(inputs.ids))
        logits: Tensor = self.backend.forward_after(inputs, past)
        return logits


def plain(past: Any) -> Any:
    """The cache itself if it is a plain list of keys and values, else None."""
    from transformers.cache_utils import DynamicCache, DynamicLayer

    ok = isinstance(past, DynamicCache) and all(type(layer) is DynamicLayer for layer in past.layers)
    return past if ok and past.layers else None


def first(past: Any, length: int, rows: int) -> Any:
    """The cache of the first `length` tokens, for so many rows."""
    from transformers.cache_utils import DynamicCache

    parts = [(layer.keys[:, :, :length], layer.values[:, :, :length]) for layer in past.layers]
    return DynamicCache([(k.expand(rows, -1, -1, -1), v.expand(rows, -1, -1, -1)) for k, v in parts])


def after(inputs: Inputs, places: Tensor | None, length: int) -> tuple[Inputs, Tensor | None]:
    """A batch without its first `length` tokens; the mask stays whole, since the cache is attended to."""
    kept = inputs.keep_positions
    return replace(
        inputs,
        ids=inputs.ids[:, length:],
        blank=tuple((row, t - length) for row, t in inputs.blank),
        keep_positions=None if kept is None else tuple(t - length for t in kept),
    ), None if places is None else places - length
