"""What labs on remove-and-retrain show: accuracy as more is removed, the table of falls, claims about a fall.

The fall is the accuracy after random removal minus the accuracy after removal by the scores, mean over the
shares (heedful.retraining.roar_stats).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from heedful.core.charts import Curve, Curves
from heedful.labs.base.registry import LabRun
from heedful.retraining.roar_stats import RetrainingCurve, Roar
from heedful.stats.intervals import Interval, share_of_count


def share_span(share: float, interval: Interval, n: int) -> Interval:
    """The interval over seeds and texts, within 0 and 1, and never narrower than that of n texts, each right
    or wrong, which is not of width zero when all are right."""
    low, high = share_of_count(round(share * n), n)[1]
    return max(0.0, min(low, interval[0])), min(1.0, max(high, interval[1]))


def accuracy_at(found: Roar, curve: RetrainingCurve, share: float) -> tuple[float, Interval]:
    """The accuracy after this share is removed, and its interval."""
    at = found.shares.index(share)
    return curve.accuracy[at], share_span(curve.accuracy[at], curve.intervals[at], found.n)


def pattern_at(found: Roar, curve: RetrainingCurve, share: float) -> tuple[float, Interval]:
    """The accuracy from the places that were removed alone, and its interval."""
    at = found.shares.index(share)
    return curve.pattern[at], share_span(curve.pattern[at], curve.pattern_intervals[at], found.n)


def claim_fall(run: LabRun, sentence: str, curve: RetrainingCurve, sign: int = 1) -> None:
    """The accuracy falls faster (sign 1) or more slowly (-1) than with random removal."""
    low, high = curve.fall_interval
    run.claim(
        f"{sentence} (value: difference of the accuracies).",
        value=curve.fall,
        interval=curve.fall_interval,
        holds=low > 0 if sign > 0 else high < 0,
        against=0.0,
        control="difference for random removal",
    )


def claim_share(
    run: LabRun,
    sentence: str,
    measured: tuple[float, Interval],
    *,
    above: float = -np.inf,
    below: float = np.inf,
    against: float,
    control: str,
) -> None:
    """The whole interval of an accuracy lies beyond the bound."""
    value, span = measured
    holds = above < span[0] and span[1] < below
    run.claim(sentence, value=value, interval=span, holds=holds, against=against, control=control)


def show_retraining(run: LabRun, name: str, found: Roar, share: float, title: str = "") -> None:
    """One line per method, and the table; `share` is where the places alone are judged, if they are."""
    lines, title = [], title or name
    for curve in found.curves:
        points = [(0.0, found.whole), *zip(found.shares, curve.accuracy, strict=True)]
        ends = zip((found.whole, *curve.accuracy), (found.whole_interval, *curve.intervals), strict=True)
        spans = [share_span(value, span, found.n) for value, span in ends]
        lines.append(Curve(curve.method, points, [s[0] for s in spans], [s[1] for s in spans]))
    run.figure(
        name,
        Curves(
            lines,
            f"share of {found.part}s removed",
            "accuracy after retraining",
            f"Remove and retrain: {title}",
            better="low",
        ),
        f"Accuracy after retraining, on {found.n} test {found.what}s ({title}). Each point is the mean of "
        f"{found.seeds} trainings, with 95 % intervals.",
    )
    columns, cells = ["scores", "fall of accuracy", "low", "high"], [_fall_cells(c) for c in found.curves]
    if found.curves[0].pattern:
        amount = "half removed" if share == 0.5 else f"{100 * share:.0f} % removed"
        columns += [f"accuracy from positions alone ({amount})", "flagged"]
        cells = [[*row, *_pattern_cells(found, c, share)] for row, c in zip(cells, found.curves, strict=True)]
    run.table(f"Remove and retrain: {title}", columns, cells)


def _fall_cells(curve: RetrainingCurve) -> list[Any]:
    return [curve.method, curve.fall, *curve.fall_interval]


def _pattern_cells(found: Roar, curve: RetrainingCurve, share: float) -> list[Any]:
    return [pattern_at(found, curve, share)[0], "yes" if curve.leaks else "no"]
