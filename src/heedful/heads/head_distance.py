"""How far heads are from one another, and a map of them in the plane.

    P = 0.999 A + 0.001 / K                                       smoothed rows
    JS(P, R) = H((P + R) / 2) - (H(P) + H(R)) / 2                 0 alike, ln 2 disjoint
    D[a, b] = sum over texts and rows of JS(P_a, P_b)             (L H, L H)

The root of D is a Euclidean distance (Endres & Schindelin 2003; Fuglede & Topsøe 2004), so classical scaling
of it has no negative directions to drop but those of rounding. Clark et al. lay out D itself; its root keeps
the same order of distances.

    classical scaling     B = -1/2 J D J, J = I - 1/n; coordinates are the top eigenvectors times the roots of
                          their eigenvalues

Heads are in layer-major order, as everywhere. `Layout.kept` says how much of the spread the plane shows, and
`Layout.by_chance` how much a plane shows of as many points spread alike in all directions: near it, the
picture tells nothing.

Cost: (L H)^2 / 2 entropies of rows, a block of rows at a time: memory stays at a few times
BLOCK_NUMBERS, whatever the text. 144 heads and 128 tokens take 2.4 s a text on one core, and time grows with
tokens squared.

Clark, Khandelwal, Levy & Manning, What Does BERT Look At?, BlackboxNLP 2019.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from heedful.core.arrays import Floats
from heedful.core.errors import HeedfulError
from heedful.core.result import NotebookRepr
from heedful.heads.kinds import HasStacks
from heedful.heads.maps import Maps

SMOOTH = 0.001
BLOCK_NUMBERS = 4_000_000  # numbers in memory at once: 32 MB


def divergences(maps: Maps) -> Floats:
    """(L H, L H): Jensen-Shannon divergences of heads, summed over the rows of one text."""
    layers, heads, queries, keys = maps.weights.shape
    flat = maps.weights.reshape(layers * heads, queries, keys)
    total = np.zeros((len(flat), len(flat)))
    rows = max(1, BLOCK_NUMBERS // (len(flat) * keys))
    for start in range(0, queries, rows):
        part = flat[:, start : start + rows].astype(np.float64)
        part = (1 - SMOOTH) * part + SMOOTH / keys
        total += _summed(part.reshape(len(flat), -1))
    return total


def _summed(p: Floats) -> Floats:
    """(N, N) divergences summed over all rows in p (N, rows K): entropies add, so rows need no axis."""
    own = _entropy(p)
    total = np.zeros((len(p), len(p)))
    for a in range(len(p) - 1):
        between = _entropy((p[a] + p[a + 1 :]) / 2) - (own[a] + own[a + 1 :]) / 2
        total[a, a + 1 :] = total[a + 1 :, a] = between.clip(0)  # rounding may fall below zero
    return total


def _entropy(p: Floats) -> Floats:
    """(N, ...) -> (N,): summed over everything else; smoothing leaves no zeros."""
    return np.asarray(-np.einsum("nk,nk->n", p, np.log(p)))


def head_distance(atlases: Sequence[HasStacks] | HasStacks, stack: str = "self") -> Floats:
    """(L H, L H): divergences summed over rows and texts."""
    given = [atlases] if isinstance(atlases, HasStacks) else list(atlases)
    if not given:
        raise HeedfulError("there is no atlas to compare heads in", fix="Give at least one")
    results = [atlas.stack(stack) for atlas in given]
    if len({maps.weights.shape[:2] for maps in results}) > 1:
        raise HeedfulError("these atlases are of different models", "they have not the same heads")
    return np.asarray(sum(map(divergences, results)))


@dataclass(frozen=True, eq=False)
class HeadLayout(NotebookRepr):
    """Heads as points in the plane."""

    points: Floats  # (L H, 2)
    layers: tuple[int, ...]  # (L H,)
    heads: tuple[int, ...]
    distance: Floats  # (L H, L H): the roots of D, which the points approximate
    kept: float  # share of the spread that the plane shows
    by_chance: float  # of points spread alike in all directions


def heads_layout(atlases: Sequence[HasStacks] | HasStacks, stack: str = "self") -> HeadLayout:
    """Heads that look alike lie together."""
    given = [atlases] if isinstance(atlases, HasStacks) else list(atlases)
    distance = np.sqrt(head_distance(given, stack))
    layers, heads = given[0].stack(stack).weights.shape[:2]
    points, kept = classical_scaling(distance)
    return HeadLayout(
        points=points,
        layers=tuple(np.repeat(np.arange(layers), heads).tolist()),
        heads=tuple(np.tile(np.arange(heads), layers).tolist()),
        distance=distance,
        kept=kept,
        by_chance=min(1.0, 2 / max(len(distance) - 1, 1)),
    )


def classical_scaling(distance: Floats, dimensions: int = 2) -> tuple[Floats, float]:
    """((n, dimensions) points, share of the spread they show). Signs are fixed: the farthest is positive."""
    n = len(distance)
    centre = np.eye(n) - 1 / n
    values, vectors = np.linalg.eigh(-centre @ np.square(distance) @ centre / 2)  # ascending
    top = np.argsort(values)[::-1][:dimensions]
    scale = np.sqrt(values[top].clip(0))
    points = np.zeros((n, dimensions))
    points[:, : len(top)] = vectors[:, top] * scale
    farthest = points[np.abs(points).argmax(0), np.arange(dimensions)]
    points *= np.where(farthest < 0, -1.0, 1.0)
    spread = float(values.clip(0).sum())
    return points, float(values[top].clip(0).sum() / spread) if spread > 0 else 1.0
