"""The last layer of a network that still has places, found by running it once and looking at every layer.

A layer has places if its output is (1, C, h, w) with more than one place, or (1, positions, C) with one
position per patch: of a vision transformer whose patches are known, else of a sequence that is as long as a
grid of equal squares over the picture (Swin), or one longer (a class token in front). Of these, the last one
that depends on the picture and whose gradient is not zero at the places is taken: what comes after has pooled
them, or reads only the class token. Attention weights, (1, heads, N, N), are no map over places.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
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
    grid = _Grid((pixels.shape[2], pixels.shape[3]), patches)

    def look(name: str) -> Callable[[nn.Module, Any, Any], None]:
        def keep(_module: nn.Module, _args: Any, output: Any) -> None:
            tensor = output[0] if isinstance(output, tuple) and output else output
            tensor = getattr(tensor, "last_hidden_state", tensor)
            if isinstance(tensor, Tensor) and tensor.requires_grad and _places(tensor, grid) is not None:
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
            value, [tensor for _, tensor in late], allow_unused=True, retain_graph=True
        )
        for (name, tensor), grad in zip(reversed(late), reversed(grads), strict=True):
            if grad is None:
                continue
            maps, felt = _places(tensor.detach(), grid), _places(grad, grid)
            if maps is not None and felt is not None and bool(felt.abs().sum() > 0) and _reads(tensor, leaf):
                return FeatureMap(name, maps, felt, value.item())
    return None


def _reads(tensor: Tensor, leaf: Tensor) -> bool:
    """Whether a layer depends on the picture; a table of position biases does not."""
    (felt,) = torch.autograd.grad(tensor.sum(), leaf, allow_unused=True, retain_graph=True)
    return felt is not None


@dataclass(frozen=True)
class _Grid:
    """What is known of the positions of a network."""

    size: tuple[int, int]  # of the picture: H, W
    patches: tuple[int, int, int]  # rows, columns, special positions in front; zeros where not known

    def of(self, positions: int) -> tuple[int, int, int] | None:
        """(rows, columns, special) of a sequence of so many positions."""
        rows, columns, special = self.patches
        if rows:
            return self.patches if positions == special + rows * columns else None
        height, width = self.size
        for side in range(2, min(height, width) // 2 + 1):
            rows, columns = height // side, width // side
            if height % side == width % side == 0 and positions - rows * columns in (0, 1):
                return rows, columns, positions - rows * columns
        return None


def _places(tensor: Tensor, grid: _Grid) -> Tensor | None:
    """(C, h, w) of a layer's output; None if it has no places."""
    if tensor.ndim == 4 and len(tensor) == 1 and tensor.shape[2] * tensor.shape[3] > 1:
        return None if _attention(tensor) else tensor[0]
    if tensor.ndim == 3 and len(tensor) == 1 and tensor.shape[2] > 1 and (found := grid.of(tensor.shape[1])):
        rows, columns, special = found
        return tensor[0, special:].T.reshape(-1, rows, columns)
    return None


def _attention(tensor: Tensor) -> bool:
    """Shares that add up to one over the last axis."""
    sums = tensor.detach().sum(-1)
    return bool((tensor.detach() >= 0).all()) and torch.allclose(sums, torch.ones_like(sums), atol=1e-3)
