"""Features whose decoder rows point the same way.

    cos(W_i, W_j) for all j; control: the greatest cosine that a direction drawn at random has with any row

Cost: one product of d * F.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from heedful.io.json_codec import to_jsonable

RANDOM_DRAWS = 50


@dataclass(frozen=True)
class Neighbours:
    """The nearest features, nearest first."""

    features: tuple[int, ...]
    cosines: tuple[float, ...]
    chance: float  # mean greatest cosine of random directions with the same rows

    def to_dict(self) -> dict[str, Any]:
        return dict(to_jsonable(self))


def nearest(sae: Any, feature: int, k: int = 5, seed: int = 0) -> Neighbours:
    """The k features of the greatest cosine with `feature`."""
    rows = torch.nn.functional.normalize(sae.W_dec.detach().double().cpu(), dim=1)  # (F, d)
    cosines = rows @ rows[feature]
    cosines[feature] = -torch.inf
    best = cosines.topk(min(k, len(rows) - 1))
    drawn = torch.randn(RANDOM_DRAWS, rows.shape[1], generator=torch.Generator().manual_seed(seed)).double()
    others = torch.nn.functional.normalize(drawn, dim=1) @ rows.T  # (RANDOM_DRAWS, F)
    return Neighbours(
        tuple(best.indices.tolist()), tuple(best.values.tolist()), float(others.max(1).values.mean())
    )
