"""Matryoshka BatchTopK: prefixes of the dictionary must each rebuild the input.

    x̂_m = sum_{i < prefix_m} f_i W_dec,i + b_dec,   f as in batchtopk
    L = mean over prefixes m of E||x - x̂_m||² / d  + revival as for topk (on the whole dictionary's error)

Early latents learn what is general, later ones detail, which counters splitting and absorption.
Cost: that of batchtopk; each latent is decoded once and prefixes are running sums. Bussmann et al. 2025.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from heedful.features.sae import sparse_codes
from heedful.features.sae.architectures.batchtopk import chosen, encode, smallest, start
from heedful.features.sae.architectures.topk import counts, revival, sum_of
from heedful.features.sae.base import Outcome, Params, TrainingState
from heedful.features.sae.settings import TrainSettings

__all__ = ["encode", "loss", "start"]


def loss(params: Params, x: Tensor, settings: TrainSettings, step: int, memory: TrainingState) -> Outcome:
    codes, active = chosen(params, x, settings, memory)
    residual, errors = x - params["b_dec"], []
    for part in prefix_sums(codes, active, params["dec"], settings.prefixes):
        residual = residual - part
        errors.append(residual.square().sum() / x.numel())
    fired, last = counts(active, codes), residual.detach()
    parts = {"error": torch.stack(errors).mean()} | revival(params, x, last, fired, settings, memory)
    return Outcome(sum_of(parts), parts, last, fired, smallest(codes, memory.workers))


def prefix_sums(
    codes: Tensor, active: sparse_codes.Active, dec: Tensor, prefixes: tuple[int, ...]
) -> Iterator[Tensor]:
    """What the latents between one prefix and the next decode to (n, d), prefix by prefix."""
    for begin, end in zip((0, *prefixes), prefixes, strict=False):
        inside = (active.latents >= begin) & (active.latents < end)
        yield sparse_codes.decode(codes[inside], active.keep(inside), dec)
