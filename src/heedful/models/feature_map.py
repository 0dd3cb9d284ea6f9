"""The last layer of a network that still has places, found by running it once and looking at every layer.

A layer has places if its output is (1, C, h, w) with more than one place or, in a vision transformer,
(1, positions, C) with one position per patch. Of these, the last one whose gradient is not zero at the places
is taken: what comes after has pooled them, or reads only the class token.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn

from heedful.core.model import FeatureMap
from heedful.models.contexts import hooked, untouched

MAX_SITES = 64  # of the last layers, whose gradients are looked at


def last_feature_map(
    module: nn.Module,
    score: Callable[[Tensor], Tensor],
    pixels: Tensor,
    patches: tuple[int, int, int] = (0, 0, 0),
) -> FeatureMap | None:
    """`pixels` (1, 3, H, W) as the module reads them; None where no layer has places."""
    sites: list[tuple[str, Tensor]] = []

    def look(name: str) -> Callable[[nn.Module, Any, Any], None]:
        def keep(_module: nn.Module, _args: Any, output: Any) -> None:
            tensor = output[0] if isinstance(output, tuple) and output else output
            tensor = getattr(tensor, "last_hidden_state", tensor)
            if isinstance(tensor, Tensor) and tensor.requires_grad and _places(tensor, patches) is not None:
                sites.append((name, tensor))

        return keep

    with torch.inference_mode(False), torch.enable_grad(), untouched(module), ExitStack() as stack:
        for name, part in module.named_modules():
            if name and not isinstance(part, nn.Linear):  # its output is a part of the operation that follows
                stack.enter_context(hooked(part, look(name)))
        leaf = pixels.detach().clone().requires_grad_(True)
        value = score(leaf)
        late = sites[-MAX_SITES:]
        if not late:
            return None
        # a layer that the target does not depend on has no gradient
        grads: Sequence[Tensor | None] = torch.autograd.grad(
            value, [tensor for _, tensor in late], allow_unused=True
        )
    for (name, tensor), grad in zip(reversed(late), reversed(grads), strict=True):
        if grad is None:
            continue
        maps, felt = _places(tensor.detach(), patches), _places(grad, patches)
        if maps is not None and felt is not None and bool(felt.abs().sum() > 0):
            return FeatureMap(name, maps, felt, value.item())
    return None


def _places(tensor: Tensor, patches: tuple[int, int, int]) -> Tensor | None:
    """(C, h, w) of a layer's output; None if it has no places."""
    rows, columns, special = patches
    if tensor.ndim == 4 and len(tensor) == 1 and tensor.shape[2] * tensor.shape[3] > 1:
        return tensor[0]
    if tensor.ndim == 3 and rows and tensor.shape[:2] == (1, special + rows * columns):
        return tensor[0, special:].T.reshape(-1, rows, columns)
    return None
