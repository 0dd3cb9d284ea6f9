"""Every subset of the words, run: what the definitions say, word for word, where d is small enough.

    f(z) for all 2^d masks z in {0,1}^d, in counting order: row r keeps word j if bit d-1-j of r is set

    Shapley   phi_j = sum over z without j of  1 / (d C(d-1, |z|))  (f(z + j) - f(z))
    Banzhaf   mean over z without j of  f(z + j) - f(z)
    LIME      weighted least squares of f on (1, z); a mask that removes s = 1 .. d words weighs
              psi(s/d) / (d C(d, s)): LIME never draws the whole text

Cost: 2^d values. What heedful.stats.ratio_game gets without them is held against this.
Shapley 1953; Banzhaf 1965; Mardaoui & Garreau 2021 (LIME for text).
"""

from __future__ import annotations

from math import comb

import numpy as np

from heedful.core.errors import HeedfulError
from heedful.stats.lime_limit import PUBLISHED, Floats, Indices, Masks, row_weights

MAX_WORDS = 20  # words: a million rows


def every_mask(d: int) -> Masks:
    """(2^d, d) in counting order: nothing kept first, everything last."""
    if not 1 <= d <= MAX_WORDS:
        raise HeedfulError(f"{d} words have too many subsets to run", f"{MAX_WORDS} words are the most")
    return ((np.arange(1 << d)[:, None] >> np.arange(d)[::-1]) & 1).astype(bool)


def shapley(values: Floats) -> Floats:
    """(2^d,) -> (d,)."""
    d = _words(values)
    kept = every_mask(d).sum(1)
    share = np.array([1 / (d * comb(d - 1, k)) for k in range(d)])
    return np.array([share[kept[r]] @ (values[r + step] - values[r]) for r, step in _without(d)])


def banzhaf(values: Floats) -> Floats:
    """(2^d,) -> (d,)."""
    return np.array([(values[r + step] - values[r]).mean() for r, step in _without(_words(values))])


def lime(values: Floats, nu: float = PUBLISHED) -> tuple[float, Floats]:
    """(2^d,) -> (b_0, b (d,)) of bandwidth nu, inf allowed."""
    d = _words(values)
    keep = every_mask(d)[:-1]
    chance = np.array([1 / (d * comb(d, k)) for k in range(d)])[keep.sum(1)]
    root = np.sqrt(chance * row_weights(keep, nu))[:, None]
    design = np.column_stack([np.ones(len(keep)), keep])
    result = np.linalg.lstsq(design * root, values[:-1] * root[:, 0], rcond=None)[0]
    return float(result[0]), np.asarray(result[1:])


def _words(values: Floats) -> int:
    d = len(values).bit_length() - 1
    if len(values) != 1 << d or d < 1:
        raise HeedfulError(f"{len(values)} values are not those of all subsets", "2, 4, 8 ... would be")
    return d


def _without(d: int) -> list[tuple[Indices, int]]:
    """For each word: the rows without it, and how far down the same row with it stands."""
    rows = np.arange(1 << d)
    return [(rows[rows & (1 << (d - 1 - j)) == 0], 1 << (d - 1 - j)) for j in range(d)]
