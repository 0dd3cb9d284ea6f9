"""ReLU dictionary with free decoder lengths.

    f = ReLU(x W_enc + b_enc)              no bias is taken off first
    L = E||x - f W_dec - b_dec||² + lambda E sum_i f_i ||W_dec,i||       (E||x||² = d, lambda = 5)

The penalty counts what a latent adds to the reconstruction, f_i ||W_dec,i||, so scaling decoders up and
activations down gains nothing. Lambda rises over the first 5 % of the steps.
Cost: five dense products of n·d·F a step. Templeton et al. 2024, "Scaling Monosemanticity", and the training
notes of April 2024 (Conerly et al.).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from heedful.features.sae.base import Outcome, Params, TrainingState, begin
from heedful.features.sae.settings import TrainSettings, sparsity_at


def start(settings: TrainSettings, x: Tensor) -> Params:
    return begin(settings, x)


def encode(params: Params, x: Tensor, config: Mapping[str, Any]) -> Tensor:
    return torch.addmm(params["b_enc"], x, params["enc"].T).relu()


def loss(params: Params, x: Tensor, settings: TrainSettings, step: int, memory: TrainingState) -> Outcome:
    codes = encode(params, x, {})  # (n, F)
    lengths = torch.linalg.vector_norm(params["dec"], dim=1)  # (F,)
    residual = x - torch.addmm(params["b_dec"], codes, params["dec"])
    error = residual.square().sum() / len(x)
    penalty = sparsity_at(settings, step) * (codes.sum(0) @ lengths) / len(x)
    fired = torch.count_nonzero(codes.detach(), dim=0)
    return Outcome(error + penalty, {"error": error, "sparsity": penalty}, residual.detach(), fired)
