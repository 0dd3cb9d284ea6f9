"""Interleaved timing: A, B, A, B, ... both meet the same noise; the ratio of each pair is what counts."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace

Work = Callable[[], object]
Rivals = dict[str, tuple[Work, float | None]]  # name -> what it runs, and the limit of ours / rival


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
    ours: float
    theirs: float
    unit: str = "s"  # of ours and theirs
    rows: tuple[int | None, int | None] = (None, None)  # model inputs of ours and theirs
    note: str = ""

    @property
    def missed(self) -> bool:
        return self.at_most is not None and self.ratio > self.at_most

    def as_dict(self) -> dict[str, object]:
        return asdict(self) | {"missed": self.missed}

    def told(self, note: str, rows: tuple[int | None, int | None] = (None, None)) -> Ratio:
        return replace(self, note=note, rows=rows)


def compare(
    work: str,
    rival: str,
    ours: Work,
    theirs: Work,
    *,
    at_most: float | None = None,
    pairs: int = 9,
    warm: bool = True,
) -> Ratio:
    """Median of the pairwise ratios, with the quartiles, after one warm-up of each."""
    return compare_all(work, ours, {rival: (theirs, at_most)}, pairs=pairs, warm=warm)[0]


def compare_all(work: str, ours: Work, rivals: Rivals, *, pairs: int = 9, warm: bool = True) -> list[Ratio]:
    """A ratio a rival; ours is run once a round, the rivals after it."""
    everyone = {"": ours} | {rival: theirs for rival, (theirs, _) in rivals.items()}
    taken: dict[str, list[float]] = {name: [] for name in everyone}
    for round_ in range(pairs + warm):
        for name, run in everyone.items():
            spent = seconds(run)
            if round_ or not warm:
                taken[name].append(spent)
    return [
        ratio_of(work, rival, taken[""], taken[rival], at_most=limit) for rival, (_, limit) in rivals.items()
    ]


def ratio_of(
    work: str, rival: str, mine: Sequence[float], other: Sequence[float], *, at_most: float | None = None
) -> Ratio:
    """What was timed elsewhere, pair by pair."""
    ratios = [a / b for a, b in zip(mine, other, strict=True)]
    low, middle, high = quartiles(ratios)
    ours, theirs = statistics.median(mine), statistics.median(other)
    return Ratio(work, rival, middle, low, high, at_most, len(ratios), ours, theirs)


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """Of few values, too: one is its own quartiles."""
    if len(values) == 1:
        return values[0], values[0], values[0]
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, middle, high


def seconds(run: Work) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started
