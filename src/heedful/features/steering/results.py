"""What steering wrote, as data: two sides, or a sweep over strength. No torch, no model."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar

import numpy as np

from heedful.core.evidence import MeasuredValue
from heedful.core.result import StoredResult
from heedful.core.result_kinds import result_kind
from heedful.io.json_codec import to_jsonable

BROKEN = 2.0  # times the perplexity of unsteered texts
MAX_REPETITION = 0.5  # of all runs of three tokens: a text that repeats itself
MORE_REPETITION = 0.1  # beyond that of the unsteered text: from here on it is said


class TextChange(Enum):
    """What a steer did to a text. The slider of the live page stops before REPEATS and BROKEN."""

    NONE = "no token changed"
    CHANGED = "the text changed"
    REPEATS_MORE = "the text changed and repeats itself more than before"
    REPEATS = "the text repeats itself, and did not before"
    BROKEN = "the text is unlikely"


def change_of(ratio: float, before: float, after: float) -> TextChange:
    """`ratio` of perplexities, steered to unsteered; `before` and `after`: shares of repeated trigrams."""
    if ratio > BROKEN:
        return TextChange.BROKEN
    if after > MAX_REPETITION >= before:
        return TextChange.REPEATS
    return TextChange.REPEATS_MORE if after - before >= MORE_REPETITION else TextChange.CHANGED


@dataclass(frozen=True)
class SteeredText:
    """One text."""

    prompt: int  # which
    seed: int
    text: str
    perplexity: float
    presence: float
    repetition: float


@dataclass(frozen=True)
class SweepPoint:
    """All texts of one method at one strength."""

    method: str
    strength: str
    size: float  # mean length of what was added to a position
    texts: tuple[SteeredText, ...]
    # of perplexity to that of the unsteered texts, geometric mean over prompts
    ratio: MeasuredValue = field(default_factory=lambda: MeasuredValue(1.0))

    @property
    def perplexity(self) -> MeasuredValue:
        return _exp(mean_of(_by_prompt(self, lambda w: math.log(w.perplexity))))

    @property
    def presence(self) -> MeasuredValue:
        return mean_of(_by_prompt(self, lambda w: w.presence))

    @property
    def repetition(self) -> MeasuredValue:
        return mean_of(_by_prompt(self, lambda w: w.repetition))

    @property
    def broken(self) -> bool:
        return self.ratio.value > BROKEN

    @property
    def looping(self) -> bool:
        return self.repetition.value > MAX_REPETITION

    def to_dict(self) -> dict[str, Any]:
        numbers = ("perplexity", "presence", "repetition", "ratio")
        return {
            "method": self.method,
            "strength": self.strength,
            "size": self.size,
            **{name: to_jsonable(getattr(self, name)) for name in numbers},
            "broken": self.broken,
            "looping": self.looping,
            "texts": to_jsonable(self.texts),
        }


@result_kind("sweep", version=1)
@dataclass(frozen=True)
class Sweep(StoredResult):
    """Points in the order of strength, the unsteered one first."""

    kind: ClassVar[str] = "steer"

    points: tuple[SweepPoint, ...]
    prompts: tuple[str, ...]
    model: Mapping[str, Any]
    settings: Mapping[str, Any]
    notes: tuple[str, ...] = ()

    @property
    def base(self) -> SweepPoint:
        return self.points[0]

    @property
    def methods(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(point.method for point in self.points[1:]))

    def of(self, method: str) -> tuple[SweepPoint, ...]:
        return tuple(point for point in self.points if point.method == method)

    def breaks(self, method: str | None = None) -> str | None:
        """The first strength at which perplexity exceeds twice the unsteered; None: it never did."""
        return self._first(method, lambda point: point.broken)

    def loops(self, method: str | None = None) -> str | None:
        """The first strength at which more than half of all runs of three tokens are repeats."""
        return self._first(method, lambda point: point.looping)

    def repeats_more(self, method: str | None = None) -> str | None:
        """The first strength at which the texts clearly repeat themselves more than the unsteered ones."""
        before = self.base.repetition.value
        return self._first(method, lambda point: point.repetition.value - before >= MORE_REPETITION)

    def _first(self, method: str | None, test: Callable[[SweepPoint], bool]) -> str | None:
        result = self.of(method or self.methods[0]) if self.methods else ()
        return next((point.strength for point in result if test(point)), None)

    def sentences(self) -> list[str]:
        """What is to be said, method by method."""
        lines = []
        for method in self.methods:
            at, circles = self.breaks(method), self.loops(method)
            text = f"breaks at {at}" if at else "does not break within this range"
            more = self.repeats_more(method)
            also = f", repeats itself from {circles} on" if circles else ""
            if more and more != circles:
                also = f", repeats itself more than unsteered from {more} on{also}"
            lines.append(f"{method} {text} (perplexity over {BROKEN:g} × unsteered){also}.")
        if self.base.looping:
            lines.append("The unsteered texts repeat themselves, too.")
        return [*lines, *self.notes]

    def to_dict(self) -> dict[str, Any]:
        return {
            "model": dict(self.model),
            "settings": dict(self.settings),
            "prompts": list(self.prompts),
            "points": [point.to_dict() for point in self.points],
            "breaks": {method: self.breaks(method) for method in self.methods},
            "loops": {method: self.loops(method) for method in self.methods},
            "notes": list(self.notes),
        }

    def run_title(self) -> str:
        return f"{self.model.get('name')}: {' '.join(self.sentences())}"

    def __repr__(self) -> str:
        return f"<heedful.Sweep of {self.model.get('name')}: {' '.join(self.sentences())}>"


@dataclass(frozen=True)
class Continuation:
    """One continuation; perplexity is the unsteered model's."""

    text: str
    perplexity: float
    repetition: float


