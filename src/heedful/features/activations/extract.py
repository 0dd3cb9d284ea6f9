"""Activations of one batch at one site."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch

from heedful.core.errors import HeedfulError
from heedful.features.activations.shuffle import Shape
from heedful.features.activations.store import Array
from heedful.features.activations.windows import (
    Batch,
    Cut,
)
from heedful.models.adapter import TokenModel
from heedful.models.sites.access import read


@dataclass(frozen=True)
class HarvestSettings:
    """What makes two harvests of the same texts by the same model the same."""

    site: str
    dtype: str
    cut: Cut
    batch_tokens: int
    shape: Shape

    def to_dict(self) -> dict[str, Any]:
        cut, shape = self.cut, self.shape
        return {
            "context": cut.context,
            "pack": cut.pack,
            "skip_special": cut.skip_special,
            "batch_tokens": self.batch_tokens,
            "rows": shape.rows,
            "shard_rows": shape.shard_rows,
            "seed": shape.seed,
        }


@dataclass(frozen=True, eq=False)
class HarvestedBatch:
    """The wanted positions of a batch, and their sums."""

    rows: Array  # (n, d) in the dtype of the store
    total: Array  # (d,) float64
    squares: float


def take(model: TokenModel, batch: Batch, settings: HarvestSettings) -> HarvestedBatch:
    """By a pass that ends at the site."""
    with torch.inference_mode():
        result = read(model, model.padded(batch.ids, batch.mask), [settings.site])[settings.site]
        rows = result[batch.keep.to(result.device)].cpu().float()
        if settings.dtype != "float32":
            rows = rows.to(getattr(torch, settings.dtype))
        squares = float(torch.linalg.vector_norm(rows.float(), dtype=torch.float64)) ** 2
        if not math.isfinite(squares):
            _refuse(settings, model.name)
        return HarvestedBatch(rows.numpy(), rows.sum(0, dtype=torch.float64).numpy(), squares)


def _refuse(settings: HarvestSettings, name: str) -> None:
    half = settings.dtype == "float16"
    raise HeedfulError(
        f"{settings.site} of {name} has activations that are not finite",
        "float16 ends at 65,504" if half else "",
        "Use dtype float32" if half else "Check the weights",
    )
