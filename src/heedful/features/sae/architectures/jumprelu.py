"""JumpReLU dictionary: a learnt threshold a latent, and a penalty on the number of active latents.

    f = z 1[z > theta],   z = x W_enc + b_enc,   theta = exp(log_threshold) > 0,   ||W_dec,i|| = 1
    L = E||x - f W_dec - b_dec||² / d + lambda E||f||_0

Both steps have zero gradient almost everywhere; with a rectangle kernel of bandwidth eps,
    d f / d theta    := -(theta / eps) 1[|z - theta| < eps / 2]
    d |f|_0 / d theta := -(1 / eps) 1[|z - theta| < eps / 2]
which is the gradient of the expected loss, estimated from the activations near the threshold. The bandwidth
and the first threshold are .001 for inputs of unit mean square norm, hence .001 sqrt(d) here.
Cost: five dense products of n·d·F a step. Rajamanoharan et al. 2024.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, cast

import torch
from torch import Tensor

from heedful.features.sae.base import Outcome, Params, TrainingState, begin
from heedful.features.sae.settings import TrainSettings, sparsity_at


def start(settings: TrainSettings, x: Tensor) -> Params:
    first = math.log(settings.bandwidth * math.sqrt(settings.d))
    return begin(settings, x) | {"log_threshold": torch.full((settings.width,), first)}


def encode(params: Params, x: Tensor, config: Mapping[str, Any]) -> Tensor:
    pre = torch.addmm(params["b_enc"], x, params["enc"].T)
    threshold = params["threshold"] if "threshold" in params else params["log_threshold"].exp()
    return pre * (pre > threshold)


class _Jump(torch.autograd.Function):
    """z, theta, eps -> f (n, F) and each latent's count of firings (F,)."""

    @staticmethod
    def forward(ctx: Any, z: Tensor, theta: Tensor, eps: float) -> tuple[Tensor, Tensor]:
        ctx.eps = eps
        ctx.save_for_backward(z, theta)
        on = z > theta
        return z * on, on.sum(0).to(z.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        z, theta = ctx.saved_tensors
        near = (z - theta).abs() < ctx.eps / 2
        to_f = (near * grads[0]).sum(0) * -theta / ctx.eps
        to_count = near.sum(0) * grads[1] / -ctx.eps
        return grads[0] * (z > theta), to_f + to_count, None


def jump(z: Tensor, theta: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Activations (n, F), and how often each latent fires (F,), with the kernel's gradients for theta."""
    return cast(tuple[Tensor, Tensor], _Jump.apply(z, theta, eps))  # type: ignore[no-untyped-call]


def loss(params: Params, x: Tensor, settings: TrainSettings, step: int, memory: TrainingState) -> Outcome:
    pre = torch.addmm(params["b_enc"], x, params["enc"].T)
    eps = settings.bandwidth * math.sqrt(settings.d)
    codes, fired = jump(pre, params["log_threshold"].exp(), eps)
    residual = x - torch.addmm(params["b_dec"], codes, params["dec"])
    error = residual.square().sum() / x.numel()
    penalty = sparsity_at(settings, step) * fired.sum() / len(x)
    parts = {"error": error, "sparsity": penalty}
    return Outcome(error + penalty, parts, residual.detach(), fired.detach().long())
