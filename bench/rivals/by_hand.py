"""Chefer and rollout as people write them from the papers: no library has them."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor


def eager(module: Any) -> Any:
    """A copy with eager attention, which returns its weights."""
    copy = deepcopy(module)
    copy.set_attn_implementation("eager")
    return copy


def forward_backward(module: Any, ids: Tensor, index: int) -> Callable[[], None]:
    """One plain pass down to the embeddings; `module` is eager."""

    def run() -> None:
        embeds = module.get_input_embeddings()(ids).detach().requires_grad_(True)
        logit = module(inputs_embeds=embeds).logits[0, index]
        torch.autograd.grad(logit, [embeds])

    return run


def chefer(module: Any, ids: Tensor, index: int) -> Callable[[], Tensor]:
    """R <- R + mean_h(relu(grad A * A)) R, one pass with the gradients of all attention weights."""

    def run() -> Tensor:
        out = module(input_ids=ids, output_attentions=True)
        grads = torch.autograd.grad(out.logits[0, index], out.attentions)
        relevance = torch.eye(ids.shape[1])
        for weights, grad in zip(out.attentions, grads, strict=True):
            mixed = (weights * grad).clamp(min=0).mean(1)[0].detach()
            relevance = relevance + mixed @ relevance
        return relevance[0]

    return run


def rollout(module: Any, ids: Tensor) -> Callable[[], Tensor]:
    """prod_l (A_l + I)/2, heads averaged."""

    def run() -> Tensor:
        with torch.inference_mode():
            attentions = module(input_ids=ids, output_attentions=True).attentions
            rolled = torch.eye(ids.shape[1])
            for weights in attentions:
                rolled = (weights.mean(1)[0] + torch.eye(ids.shape[1])) / 2 @ rolled
            return rolled[0]

    return run
