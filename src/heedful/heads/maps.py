"""Attention as data: which weights, between which tokens (or words), without torch.

    Maps.weights[l, h, q, k]    how much head h of layer l, at query q, looks at key k; each row sums to one

An encoder or decoder has one stack of maps, "self". An encoder-decoder has three: "self" (the text read by
the encoder), "decoder" (what is written, causal) and "cross" (from what is written to the text).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Weights = npt.NDArray[np.float32]  # (L, H, Q, K)
Flags = npt.NDArray[np.bool_]
ARRAYS = ("weights", "grads", "allowed")  # of `Maps`


@dataclass(frozen=True)
class MapAxis:
    """The tokens, or words, along one edge of a map."""

    labels: tuple[str, ...]  # as shown
    special: tuple[bool, ...]  # added by the tokenizer or the template
    words: tuple[int, ...]  # word each belongs to, -1 for special ones
    segments: tuple[int, ...]  # part of a pair, turn of a chat, -1 for what was added
    texts: tuple[str, ...] = ()  # how each word reads, by its number; () where it is not known

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True, eq=False)
class Maps:
    """All heads of one stack on one text."""

    stack: str  # "self", "decoder" or "cross"
    weights: Weights  # (L, H, Q, K)
    queries: MapAxis  # Q; a single-query layer has one
    keys: MapAxis  # K
    causal: bool = False
    grads: Weights | None = None  # (L, H, Q, K): of the target with respect to the weights
    allowed: Flags | None = (
        None  # (L, Q, K): keys a query may look at; None: all, or if causal those up to it
    )
    grid: tuple[int, int] = (0, 0)  # rows and columns of patches, which follow the special positions

    @property
    def layers(self) -> int:
        return int(self.weights.shape[0])

    @property
    def heads(self) -> int:
        return int(self.weights.shape[1])

    def __post_init__(self) -> None:
        expected = (len(self.queries), len(self.keys))
        if self.weights.ndim != 4 or self.weights.shape[2:] != expected:
            raise ValueError(f"weights of shape {self.weights.shape} between {expected} tokens")
        if self.grads is not None and self.grads.shape != self.weights.shape:
            raise ValueError(f"gradients of shape {self.grads.shape} of weights {self.weights.shape}")
        if self.allowed is not None and self.allowed.shape != (self.layers, *expected):
            raise ValueError(
                f"a mask of shape {self.allowed.shape} for {self.layers} layers of {expected} tokens"
            )
