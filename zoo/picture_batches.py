"""What the two training scripts for pictures share: batches as the networks read them, and the optimisers."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from muon import Muon

SIZE, PATCH = 48, 6
HALF = [0.5, 0.5, 0.5]  # mean and standard deviation of colours, as the stored processors have them


def pixel_values(pictures: list[Any]) -> Tensor:
    """(B, 3, H, W) as the stored processor makes them of pictures of the right size."""
    batch = torch.from_numpy(np.stack(pictures)).permute(0, 3, 1, 2).float() / 255
    return (batch - 0.5) / 0.5


def hide_patches(pixels: Tensor, generator: torch.Generator) -> Tensor:
    """On a fifth of the pictures, a share of the patches takes the mean colour of the picture."""
    n, side = len(pixels), SIZE // PATCH
    rate = 0.6 * torch.rand(n, 1, 1, 1, generator=generator)
    rate = rate * (torch.rand(n, 1, 1, 1, generator=generator) < 0.2)
    gone = torch.rand(n, 1, side, side, generator=generator) < rate
    gone = gone.repeat_interleave(PATCH, 2).repeat_interleave(PATCH, 3)
    return torch.where(gone, pixels.mean((2, 3), keepdim=True), pixels)


def waves(side: int, width: int) -> Tensor:
    """(side², width): sine and cosine of rows and of columns at width / 4 frequencies."""
    ticks = torch.arange(side).float()
    angles = ticks[:, None] * (0.05 ** torch.linspace(0, 1, width // 4))[None]  # (side, width / 4)
    one = torch.cat([angles.sin(), angles.cos()], 1)
    rows, columns = one.repeat_interleave(side, 0), one.repeat(side, 1)
    return torch.cat([rows, columns], 1)


def optimizers(
    model: nn.Module, inside: str, *, lr: float, muon: float, decay: float
) -> list[torch.optim.Optimizer]:
    """Muon for matrices whose name contains `inside`, AdamW for the rest."""
    hidden = [p for name, p in model.named_parameters() if p.ndim == 2 and inside in name]
    chosen = {id(p) for p in hidden}
    rest = [p for p in model.parameters() if id(p) not in chosen]
    adam = torch.optim.AdamW(rest, lr=lr, betas=(0.9, 0.98), weight_decay=0.0, fused=True)
    return [Muon(hidden, lr=muon, weight_decay=decay), adam]


def update(model: nn.Module, optimizers: list[torch.optim.Optimizer], loss: Tensor) -> float:
    """One step of all optimisers; returns the loss."""
    for one in optimizers:
        one.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    for one in optimizers:
        one.step()
    return loss.item()


def set_rates(optimizers: list[torch.optim.Optimizer], share: float) -> None:
    """The given share of the rate that each group began with."""
    for group in (group for one in optimizers for group in one.param_groups):
        group["lr"] = group.setdefault("full_lr", group["lr"]) * share
