"""When a sampled interval is not to be believed: what the left-out residuals of its fit look like.

    r_g = (I - H_gg)^-1 W_g^1/2 e_g    residuals (2,) of pair g by a fit that never saw it; only of strata
                                       of which something is left to draw

    tails   mean r^4 / (mean r^2)^2: 3 of a bell shape, and as many as there are rows if one row has it all. A
            fit whose error is made of a few rows knows nothing of the larger values it has not met. Products
            of words with log-normal factors at d = 40: 20 to 400, where 95 % intervals cover 25 to 80 %
    odd     mean (r_1 - r_2)^2 / mean 2 (r_1^2 + r_2^2) of a set and its complement: 1 where all that is left
            are interactions of odd order, 1/2 where odd and even share it. An odd interaction repeats itself
            in the complement, and looks like a slope from any few rows: the surrogates of
            heedful.stats.control_variates, which take words with a slope for words that interact, then learn
            from the very error they should show
    beyond_line
            share of the variance of f that a line in the words leaves. `odd` alone is no reason: an S-shaped
            function of a sum (a balanced logistic model) has odd residuals, too, but its slopes are those of
            the sum, not of the error. Slopes are made of odd interactions only where a line explains little:
            three-way interactions leave 0.55 to 0.95, S-shapes at most 0.35, a hard step included

Neither is looked at where the relative standard error is below MIN_RELATIVE_ERROR: several times nothing is
little. All are pure numbers: they do not depend on the unit of f. How often they speak is measured by
tests/statistics/doubtful_intervals.py (docs/statistics.md).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from heedful.stats.lime_limit import Floats

# chosen on other games than those that measure them
MAX_TAILS, MAX_ODD, MAX_BEYOND_LINE, MIN_RELATIVE_ERROR = 20.0, 0.65, 0.5, 0.02
MIN_PAIRS = 16  # pairs that say nothing about a shape


@dataclass(frozen=True)
class Residuals:
    """What a fit leaves of f."""

    left_out: Floats  # (G, 2): of each pair, by a fit without it
    complements: bool  # a pair is a set and its complement
    beyond_line: float


def tails(left_out: Floats) -> float:
    """Of residuals, any shape: 3 for a bell shape."""
    square = np.square(left_out)
    return float(np.square(square).mean() / square.mean() ** 2)


def odd(left_out: Floats) -> float:
    """Of residuals (G, 2) of sets and their complements: share that changes its sign."""
    first, second = left_out.T
    return float(np.square(first - second).mean() / (4 * np.square(left_out).mean()))


def reason(residuals: Residuals, precision: float) -> str:
    """Why the interval is not reliable, or ""; precision is the relative standard error."""
    left_out = residuals.left_out
    if precision <= MIN_RELATIVE_ERROR or len(left_out) < MIN_PAIRS or not left_out.any():
        return ""
    if tails(left_out) > MAX_TAILS:
        return (
            "interval not reliable: a few inputs have most of the error, so values that were not met may be "
            "larger still; more samples help little, another target (the logarithm of this one) may"
        )
    if residuals.complements and residuals.beyond_line > MAX_BEYOND_LINE and odd(left_out) > MAX_ODD:
        return (
            "interval not reliable: words interact mostly by threes or other odd numbers, which a set of "
            "words and its complement show alike; raise samples, and compare seeds"
        )
    return ""
