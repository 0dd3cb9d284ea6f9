"""Rows as words: a number with its interval, the smallest and the largest."""

from __future__ import annotations

import math
from collections.abc import Sequence

from heedful.core.numbers import fixed, fixed_signed, with_interval
from heedful.trials.rows import TrialRow

NOTHING = "Neither changes the answer, so this test shows nothing here."
VISIBLE = 0.005  # smallest difference that two decimals show: below it, none is spoken of


def ends(rows: Sequence[TrialRow]) -> tuple[TrialRow, TrialRow]:
    """The smallest and the largest value; the same row if there is one."""
    ordered = sorted(rows, key=lambda row: row.value if math.isfinite(row.value) else 0.0)
    return ordered[0], ordered[-1]


def above(low: float, high: float) -> bool:
    """The lower end of one number is above the upper end of another, by a difference that can be seen."""
    return low > high and low - high >= VISIBLE


def unmoved(row: TrialRow) -> bool:
    """Neither what was done nor its control changes the answer: two zeros, which compare nothing."""
    return abs(row.value) < VISIBLE and abs(row.control) < VISIBLE


def row_interval(row: TrialRow) -> str:
    """0.62 (0.57 to 0.67)"""
    return with_interval(row.value, *row.interval, decimals)


def row_range(low: TrialRow, high: TrialRow) -> str:
    """From the layer with the smallest value to the one with the largest; one number where they are the
    same."""
    if low is high:
        return row_interval(low)
    return f"{decimals(low.value)} ({low.variant}) to {decimals(high.value)} ({high.variant})"


def decimals(value: float) -> str:
    return fixed(value) if math.isfinite(value) else "unknown"


def signed_decimals(value: float) -> str:
    return fixed_signed(value) if math.isfinite(value) else "unknown"
