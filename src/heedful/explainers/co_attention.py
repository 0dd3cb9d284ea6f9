"""Chefer's rules for models in which two inputs attend to each other: LXMERT, and others with co-attention.

    Abar = mean_h (dA * A)^+
    self-attention of s         R_ss <- R_ss + Abar R_ss,     R_sq <- R_sq + Abar R_sq
    cross-attention s -> q      R_sq <- R_sq + N(R_ss)^T Abar N(R_qq),     R_ss <- R_ss + Abar R_qs
    N(R) = I + row-normalise(R - I)                s, q: the two inputs; A (H, s, q): queries of s, keys of q

R_ss and R_qq start as I, R_sq and R_qs as 0; layers in the order in which they run. Where both directions run
side by side in one layer, both updates use the R from before the layer, as the authors' code does.
Scores are the rows of R at the position where the answer is read: `R["text", "text"][0]` without the I of
that position, and `R["text", "picture"][0]`, with [CLS] at position 0 of the text.

Encoder-decoders have one direction only: heedful.explainers.chefer does them.
Cost: none beyond the pass that gives maps and gradients. Chefer, Gur & Wolf, ICCV 2021.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from heedful.explainers.chefer import felt, normalised

Relevance = dict[tuple[str, str], Tensor]  # (reading input, read input) -> (N, M)


@dataclass(frozen=True)
class CoAttention:
    """One attention map: `queries` attends to `keys`, which is itself (self-attention) or the other input.

    Parameters
    ----------
    queries
        Name of the input that attends.
    keys
        Name of the input that is attended to.
    maps
        Attention weights, (H, N, M).
    grads
        Gradients of the target with respect to them, (H, N, M).
    """

    queries: str
    keys: str
    maps: Tensor
    grads: Tensor


def co_attention_relevance(layers: Sequence[Sequence[CoAttention]], sizes: Mapping[str, int]) -> Relevance:
    """R of every pair of inputs after all layers.

    Parameters
    ----------
    layers
        Groups of maps, in the order in which they run. The maps of one group run side by side.
    sizes
        Number of positions of each input, by name: two of them.

    Returns
    -------
    dict
        By (reading input, read input): a matrix (N, M), float64.
    """
    first, second = sizes
    relevance: Relevance = {
        (own, other): torch.eye(sizes[own], dtype=torch.float64)
        if own == other
        else torch.zeros(sizes[own], sizes[other], dtype=torch.float64)
        for own in sizes
        for other in sizes
    }
    for group in layers:
        before = dict(relevance)
        for one in group:
            bar = felt(one.maps, one.grads).cpu()
            rest = second if one.queries == first else first
            gains = _gains(one, bar, before, rest)
            relevance |= {pair: relevance[pair] + gain for pair, gain in gains.items()}
    return relevance


def _gains(one: CoAttention, bar: Tensor, before: Relevance, rest: str) -> Relevance:
    """What one map adds, from the R before its group."""
    own = one.queries
    if one.keys == own:
        return {(own, own): bar @ before[own, own], (own, rest): bar @ before[own, rest]}
    return {
        (own, rest): _normal(before[own, own]).T @ bar @ _normal(before[rest, rest]),
        (own, own): bar @ before[rest, own],
    }


def _normal(relevance: Tensor) -> Tensor:
    return normalised(relevance - torch.eye(len(relevance), dtype=relevance.dtype))
