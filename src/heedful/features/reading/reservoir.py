"""What is remembered of a stream, a feature at a time, in memory that does not grow.

    Best       the k items of the greatest scores. Scores that are random keys make it a uniform sample
    Histograms counts in B bins of equal width from 0; when a value is out of range the range doubles and
               neighbouring bins join, so counts are exact for the edges told at the end

Vitter 1985 (sampling from a stream); keys as in Efraimidis & Spirakis 2006 with equal weights.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

Kept = TypeVar("Kept")
Counts = npt.NDArray[np.int64]
BINS = 64


@dataclass
class TopItems(Generic[Kept]):
    """The k items of the greatest scores; of equal ones, those that came first."""

    k: int
    _heap: list[tuple[float, int, Kept]] = field(default_factory=list)
    _turn: count[int] = field(default_factory=count)

    @property
    def least(self) -> float:
        """What a score must exceed to be kept."""
        return self._heap[0][0] if len(self._heap) == self.k else -np.inf

    def offer(self, score: float, make: Callable[[], Kept]) -> None:
        """`make` is called only for what is kept."""
        if self.k < 1 or score <= self.least:
            return
        entry = (score, -next(self._turn), make())
        if len(self._heap) < self.k:
            heapq.heappush(self._heap, entry)
        else:
            heapq.heapreplace(self._heap, entry)

    def items(self) -> list[Kept]:
        """From the greatest score on."""
        return [item for _, _, item in sorted(self._heap, key=lambda e: (-e[0], -e[1]))]


@dataclass
class Histograms:
    """Of F features at once."""

    counts: Counts  # (F, B)
    reach: npt.NDArray[np.float64]  # (F,) bins go from 0 to here

    @classmethod
    def empty(cls, features: int, bins: int = BINS) -> Histograms:
        return cls(np.zeros((features, bins), np.int64), np.full(features, 2.0**-20))

    def add(self, values: npt.NDArray[np.float32]) -> None:
        """values (n, F); zeros and what is below are not counted."""
        if not len(values):
            return
        bins = self.counts.shape[1]
        most = values.max(0)
        for which in np.flatnonzero(most >= self.reach).tolist():
            self._widen(which, float(most[which]))
        row, feature = np.nonzero(values > 0)
        place = (values[row, feature].astype(np.float64) / self.reach[feature] * bins).astype(np.int64)
        flat = np.bincount(feature * bins + place, minlength=self.counts.size)
        self.counts += flat.reshape(self.counts.shape)

    def _widen(self, feature: int, value: float) -> None:
        bins = self.counts.shape[1]
        while value >= self.reach[feature]:
            self.reach[feature] *= 2
            halves = self.counts[feature].reshape(bins // 2, 2).sum(1)
            self.counts[feature] = np.concatenate([halves, np.zeros(bins - bins // 2, np.int64)])

    def edges(self, feature: int) -> npt.NDArray[np.float64]:
        """(B + 1,)"""
        bins = self.counts.shape[1]
        result: npt.NDArray[np.float64] = np.arange(bins + 1) * (self.reach[feature] / bins)
        return result
