"""Attention of a network over pictures, read and changed while it runs; and patches hidden from it.

    hidden    weights (B, H, Q, T) of hidden keys are set to 0, and each row is divided by its new sum: as if
              -inf were added to their scores before the softmax. Special positions are never hidden.

Hiding removes a unit only where all that reaches the answer passes through attention to a special position.
That is tried: with every patch hidden, two pictures must give the same answer. A network that pools over its
patches fails, because a hidden patch is still pooled.

Cost: that of eager attention. Needs: transformers' attention switch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from heedful.core.errors import HeedfulError
from heedful.models.attention_hooks import AttentionState, Edit, Sites, attending, find_sites
from heedful.models.contexts import untouched
from heedful.models.run_errors import RUN_ERRORS

TRIED = 1e-5  # share of the logits within which two answers are the same
FAILURES = (HeedfulError, *RUN_ERRORS)

Run = Callable[..., Any]  # calls the module; takes output_attentions=True


def editable_sites(module: nn.Module, run: Run, logits: Callable[[Any], Tensor]) -> Sites:
    """Where each attention module stands; {} where its weights cannot be changed, which is tried."""
    with untouched(module), torch.inference_mode():
        try:
            sites = find_sites(module, lambda: run(output_attentions=True))
            plain = logits(run())
            with attending(module, sites, lambda seen: seen.reweighed(seen.weights.clone())):
                same = logits(run())
        except FAILURES:
            return {}
    return sites if sites and close(same, plain) else {}


def close(one: Tensor, other: Tensor) -> bool:
    """Equal up to rounding."""
    step = TRIED if one.dtype == torch.float64 or one.dtype == torch.float32 else 0.02
    return bool((one - other).abs().max() <= step * max(1.0, float(other.abs().max())))


def hiding(gone: Tensor) -> Edit:
    """`gone` (B, T): positions at which nobody looks."""

    def edit(seen: AttentionState) -> AttentionState:
        weights = seen.weights.masked_fill(gone[:, None, None, :], 0.0)  # (B, H, Q, T)
        return seen.reweighed(weights / weights.sum(-1, keepdim=True).clamp_min(1e-30))

    return edit


def positions(hidden: Tensor, special: int) -> Tensor:
    """(B, P) patches -> (B, special + P) positions: special ones stand in front."""
    return torch.nn.functional.pad(hidden, (special, 0), value=False)
