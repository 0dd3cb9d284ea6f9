"""What was found of heads: how far metrics fall without them, with intervals. Frozen data, no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from heedful.core.exports import frame_of
from heedful.core.result import StoredResult
from heedful.core.result_kinds import result_kind
from heedful.io.json_codec import to_jsonable
from heedful.stats.intervals import Interval

if TYPE_CHECKING:
    from pandas import DataFrame

ALPHA = 0.05


@dataclass(frozen=True)
class Drop:
    """How far a metric falls; below 0 it rises."""

    value: float
    interval: Interval  # 95 %, for all heads together
    alone: Interval  # 95 %, for this head alone
    p: float  # of no effect, for all heads together


@dataclass(frozen=True)
class Unit:
    """A head, or a layer."""

    name: str
    stack: str
    layer: int
    head: int | None  # None: the whole layer
    drops: Mapping[str, Drop]  # metric -> its drop
    estimate: float | None = None  # signed first-order estimate of the first metric's drop
    sensitivity: float | None = None  # Michel et al.: mean of its absolute value

    def effect(self, metric: str) -> int:
        """1: it helps; -1: the model does better without it; 0: not to be told from nothing."""
        drop = self.drops[metric]
        low, high = drop.interval
        return 0 if drop.p > ALPHA or low <= 0 <= high else 1 if low > 0 else -1


@dataclass(frozen=True)
class Reference:
    """A change that is no single head's, for scale; mean over `draws` sets."""

    name: str
    heads: int
    drops: Mapping[str, float]
    intervals: Mapping[str, Interval]


@result_kind("head-importance", version=1)
@dataclass(frozen=True)
class Importance(StoredResult):
    """Every head's (or layer's) worth on these texts."""

    kind: ClassVar[str] = "importance"

    model: str
    model_kind: str
    how: str
    level: str
    metric: str
    metrics: tuple[str, ...]
    about: str  # what the metrics are of
    texts: int
    rows: int  # model inputs
    seed: int
    base: Mapping[str, float]  # metric -> its mean with all heads
    chance: Mapping[str, float]  # metric -> largest |drop| that random signs would show, 95 %
    units: tuple[Unit, ...]
    references: tuple[Reference, ...]
    agreement: float | None = None  # Spearman: sensitivity and |drop| of the first metric
    notes: tuple[str, ...] = ()

    def ranked(self) -> list[Unit]:
        """Most valuable first."""
        return sorted(self.units, key=lambda unit: -unit.drops[self.metric].value)

    @property
    def helps(self) -> list[Unit]:
        return [unit for unit in self.ranked() if unit.effect(self.metric) > 0]

    @property
    def improves(self) -> list[Unit]:
        """Without which the model does better, the worst first."""
        return [unit for unit in self.ranked()[::-1] if unit.effect(self.metric) < 0]

    @property
    def unclear(self) -> list[Unit]:
        """Not to be told from a head that does nothing."""
        return [unit for unit in self.units if not unit.effect(self.metric)]

    def table(self) -> list[dict[str, Any]]:
        """One flat row a unit, in the model's order."""
        words = {1: "helps", -1: "better without", 0: ""}
        rows = []
        for unit in self.units:
            row: dict[str, Any] = {"name": unit.name, "stack": unit.stack, "layer": unit.layer}
            row |= {"head": unit.head, "effect": words[unit.effect(self.metric)]}
            for metric, drop in unit.drops.items():
                row |= {f"{metric} drop": drop.value, f"{metric} p": drop.p}
                row |= {f"{metric} low": drop.interval[0], f"{metric} high": drop.interval[1]}
                row |= {f"{metric} low alone": drop.alone[0], f"{metric} high alone": drop.alone[1]}
            rows.append(row | {"estimate": unit.estimate, "sensitivity": unit.sensitivity})
        return rows

    def to_frame(self) -> DataFrame:
        """The same as a pandas table."""
        return frame_of(self)

    def to_dict(self) -> dict[str, Any]:
        lists = {name: [unit.name for unit in getattr(self, name)] for name in ("helps", "improves")}
        return {**to_jsonable(self), **lists, "unclear": len(self.unclear)}

    def run_title(self) -> str:
        what = "heads" if self.level == "head" else "layers"
        return f"{self.model}: {len(self.units)} {what} removed by {self.how}, {self.texts} texts"
