"""Claims about a mean: its Student interval, over texts, models or draws, lies beyond a bound."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from heedful.intervals import WHOLE, Interval, mean_of
from heedful.labs.frame import LabRun
from heedful.types import Floats


def claim_mean(
    run: LabRun,
    sentence: str,
    values: Floats | Sequence[float],
    *,
    above: float = -np.inf,
    below: float = np.inf,
    against: float | int | None = None,
    control: str = "",
    limits: Interval = WHOLE,
) -> None:
    """The whole 95 % interval of the mean, cut to `limits`, lies above one bound and below the other."""
    if above == -np.inf and below == np.inf:
        raise ValueError(f"{sentence!r}: without a bound it cannot fail")
    value, (low, high) = mean_of(values, limits)
    run.claim(
        sentence,
        value=value,
        interval=(low, high),
        holds=above < low and high < below,
        against=against,
        control=control,
    )