@result_kind("steer", version=1)
@dataclass(frozen=True)
class Sides(StoredResult):
    """Continuations of one prompt, drawn with the same seed."""

    kind: ClassVar[str] = "sides"

    prompt: str
    before: Continuation
    after: Continuation
    size: float  # mean length of what was added to a position
    same: bool  # token by token
    model: Mapping[str, Any]
    settings: Mapping[str, Any]
    notes: tuple[str, ...] = ()
    beside: Mapping[str, Continuation] = field(
        default_factory=dict
    )  # what another push of the same size writes

    @property
    def ratio(self) -> float:
        """Of perplexities, after to before; nan where they cannot be compared."""
        before, after = self.before.perplexity, self.after.perplexity
        return after / before if before > 0 and math.isfinite(after) else math.nan

    @property
    def change(self) -> TextChange:
        if self.same:
            return TextChange.NONE
        return change_of(self.ratio, self.before.repetition, self.after.repetition)

    @property
    def columns(self) -> dict[str, Continuation]:
        return {"before": self.before, "after": self.after, **self.beside}

    def run_title(self) -> str:
        how = self.settings.get("how")
        if isinstance(how, Mapping):
            how = ", ".join(f"feature {feature} = {value}" for feature, value in how.items())
        return f"{how}: {self.prompt}"


def paired(base: SweepPoint, point: SweepPoint) -> MeasuredValue:
    """Ratio of perplexities, prompt by prompt."""
    before, after = (_by_prompt(p, lambda w: math.log(w.perplexity)) for p in (base, point))
    return _exp(mean_of([b - a for a, b in zip(before, after, strict=True)]))


def _by_prompt(point: SweepPoint, number: Callable[[SteeredText], float]) -> list[float]:
    """One number a prompt: the mean over its draws."""
    results: dict[int, list[float]] = {}
    for written in point.texts:
        results.setdefault(written.prompt, []).append(number(written))
    return [float(np.mean(values)) for values in results.values()]


def mean_of(values: list[float]) -> MeasuredValue:
    from heedful.stats.intervals import nanmean_of

    value, (low, high) = nanmean_of(values)
    return MeasuredValue(value, low, high) if math.isfinite(low) else MeasuredValue(value)


def _exp(mean: MeasuredValue) -> MeasuredValue:
    return MeasuredValue(*(math.exp(min(value, 700.0)) for value in (mean.value, mean.low, mean.high)))
