"""What every architecture shares: weights, what a step tells, what is remembered between steps.

    params   enc (F, d) = W_enc^T, b_enc (F,), dec (F, d) = W_dec, b_dec (d,); jumprelu: log_threshold (F,)
    Outcome  loss of a batch and its parts
    Memory   how long each latent has been silent, and the running threshold

Decoders of length one (all kinds but relu): otherwise the penalty is gamed by small activations and long
decoders. The part of the gradient along a decoder row is removed before Adam, since the
renormalisation would undo it (Bricken et al. 2023).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from heedful.features.sae.settings import TrainSettings

Params = dict[str, Tensor]


@runtime_checkable
class WorkerGroup(Protocol):
    """Workers that train one dictionary together; see `parallel`."""

    rank: int
    world: int

    def mean(self, value: Tensor) -> Tensor: ...

    def total(self, value: Tensor) -> Tensor: ...

    def gather(self, values: Tensor) -> Tensor: ...


class SingleWorker:
    """One worker."""

    rank, world = 0, 1

    def mean(self, value: Tensor) -> Tensor:
        return value

    def total(self, value: Tensor) -> Tensor:
        return value

    def gather(self, values: Tensor) -> Tensor:
        return values


@dataclass(eq=False)
class TrainingState:
    """What a run remembers beside weights and Adam's moments."""

    silent: Tensor  # (F,) int64: rows since each latent last fired
    threshold: Tensor  # () running mean of the smallest kept activation; below 0: none yet
    workers: WorkerGroup = field(default_factory=SingleWorker)

    @classmethod
    def new(cls, settings: TrainSettings, dtype: torch.dtype = torch.float32) -> TrainingState:
        return cls(torch.zeros(settings.width, dtype=torch.int64), torch.tensor(-1.0, dtype=dtype))


@dataclass(frozen=True, eq=False)
class Outcome:
    """One batch's loss, differentiable, and what is told about it."""

    total: Tensor  # ()
    parts: dict[str, Tensor]  # what adds up to the total
    residual: Tensor  # (n, d) x - reconstruction
    fired: Tensor  # (F,) how often each latent fired in the batch
    smallest: Tensor | None = None  # the smallest activation that was kept


def random_directions(rows: int, d: int, seed: int, length: float = 1.0) -> Tensor:
    """(rows, d) of one length, uniformly pointed."""
    drawn = torch.randn(rows, d, generator=torch.Generator().manual_seed(seed))
    lengths: Tensor = drawn.norm(dim=1, keepdim=True)
    return drawn * (length / lengths)


def begin(settings: TrainSettings, x: Tensor) -> Params:
    """Random decoders, encoders their transpose, zero biases; b_dec the geometric median where it is tied.

    relu: length 0.1 (published: "0.05 to 1"); otherwise length 1. x (n, d) is a batch, scaled.
    """
    dec = random_directions(settings.width, settings.d, settings.seed, 1.0 if settings.unit else 0.1)
    tied = settings.kind not in ("relu", "jumprelu")
    return {
        "enc": dec.clone(),
        "b_enc": torch.zeros(settings.width),
        "dec": dec,
        "b_dec": geometric_median(x) if tied else torch.zeros(settings.d),
    }


def geometric_median(x: Tensor, steps: int = 100, tolerance: float = 1e-6) -> Tensor:
    """The point of least total distance to the rows of x (n, d), by Weiszfeld's iteration."""
    point: Tensor = x.mean(0)
    for _ in range(steps):
        weight = 1 / (x - point).norm(dim=1).clamp(min=1e-12)
        moved: Tensor = (weight[:, None] * x).sum(0) / weight.sum()
        if (moved - point).norm() <= tolerance * (1e-12 + moved.norm()):
            return moved
        point = moved
    return point


def tangent_(dec: Tensor, grad: Tensor) -> None:
    """Remove from each row of grad (F, d) its part along the unit row of dec."""
    along = (grad * dec).sum(1, keepdim=True)
    grad.addcmul_(along, dec, value=-1)


def renormalise_(dec: Tensor) -> None:
    dec.div_(torch.linalg.vector_norm(dec, dim=1, keepdim=True).clamp_(min=1e-12))


def note_fired(memory: TrainingState, fired: Tensor, rows: int) -> None:
    """Silence grows by the rows of the step, over all workers, and ends when a latent fires."""
    counts = memory.workers.total(fired)
    memory.silent.add_(rows * memory.workers.world).masked_fill_(counts > 0, 0)
