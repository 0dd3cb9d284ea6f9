"""Claims about numbers that were drawn: their mean lies beyond a bound, or every one of them does.

claim_mean   the whole Student interval of the mean, over texts, models or draws, is beyond the bound
claim_all    the worst of them is; its "interval" is their range, since a maximum has no such interval
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from heedful.core.arrays import Floats
from heedful.labs.base.registry import LabRun
from heedful.stats.intervals import WHOLE, Interval, mean_of


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


def claim_all(
    run: LabRun,
    sentence: str,
    values: Floats | Sequence[float],
    *,
    above: float = -np.inf,
    below: float = np.inf,
    against: float | int | None = None,
    control: str = "",
) -> None:
    """Every value lies above one bound and below the other. The worst is shown, with the range of all."""
    if above == -np.inf and below == np.inf:
        raise ValueError(f"{sentence!r}: without a bound it cannot fail")
    some = np.asarray(values, dtype=np.float64).ravel()
    room = np.minimum(some - above, below - some)  # to the nearer bound
    run.claim(
        sentence,
        value=float(some[np.argmin(room)]),
        interval=(float(some.min()), float(some.max())),
        holds=bool(room.min() > 0),
        against=against,
        control=control,
    )
