"""How fast accuracy falls as words go and models are trained again: intervals, leakage, plain words.

right: which answers were right, (methods, shares, seeds, test texts), the random control last.

    mean over seeds and texts   se^2 = var(mean by seed) / seeds + var(mean by text) / texts
    its interval                Student's quantile at Satterthwaite's degrees of freedom
    fall                        mean over shares of accuracy(random) - accuracy(method), paired

The sum of both variances counts the noise of a single answer twice: it errs on the side of saying less. A
claim about two methods is made where the interval of their difference leaves out zero, corrected for the
number of pairs (Bonferroni). Methods not told apart from the fastest lead together.

Satterthwaite 1946, "An approximate distribution of estimates of variance components".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from heedful.core.defaults import CONTROL
from heedful.core.errors import HeedfulError
from heedful.core.phrases import listed
from heedful.core.result import NotebookRepr
from heedful.stats.intervals import UNKNOWN, Interval, student_quantile, summed_error, variance

Right = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class SeedMean:
    """A mean over seeds and texts, its standard error and the degrees of freedom of that error."""

    value: float
    error: float
    freedom: float

    def interval(self, comparisons: int = 1) -> Interval:
        """95 %, all of `comparisons` together; (nan, nan) where one seed or text shows no spread."""
        if np.isnan(self.error):
            return UNKNOWN
        reach = student_quantile(self.freedom, comparisons) * self.error
        return self.value - reach, self.value + reach


def mean_of(right: npt.NDArray[Any]) -> SeedMean:
    """right: (seeds, texts)."""
    right = right.astype(np.float64)
    seeds, texts = right.shape
    if min(seeds, texts) < 2:
        return SeedMean(float(right.mean()), float("nan"), float("nan"))
    by_seed, by_text = variance(right.mean(1)) / seeds, variance(right.mean(0)) / texts
    if by_seed + by_text == 0:
        return SeedMean(float(right.mean()), 0.0, float(seeds - 1))
    return SeedMean(float(right.mean()), *summed_error([(by_seed, seeds - 1), (by_text, texts - 1)]))


@dataclass(frozen=True)
class RetrainingCurve:
    """The results of one method: for each removed share, the accuracy after retraining, and the accuracy from
    the removal pattern alone."""

    method: str
    accuracy: tuple[float, ...]
    intervals: tuple[Interval, ...]  # 95 %, each by itself
    pattern: tuple[float, ...] = ()  # accuracy from the places removed alone; () if not asked for
    pattern_intervals: tuple[Interval, ...] = ()  # 95 %, each by itself
    leaks: bool = False
    fall: float = 0.0  # below the control, mean over shares
    fall_interval: Interval = (0.0, 0.0)  # 95 %, all pairs of methods together


@dataclass(frozen=True, eq=False)
class RightAnswers:
    """Which answers were right, method by method, the control last."""

    names: tuple[str, ...]
    shares: tuple[float, ...]
    right: Right  # (methods, shares, seeds, texts)
    told: Right | None  # the same, from the bare pattern
    whole: Right  # (seeds, texts) with nothing removed
    usual: Right  # (texts,) the label most frequent in train


@dataclass(frozen=True)
class Roar(NotebookRepr):
    """The result of retraining. `str()` describes it in words, and claims only what the intervals support."""

    shares: tuple[float, ...]
    curves: tuple[RetrainingCurve, ...]  # by fall, highest first; the control last
    whole: float  # accuracy with nothing removed
    whole_interval: Interval
    chance: float  # accuracy of always saying what is most frequent in train
    imputer: str
    seeds: int
    n: int  # test texts
    lead: tuple[str, ...]  # falls faster than random, and not told apart from the fastest
    behind: tuple[str, ...]  # falls faster than random, but slower than the fastest
    not_faster: tuple[str, ...]  # not told apart from random
    slower: tuple[str, ...]  # falls more slowly than random; of flagged methods, `str()` claims no slowness
    what: str = "text"  # what was classified, and
    part: str = "word"  # what was removed from it
    answers: RightAnswers | None = field(default=None, repr=False, compare=False)

    def __getitem__(self, method: str) -> RetrainingCurve:
        return next(curve for curve in self.curves if curve.method == method)

    def __str__(self) -> str:
        where = (
            f"The classifier was retrained {self.seeds} times and tested on {self.n} {self.what}s "
            f"(imputation of removed {self.part}s: {self.imputer})."
        )
        if np.isnan(self.whole_interval[0]):
            return f"{where} One seed or {self.what} shows no variation, so nothing is claimed."
        flagged = [curve for curve in self.curves if curve.leaks]
        fair = {curve.method for curve in self.curves} - {curve.method for curve in flagged}
        claims = [
            (self.lead, "Removal by {} lowers the accuracy faster than random removal" + _tied(self.lead)),
            (
                _only(self.behind, fair),
                "Removal by {} also lowers it faster, but less than the fastest method",
            ),
            (_only(self.not_faster, fair), "Removal by {} does not differ significantly from random removal"),
            (_only(self.slower, fair), "Removal by {} lowers it more slowly than random removal"),
        ]
        lines = [words.format(listed(names)) for names, words in claims if names]
        lines += [self._flag(curve) for curve in flagged]
        if not self.whole_interval[0] > self.chance:
            lines.append("With nothing removed, the model is not above chance, so nothing can be concluded")
        return f"{where} {'. '.join(lines)}."

    def _flag(self, curve: RetrainingCurve) -> str:
        text = f"{max(curve.pattern):.2f} (chance {self.chance:.2f})"
        if curve.method == CONTROL:
            why = "length of the text" if self.what == "text" else "pattern of random removal"
            return f"The {why} alone predicts the label with accuracy {text}"
        return (
            f"{curve.method} is flagged: the positions it removes predict the label by themselves with "
            f"accuracy {text}, so a small fall shows nothing"
        )


def _only(names: Sequence[str], those: set[str]) -> tuple[str, ...]:
    return tuple(name for name in names if name in those)


def _tied(names: Sequence[str]) -> str:
    return "; these methods do not differ significantly" if len(names) > 1 else ""


def leaking(told: Right, usual: Right) -> Right:
    """(methods,) the pattern tells more than chance, and more than that of random scores, at some share."""
    methods, shares = told.shape[:2]
    right = np.zeros(methods, dtype=bool)
    for m in range(methods):
        for k in range(shares):
            above = [told[m, k].astype(float) - usual]
            if m < methods - 1:  # the control is held to chance alone
                above.append(told[m, k].astype(float) - told[-1, k])
            right[m] |= all(mean_of(gap).interval(methods * shares)[0] > 0 for gap in above)
    return right


def conclude(a: RightAnswers, imputer: str) -> Roar:
    """Curves, and which differences are beyond chance."""
    overall = a.right.mean(1)  # (methods, seeds, texts)
    last = len(a.names) - 1
    pairs = last * (last + 1) // 2
    leaks = np.zeros(last + 1, dtype=bool) if a.told is None else leaking(a.told, a.usual)
    curves = [
        _curve(a, m, bool(leaks[m]), mean_of(overall[last] - overall[m]), pairs) for m in range(last + 1)
    ]
    order = sorted(range(last), key=lambda m: -curves[m].fall)
    faster = [m for m in order if curves[m].fall_interval[0] > 0]
    lead = [m for m in faster if not mean_of(overall[m] - overall[faster[0]]).interval(pairs)[0] > 0]
    slower = [m for m in order if curves[m].fall_interval[1] < 0]
    base, (seeds, texts) = mean_of(a.whole), a.whole.shape

    def names(group: list[int]) -> tuple[str, ...]:
        return tuple(a.names[m] for m in group)

    return Roar(
        shares=a.shares,
        curves=tuple(curves[m] for m in (*order, last)),
        whole=base.value,
        whole_interval=base.interval(),
        chance=float(a.usual.mean()),
        imputer=imputer,
        seeds=seeds,
        n=texts,
        lead=names(lead),
        behind=names([m for m in faster if m not in lead]),
        not_faster=names([m for m in order if m not in faster and m not in slower]),
        slower=names(slower),
        answers=a,
    )


def gap_between(first: Roar, second: Roar, method: str, share: float) -> SeedMean:
    """Accuracy of `first` minus that of `second` after removal by one method: two imputers that were tried on
    the same texts with the same seeds, so that right answers are paired."""
    found = []
    for each in (first, second):
        if each.answers is None:
            raise HeedfulError("this result does not know which answers were right", fix="Run `roar` again")
        at = each.answers.names.index(method), each.answers.shares.index(share)
        found.append(each.answers.right[at].astype(np.float64))
    return mean_of(found[0] - found[1])


def _curve(a: RightAnswers, m: int, leaks: bool, fall: SeedMean, pairs: int) -> RetrainingCurve:
    means = [mean_of(at) for at in a.right[m]]
    result = [] if a.told is None else [mean_of(at) for at in a.told[m]]
    return RetrainingCurve(
        method=a.names[m],
        accuracy=tuple(mean.value for mean in means),
        intervals=tuple(mean.interval() for mean in means),
        pattern=tuple(mean.value for mean in result),
        pattern_intervals=tuple(mean.interval() for mean in result),
        leaks=leaks,
        fall=fall.value,
        fall_interval=fall.interval(pairs),
    )
