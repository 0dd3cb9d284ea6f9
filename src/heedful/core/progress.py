"""Where long work stands: one event for all of it.

Every `progress=` of heedful is a `Report`: it is called with a `Step` each time something more is done.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

Progress = Callable[[int, int], None]  # rows done, rows in all: what a loop counts, see `counting`


@dataclass(frozen=True)
class Step:
    """What is being done, how much of it, and of how much."""

    method: str  # or other work: "reading texts"
    number: int = 0  # of the method, from 1, in the order they run: cheap ones first
    methods: int = 0  # 0: the work is not one of several methods
    part: int = 1  # of a text in windows
    parts: int = 1
    done: int = 0  # of a method: rows it has run in this part
    total: int = 0  # 0: not known; of a method the most it may run, a sampled one may stop before
    resumed: int = 0  # of `done`, by an earlier run
    values: Mapping[str, float | int] = field(default_factory=dict)  # of training: loss, l0, explained, ...

    @property
    def label(self) -> str:
        """method 5 of 18: lime, part 2 of 3"""
        part = f", part {self.part} of {self.parts}" if self.parts > 1 else ""
        place = f"method {self.number} of {self.methods}: " if self.methods else ""
        return f"{place}{self.method}{part}"


Report = Callable[[Step], None]


def counting(report: Report | None, work: str) -> Progress:
    """For a loop that counts: each count becomes a Step."""

    def count(done: int, total: int) -> None:
        if report is not None:
            report(Step(work, done=done, total=total))

    return count
