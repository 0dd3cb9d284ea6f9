"""Vectors in a row, of which some are missing: the straight line between their nearest neighbours.

    e_t = (e_{t-1} + e_{t+1}) / 2     for every missing t, solved at once; at an end, the one neighbour

With two neighbours of equal weight the solution is the line between the nearest known places, which is how it
is computed: O(T d). Noise keeps a model from reading "exactly on the line" as a sign of removal.

Rong et al. 2022, where it is done in two dimensions.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from heedful.core.arrays import Floats

Gone = npt.NDArray[np.bool_]  # (T,) True where something was removed
NOISE = 0.01  # of the spread of a coordinate


def between(vectors: Floats, gone: Gone) -> Floats:
    """(T, d): each position on the line between the nearest kept ones; beyond the ends, the last kept one."""
    kept, places = np.flatnonzero(~gone), np.arange(len(gone))
    right = np.minimum(np.searchsorted(kept, places), len(kept) - 1)
    left = np.maximum(np.searchsorted(kept, places, side="right") - 1, 0)
    room = kept[right] - kept[left]  # 0 at kept positions and beyond the ends
    share = np.where(room > 0, (places - kept[left]) / np.maximum(room, 1), 0.0)[:, None]
    return np.asarray((1 - share) * vectors[kept[left]] + share * vectors[kept[right]])


def imputed_row(
    vectors: Floats, gone: Gone, mean: Floats, spread: Floats, rng: np.random.Generator
) -> Floats:
    """(T, d) with what is gone on the line, plus noise of size `spread` (d,); all of it gone: `mean`."""
    line = between(vectors, gone) if not gone.all() else np.broadcast_to(mean, vectors.shape)
    noise = spread * rng.normal(size=(int(gone.sum()), vectors.shape[1]))
    result = np.array(vectors)
    result[gone] = line[gone] + noise
    return result
