"""Activations to train on: a tensor, an array or a harvested store, as one endless, seekable stream."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from heedful.core.errors import HeedfulError

NORM_BATCHES = 16  # batches from which a store's mean square norm is taken, where it does not know it


@runtime_checkable
class ActivationStream(Protocol):
    """What a store offers; batch number `start` is the first one given."""

    @property
    def d(self) -> int: ...

    @property
    def rows(self) -> int: ...

    def batches(self, size: int, seed: int = 0, *, start: int = 0) -> Iterator[Tensor]: ...


@dataclass(frozen=True, eq=False)
class InMemoryRows:
    """Rows held in memory (n, d), shuffled anew each time round."""

    values: Tensor

    @property
    def d(self) -> int:
        return self.values.shape[1]

    @property
    def rows(self) -> int:
        return self.values.shape[0]

    def batches(self, size: int, seed: int = 0, *, start: int = 0) -> Iterator[Tensor]:
        """Endless; every batch is full, and its rows differ unless the table is shorter than a batch."""
        a_round = max(1, self.rows // size)
        turn, place = divmod(start, a_round)
        while True:
            order = torch.randperm(
                self.rows, generator=torch.Generator().manual_seed((seed * 1_000_003 + turn) % 2**63)
            )
            while place < a_round:
                chosen = order[place * size : (place + 1) * size]
                if len(chosen) < size:  # a table shorter than one batch: its rows again
                    chosen = order.repeat(-(-size // len(order)))[:size]
                yield self.values[chosen].float()
                place += 1
            turn, place = turn + 1, 0


def rows_of(data: Any) -> ActivationStream:
    """Whatever the user gave, as a stream."""
    if isinstance(data, np.ndarray):
        data = torch.from_numpy(np.ascontiguousarray(data))
    if isinstance(data, Tensor):
        if data.ndim != 2 or not data.numel() or not data.is_floating_point():
            raise HeedfulError(
                f"activations of shape {tuple(data.shape)} and type {data.dtype}",
                "one row per activation, (n, d), of floats is needed",
                "Use x.reshape(-1, d).float()",
            )
        return InMemoryRows(data.detach())
    if all(hasattr(data, name) for name in ("d", "rows", "batches")):
        return data  # type: ignore[no-any-return]
    raise HeedfulError(
        f"cannot train on {type(data).__name__}",
        fix="Give heedful.harvest's result, a tensor (n, d) or an array",
    )


def mean_square_norm(data: ActivationStream, batch: int, seed: int) -> float:
    """E||x||²: over all rows of a table, what a store says, or else over its first batches."""
    known = getattr(data, "mean_square_norm", None)
    if isinstance(known, float):
        total, n = known, 1
    elif isinstance(data, InMemoryRows):
        parts = torch.split(data.values, 65_536)
        total, n = sum(float(part.double().square().sum()) for part in parts), data.rows
    else:
        total, n = 0.0, 0
        for _, x in zip(
            range(min(NORM_BATCHES, -(-data.rows // batch))), data.batches(batch, seed), strict=False
        ):
            total, n = total + float(x.double().square().sum()), n + len(x)
    mean = total / max(1, n)
    if not 0 < mean < float("inf"):
        raise HeedfulError(
            "the activations have no usable size",
            f"their mean square norm is {mean}",
            "Look for activations that are not finite, or all zero",
        )
    return mean
