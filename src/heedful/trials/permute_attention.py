"""Attention weights in a random order: each row of each head on its own, among the keys it may look at."""

from __future__ import annotations

import torch
from torch import Tensor


def permuted(weights: Tensor, free: Tensor, noise: Tensor) -> Tensor:
    """weights (..., T) in the order of `noise` (..., T) where `free` (..., T), as they were elsewhere.

    The i-th free place gets the weight that stands at the i-th smallest noise among the free ones.
    """
    free, weights = free.expand_as(noise), weights.expand_as(noise)
    order = noise.masked_fill(~free, torch.inf).argsort(-1)  # free places first, shuffled
    places = torch.where(free, torch.arange(noise.shape[-1], device=noise.device), noise.shape[-1]).argsort(
        -1
    )  # in reading order
    moved = torch.empty_like(weights).scatter(-1, places, weights.gather(-1, order))
    return torch.where(free, moved, weights)
