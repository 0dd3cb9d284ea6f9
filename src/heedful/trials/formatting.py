"""Findings as words: a number with its interval, a place, the smallest and the largest."""

from __future__ import annotations

import math
from collections.abc import Sequence

from heedful.core.numbers import fixed, fixed_signed
from heedful.trials.rows import TrialRow

APART = "attention of two seeds apart"
KEPT = 0.05  # mean TVD up to which a trained adversary kept the answers
SEEN = 0.005  # smallest difference that two decimals show: below it, none is spoken of


def ends(findings: Sequence[TrialRow]) -> tuple[TrialRow, TrialRow]:
    """The smallest and the largest value; the same finding if there is one."""
    ordered = sorted(findings, key=lambda f: f.value if math.isfinite(f.value) else 0.0)
    return ordered[0], ordered[-1]


def above(low: float, high: float) -> bool:
    """The lower end of one number is above the upper end of another, by a difference that can be seen."""
    return low > high and low - high >= SEEN


def unmoved(found: TrialRow) -> bool:
    """Neither what was done nor its control changes the answer: two zeros, which compare nothing."""
    return abs(found.value) < SEEN and abs(found.control) < SEEN


def place(found: TrialRow) -> str:
    return found.what.split(", ")[-1]


def with_interval(found: TrialRow) -> str:
    low, high = found.interval
    if math.isfinite(low) and math.isfinite(high):
        return f"{short(found.value)} [{short(low)}, {short(high)}]"
    return short(found.value)


def mean_control(findings: Sequence[TrialRow]) -> float:
    known = [f.control for f in findings if math.isfinite(f.control)]
    return sum(known) / len(known) if known else math.nan


def short(value: float) -> str:
    return fixed(value) if math.isfinite(value) else "unknown"


def signed(value: float) -> str:
    return fixed_signed(value) if math.isfinite(value) else "unknown"


def farthest(findings: Sequence[TrialRow]) -> TrialRow | None:
    """The trained adversary that moved attention most and kept the answers."""
    moved = (f for f in findings if f.what.startswith("attention moved") and f.extra["lambda"])
    kept = [f for f in moved if f.extra["TVD"] <= KEPT]
    return max(kept, key=lambda f: f.value) if kept else None
