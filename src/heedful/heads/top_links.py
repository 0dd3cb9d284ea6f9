"""The strongest links of one matrix: who looks at whom, beside what looking everywhere alike would give.

Cost: a sort. Needs nothing but the maps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from heedful.core.arrays import Floats
from heedful.heads.maps import Maps
from heedful.heads.word_maps import reachable


@dataclass(frozen=True)
class Link:
    """One query, one key."""

    query: int
    key: int
    source: str  # as shown
    goal: str
    weight: float
    uniform: float  # the same when every head looks everywhere alike: the control


def strongest(
    maps: Maps, matrix: Floats, control: Floats, k: int = 10, words_only: bool = True
) -> list[Link]:
    """The k largest entries of matrix (Q, K), largest first, ties in reading order; control (Q, K) beside.

    `words_only` leaves out special tokens and, where queries and keys are the same text, what looks at
    itself: both are strong in most heads, whatever the text says.
    """
    shown = reachable(maps).any(0)
    if words_only:
        shown &= ~np.array(maps.queries.special)[:, None] & ~np.array(maps.keys.special)
        if maps.stack != "cross" and len(maps.queries) == len(maps.keys):
            np.fill_diagonal(shown, False)
    places = np.argwhere(shown)
    order = np.argsort(-matrix[tuple(places.T)], kind="stable")[:k]
    return [_link(maps, matrix, control, int(q), int(j)) for q, j in places[order]]


def _link(maps: Maps, matrix: Floats, control: Floats, q: int, j: int) -> Link:
    return Link(
        query=q,
        key=j,
        source=maps.queries.labels[q],
        goal=maps.keys.labels[j],
        weight=float(matrix[q, j]),
        uniform=float(control[q, j]),
    )
