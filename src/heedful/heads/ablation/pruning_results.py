"""A pruning curve as data: what is left of the task metric as heads go one after another. No torch."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from heedful.core.result import StoredResult
from heedful.core.result_kinds import result_kind
from heedful.stats.intervals import Interval


@dataclass(frozen=True)
class PruningStep:
    """One head (or layer) more is gone."""

    name: str
    gone: int  # how many are, after this step
    chosen: float  # the metric on the texts that chose
    value: float  # and on those that did not
    drop: float  # below all heads, on those that did not
    interval: Interval  # 95 % of the drop, for all steps together
    one_shot: float  # the metric when as many go in the order of single-head importance
    random: float  # in random orders: mean over draws
    random_range: Interval  # lowest and highest draw


@result_kind("pruning", version=1)
@dataclass(frozen=True)
class Pruning(StoredResult):
    """The result of `heedful.prune_heads`: a curve, measured on texts that were not used to choose the
    heads."""

    kind: ClassVar[str] = "pruning"

    model: str
    how: str
    level: str
    metric: str
    about: str
    units: int  # how many heads (or layers) there are
    texts: tuple[int, int]  # that chose, that did not
    draws: int
    seed: int
    shortlist: int | None
    base: float  # with all heads, on the texts that did not choose
    base_chosen: float
    one_shot: tuple[str, ...]  # the order
    steps: tuple[PruningStep, ...]
    notes: tuple[str, ...] = ()

    def within(self, tolerance: float) -> int:
        """How many can go, greedily, before the loss could be above `tolerance` (end of its interval)."""
        free = 0
        for step in self.steps:
            if step.interval[1] > tolerance:
                break
            free = step.gone
        return free

    def table(self) -> list[dict[str, Any]]:
        """One flat row a step."""
        rows = []
        for step in self.steps:
            row = asdict(step)
            low_high, band = row.pop("interval"), row.pop("random_range")
            row |= {"low": low_high[0], "high": low_high[1], "random_low": band[0], "random_high": band[1]}
            rows.append(row)
        return rows

    def run_title(self) -> str:
        what = "heads" if self.level == "head" else "layers"
        return f"{self.model}: {len(self.steps)} of {self.units} {what} removed by {self.how}"
