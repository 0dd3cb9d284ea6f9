"""Intervals of the trial: 95 %, over texts.

mean    Student's t, the layers of a table together (Bonferroni), cut to the range the number can have
share   Clopper-Pearson: exact, and not of width zero when all texts agree
"""

from __future__ import annotations

import math

import numpy as np

from heedful.core.arrays import Floats
from heedful.stats.intervals import WHOLE, Interval, share_of, student

__all__ = ["limit", "mean_of", "share_of"]


def mean_of(values: Floats, claims: int = 1, limits: Interval = WHOLE) -> tuple[float, Interval]:
    """(mean, interval) of what is a number; one text has no interval."""
    real = values[np.isfinite(values)]
    if not len(real):
        return math.nan, (math.nan, math.nan)
    band = student(real[:, None], claims)
    low, high = float(band.low[0]), float(band.high[0])
    return float(real.mean()), (max(low, limits[0]), min(high, limits[1]))


def limit(changes: Floats) -> float:
    """The most a change of the answer can be: 1 for probabilities; a regression's has no limit."""
    return 1.0 if np.nanmax(changes, initial=0.0) <= 1 else math.inf
