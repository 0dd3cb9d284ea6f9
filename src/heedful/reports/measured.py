"""Measured values with their intervals, as text for a cell of a table."""

from __future__ import annotations

from collections.abc import Callable

from heedful.core.evidence import MeasuredValue
from heedful.core.numbers import percent, short, with_interval


def ranged(figure: MeasuredValue, share: bool = False) -> str:
    """0.2 (0.1 to 0.3); a `share` in percent."""
    return with_interval(figure.value, figure.low, figure.high, shown(share))


def shown(share: bool) -> Callable[[float], str]:
    """How such a number is written: a share in percent with one decimal, others with four digits."""
    return (lambda value: percent(value, 1)) if share else (lambda value: short(value, 4))
