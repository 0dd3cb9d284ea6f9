"""What heads of a vision transformer may look at: rules over patches in rows and columns.

    class-token   the first special position, which most classifiers read the answer from
    register      the other special positions
    self          the patch itself
    local         the patches around it, up to eight
    row, column   other patches of its row, of its column
    sink          one patch that all look at: the one that scores best (scored as `vertical` of texts)

    distance      mean over queries of sum_k w_qk |place_q - place_k| / sum_k w_qk, over patches, in patches

Needs nothing but the maps. Distances: Dosovitskiy et al., An Image is Worth 16x16 Words, ICLR 2021; sinks:
Darcet et al., Vision Transformers Need Registers, ICLR 2024.
"""

from __future__ import annotations

import numpy as np

from heedful.core.arrays import Floats
from heedful.heads.maps import Flags, Maps

PATCH_RULES = ("class-token", "register", "self", "local", "row", "column", "sink")


def places(maps: Maps) -> Floats:
    """(T, 2) row and column of each position; NaN of special ones."""
    rows, columns = maps.grid
    found = np.full((len(maps.keys), 2), np.nan)
    found[-rows * columns :] = np.argwhere(np.ones((rows, columns), dtype=bool))
    return found


def patch_keys(maps: Maps) -> dict[str, Flags]:
    """Rule -> (Q, K): the keys each query would look at."""
    size, special = len(maps.keys), np.array(maps.keys.special)
    here = places(maps)
    down, along = (np.abs(here[:, None, axis] - here[None, :, axis]) for axis in (0, 1))  # (Q, K)
    own = np.eye(size, dtype=bool)
    first = special & (np.arange(size) == 0)
    columns = {"class-token": first, "register": special & ~first}
    flags = {name: np.tile(keys, (size, 1)) & ~own for name, keys in columns.items() if keys.any()}
    near = (np.fmax(down, along) <= 1) & ~np.isnan(down)
    return flags | {
        "self": own,
        "local": near & ~own,
        "row": (down == 0) & ~own,
        "column": (along == 0) & ~own,
    }


def mean_distance(maps: Maps) -> Floats:
    """(L, H): how far patches look, in patches."""
    here = places(maps)
    patch = ~np.isnan(here[:, 0])
    apart = np.linalg.norm(here[patch][:, None] - here[patch][None], axis=-1)  # (P, P)
    weights = maps.weights[:, :, patch][..., patch].astype(np.float64)  # (L, H, P, P)
    mass = weights.sum(-1)
    far = np.einsum("lhqk,qk->lhq", weights, apart)
    return np.asarray(np.divide(far, mass, out=np.zeros_like(far), where=mass > 0).mean(-1))
