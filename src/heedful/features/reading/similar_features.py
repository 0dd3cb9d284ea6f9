"""Features whose decoder rows point the same way.

    cos(W_i, W_j) for all j; control: the greatest cosine that a direction drawn at random has with any row

Cost: one product of d * F.
"""

from __future__ import annotations

from typing import Any

import torch

from heedful.features.reading.results import Neighbours

RANDOM_DRAWS = 50


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
