"""Where a long run stands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

Progress = Callable[[int, int], None]  # rows done, rows in all


@dataclass(frozen=True)
class Step:
    """Where a run of several methods stands: `heedful.explain(progress=...)` is called with it."""

    method: str
    number: int  # of the method, from 1, in the order they run: cheap ones first
    methods: int
    part: int = 1  # of a text in windows
    parts: int = 1
    done: int = 0  # rows this method has run in this part
    total: int = 0  # the most it may run; a sampled method may stop before

    @property
    def label(self) -> str:
        """method 5 of 18: lime, part 2 of 3"""
        part = f", part {self.part} of {self.parts}" if self.parts > 1 else ""
        return f"method {self.number} of {self.methods}: {self.method}{part}"


Report = Callable[[Step], None]
