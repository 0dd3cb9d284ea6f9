"""Interleaved timing: A, B, A, B, ... both meet the same noise; the ratio of each pair is what counts."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Ratio:
    """ours / rival, with its spread over the pairs, and what it should be at most."""

    work: str
    rival: str
    ratio: float
    low: float
    high: float
    at_most: float | None
    pairs: int
    ours_seconds: float
    rival_seconds: float

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


def compare(
    work: str,
    rival: str,
    ours: Callable[[], object],
    theirs: Callable[[], object],
    *,
    at_most: float | None = None,
    pairs: int = 9,
) -> Ratio:
    """Median of the pairwise ratios, with the quartiles, after one warm-up of each."""
    ours(), theirs()
    mine, other = [], []
    for _ in range(pairs):
        mine.append(_seconds(ours))
        other.append(_seconds(theirs))
    ratios = sorted(a / b for a, b in zip(mine, other, strict=True))
    low, middle, high = statistics.quantiles(ratios, n=4)
    return Ratio(
        work, rival, middle, low, high, at_most, pairs, statistics.median(mine), statistics.median(other)
    )


def _seconds(run: Callable[[], object]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started
