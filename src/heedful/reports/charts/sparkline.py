"""A curve in a line of the terminal: ▁▂▃▄▅▆▇█, one character per point, all curves of a table on one
scale."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

STEPS = "▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float], low: float, high: float) -> str:
    """What is not a number is a gap; a flat scale is drawn low."""
    room = high - low
    shares = [(v - low) / room if room > 0 else 0.0 for v in values]
    return "".join(STEPS[min(7, max(0, int(share * 8)))] if math.isfinite(share) else " " for share in shares)


def reach(curves: Iterable[Sequence[float]]) -> tuple[float, float]:
    """The least and the most of all."""
    known = [v for curve in curves for v in curve if math.isfinite(v)]
    return min(known, default=0.0), max(known, default=1.0)
