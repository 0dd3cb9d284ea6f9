"""BatchTopK dictionary: the n·k strongest activations of a whole batch, so rows may use more or fewer.

    f = z 1[z among the n·k greatest positive of the batch],   z = (x - b_dec) W_enc + b_enc
    L as for topk;  at inference f = z 1[z > theta], theta a running mean of the smallest activation kept

Each row's 2k strongest are looked at; a row all of whose candidates are kept is looked at whole, so the
choice is exact. Cost: one dense product of n·d·F a step. Bussmann, Leask & Nanda 2024.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from heedful.features.sae import sparse_codes
from heedful.features.sae.architectures.topk import counts, revival, sum_of
from heedful.features.sae.base import Outcome, Params, TrainingState, WorkerGroup, begin
from heedful.features.sae.settings import TrainSettings


def start(settings: TrainSettings, x: Tensor) -> Params:
    return begin(settings, x)


def encode(params: Params, x: Tensor, config: Mapping[str, Any]) -> Tensor:
    pre = torch.addmm(params["b_enc"], x - params["b_dec"], params["enc"].T)
    return pre * ((pre > params["threshold"]) & (pre > 0))


def loss(params: Params, x: Tensor, settings: TrainSettings, step: int, memory: TrainingState) -> Outcome:
    codes, active = chosen(params, x, settings, memory)
    residual = x - sparse_codes.decode(codes, active, params["dec"]) - params["b_dec"]
    error = residual.square().sum() / x.numel()
    fired = counts(active, codes)
    parts = {"error": error} | revival(params, x, residual.detach(), fired, settings, memory)
    return Outcome(sum_of(parts), parts, residual.detach(), fired, smallest(codes, memory.workers))


def chosen(
    params: Params, x: Tensor, settings: TrainSettings, memory: TrainingState
) -> tuple[Tensor, sparse_codes.Active]:
    """Activations (nnz,) that are kept, and where."""

    def select(centred: Tensor, enc: Tensor, b_enc: Tensor) -> tuple[Tensor, sparse_codes.Active]:
        return strongest_of_batch(centred, enc, b_enc, settings.k, memory.workers)

    return sparse_codes.encode(select, x, params["enc"], params["b_enc"], params["b_dec"])


def smallest(codes: Tensor, workers: WorkerGroup) -> Tensor:
    """The smallest activation kept by any worker."""
    kept = codes.detach()
    least = kept.min() if len(kept) else torch.tensor(torch.inf, dtype=codes.dtype)
    return workers.gather(least[None]).min()


def strongest_of_batch(
    x: Tensor, enc: Tensor, b_enc: Tensor, k: int, workers: WorkerGroup
) -> tuple[Tensor, sparse_codes.Active]:
    """The n·k greatest positive pre-activations of all workers' rows: this worker's (nnz,), and which."""
    looked = min(len(enc), 2 * k)
    values, latents = sparse_codes.search(x, enc, b_enc, looked)
    least = _cut(values.reshape(-1), k * len(x), workers)
    full = (values.amin(1) >= least) if looked < len(enc) else torch.zeros(len(x), dtype=torch.bool)
    active, flat = sparse_codes.regular(latents, len(enc)), values.reshape(-1)
    if workers.total(full.sum()) > 0:  # these rows may hold more: look at all of their latents
        flat, active = _with_whole_rows(x, enc, b_enc, full, values, latents, least)
        least = _cut(flat, k * len(x), workers)
    keep = (flat >= least) & (flat > 0)
    return flat[keep], active.keep(keep)


def _cut(values: Tensor, n: int, workers: WorkerGroup) -> Tensor:
    """The value that the n·workers greatest of all workers reach."""
    total = n * workers.world
    padded = torch.full((total,), -torch.inf, dtype=values.dtype)
    best = values.topk(min(total, len(values)), sorted=False).values
    padded[: len(best)] = best
    everyone = workers.gather(padded)
    return everyone.kthvalue(len(everyone) - total + 1).values


def _with_whole_rows(
    x: Tensor, enc: Tensor, b_enc: Tensor, full: Tensor, values: Tensor, latents: Tensor, least: Tensor
) -> tuple[Tensor, sparse_codes.Active]:
    """Of the rows marked `full` all that reach `least`, which can only rise; the candidates of the others."""
    whole = torch.addmm(b_enc, x[full], enc.T)
    at, latent = (whole >= least).nonzero(as_tuple=True)
    rows = torch.cat([(~full).nonzero()[:, 0].repeat_interleave(values.shape[1]), full.nonzero()[at, 0]])
    order = torch.argsort(rows, stable=True)
    flat = torch.cat([values[~full].reshape(-1), whole[at, latent]])[order]
    where = torch.cat([latents[~full].reshape(-1), latent])[order]
    counts = torch.bincount(rows, minlength=len(x))
    return flat, sparse_codes.Active(sparse_codes.starts_of(counts), where.int(), len(enc))
