"""ReLU dictionary with a tied bias, decoders of length one, and dead latents drawn anew.

    f = ReLU((x - b_dec) W_enc + b_enc),   x̂ = f W_dec + b_dec,   ||W_dec,i|| = 1
    L = E||x - x̂||² + lambda E||f||_1

b_dec starts at the geometric median. At 1/8, 2/8, 3/8 and 4/8 of the steps (published: 25, 50, 75 and 100
thousand), latents silent for half the time between (12,500 steps) are resampled: inputs are drawn with
probability proportional to their squared loss; the decoder becomes the unit input, the encoder the same
direction at 0.2 of the mean length of living encoders, the bias zero, and Adam's moments are reset.
Published on MLP activations of width 512 with batches of 8,192. Bricken et al. 2023.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from heedful.features.sae.base import Outcome, Params, TrainingState, begin
from heedful.features.sae.settings import TrainSettings, sparsity_at

SHRUNK = 0.2  # of the mean length of living encoders


def start(settings: TrainSettings, x: Tensor) -> Params:
    return begin(settings, x)


def encode(params: Params, x: Tensor, config: Mapping[str, Any]) -> Tensor:
    return torch.addmm(params["b_enc"], x - params["b_dec"], params["enc"].T).relu()


def loss(params: Params, x: Tensor, settings: TrainSettings, step: int, memory: TrainingState) -> Outcome:
    codes = encode(params, x, {})  # (n, F)
    residual = x - torch.addmm(params["b_dec"], codes, params["dec"])
    error = residual.square().sum() / len(x)
    penalty = sparsity_at(settings, step) * codes.sum() / len(x)
    fired = torch.count_nonzero(codes.detach(), dim=0)
    return Outcome(error + penalty, {"error": error, "sparsity": penalty}, residual.detach(), fired)


def resampling_steps(settings: TrainSettings) -> list[int]:
    return sorted({round(share * settings.steps) for share in settings.resample} - {0})


def patience(settings: TrainSettings) -> int:
    """Rows of silence after which a latent is resampled: half the time between two resamplings."""
    steps = resampling_steps(settings)
    gap = min((b - a for a, b in zip([0, *steps], steps, strict=False)), default=1)
    return max(1, gap // 2) * settings.batch


def resample(params: Params, dead: Tensor, inputs: Tensor, errors: Tensor, seed: int) -> None:
    """Give the latents `dead` (m,) new directions, in place. inputs (n, d), errors (n,) are their losses."""
    if not len(dead):
        return
    draw = torch.Generator().manual_seed(seed)
    weights = errors.double().square()
    chosen = torch.multinomial(
        weights, len(dead), replacement=len(dead) > int((weights > 0).sum()), generator=draw
    )
    directions = inputs[chosen] - params["b_dec"]
    directions = directions / directions.norm(dim=1, keepdim=True).clamp(min=1e-12)
    alive = torch.ones(len(params["enc"]), dtype=torch.bool)
    alive[dead] = False
    length = params["enc"][alive].norm(dim=1).mean() if alive.any() else torch.tensor(1.0)
    params["dec"][dead] = directions
    params["enc"][dead] = directions * (SHRUNK * length)
    params["b_enc"][dead] = 0.0
