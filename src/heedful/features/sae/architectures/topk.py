"""TopK dictionary: the k strongest latents of each row and no penalty.

    f = ReLU(top_k((x - b_dec) W_enc + b_enc)),   x̂ = f W_dec + b_dec,   ||W_dec,i|| = 1
    L = E||x - x̂||² / d + (1/32) ||e - ê||² / ||e - mean e||²

where e = x - x̂ is held fixed and ê is what the k_aux = d/2 strongest latents that have been silent for 10M
rows make of it: dead latents are pulled towards what is missing. Divided by d, inputs have
unit mean square norm.
Cost: one dense product of n·d·F a step, the rest touches n·k latents (see `sparse`). Gao et al. 2024.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from heedful.features.sae import sparse_codes
from heedful.features.sae.base import Outcome, Params, TrainingState, begin
from heedful.features.sae.settings import TrainSettings


def start(settings: TrainSettings, x: Tensor) -> Params:
    return begin(settings, x)


def encode(params: Params, x: Tensor, config: Mapping[str, Any]) -> Tensor:
    values, latents = sparse_codes.search(x - params["b_dec"], params["enc"], params["b_enc"], config["k"])
    return torch.zeros(len(x), len(params["enc"]), dtype=x.dtype).scatter_(1, latents, values.relu())


def loss(params: Params, x: Tensor, settings: TrainSettings, step: int, memory: TrainingState) -> Outcome:
    def select(centred: Tensor, enc: Tensor, b_enc: Tensor) -> tuple[Tensor, sparse_codes.Active]:
        values, latents = sparse_codes.search(centred, enc, b_enc, settings.k)
        return values.reshape(-1), sparse_codes.regular(latents, settings.width)

    pre, active = sparse_codes.encode(select, x, params["enc"], params["b_enc"], params["b_dec"])
    codes = pre.relu()
    residual = x - sparse_codes.decode(codes, active, params["dec"]) - params["b_dec"]
    error = residual.square().sum() / x.numel()
    fired = counts(active, codes)
    parts = {"error": error} | revival(params, x, residual.detach(), fired, settings, memory)
    smallest = codes.detach().view(-1, settings.k).amin(1).mean()
    return Outcome(sum_of(parts), parts, residual.detach(), fired, smallest)


def counts(active: sparse_codes.Active, codes: Tensor) -> Tensor:
    """How often each latent is above zero (F,)."""
    return torch.bincount(active.latents[codes.detach() > 0], minlength=active.width)


def sum_of(parts: Mapping[str, Tensor]) -> Tensor:
    return torch.stack(list(parts.values())).sum()


def revival(
    params: Params, x: Tensor, error: Tensor, fired: Tensor, settings: TrainSettings, memory: TrainingState
) -> dict[str, Tensor]:
    """The auxiliary loss, dense over the dead latents alone; nothing where none is. error (n, d) is fixed.

    A latent that fires in this very batch, fired (F,) > 0, is not dead any more.
    """
    silent = memory.silent + len(x) * memory.workers.world >= settings.dead_rows
    if not silent.any() or not settings.aux:
        return {}
    dead = (silent & (memory.workers.total(fired) == 0)).nonzero()[:, 0]
    if not len(dead):
        return {}
    pre = torch.addmm(params["b_enc"][dead], x - params["b_dec"], params["enc"][dead].T)  # (n, dead)
    values, places = pre.topk(min(settings.k_aux, len(dead)), sorted=False)
    tried = torch.zeros_like(pre).scatter(1, places, values.relu()) @ params["dec"][dead]  # (n, d)
    centre = memory.workers.mean(error.mean(0))
    spread = memory.workers.mean((error - centre).square().sum() / len(x))
    missed = (error - tried).square().sum() / len(x)
    return {"revival": settings.aux * missed / spread.clamp(min=1e-12)}
