"""Which explanation to heed, from one number a text and method: a paired bootstrap over texts.

    D_ij = mean over texts of v_ti - v_tj          every pair of methods, the random control among them
    t_ij = D_ij / s_ij                             s: standard error over texts
    c    = 95 % quantile of max_ij |D*_ij - D_ij| / max(s*_ij, s_ij / 2) over texts drawn with repetition

Two methods are told apart when |t_ij| > c. One c for all pairs, so the chance of even one false claim among
them is about 5 %. With few texts a bootstrap is too bold, so c is never below Bonferroni's of Student's t.
Values that are strongly skewed break the promise: up to 17 % of verdicts were false with 10 log-normal ones.
Methods that are not told apart from the one with the highest mean lead together; that is a tie, not an order.
A method that is not told apart from random orders, or is below them, is named as such: with few texts that
says little about the method, because c is large (5.3 for 14 methods on 10 texts, 3.7 on 50).

Romano & Wolf 2005 (stepdown bootstrap); Demsar 2006 (many methods on many sets).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy import special

from heedful.errors import HeedfulError
from heedful.notebook import Shown
from heedful.types import CONTROL, Floats
from heedful.wording import listed

LEVEL = 0.95
DRAWS = 2000
CHUNK = 200  # draws at a time
# Of the standard error, the least that a draw's own may be. Two methods that differ on few texts are drawn
# now and then without most of these; the tiny spread left would set the bar for all other pairs.
LEAST = 0.5
FEW = 10  # texts below which nothing is claimed
LITTLE, ENOUGH = 30, 50  # texts below which little is, and so many as are better
PROMISE = f"About {100 * LEVEL:.0f} % of such verdicts make no false claim."
PRESENT = (
    0.8  # of the texts: a method that ran on fewer takes no part, or it would cost the others their texts
)


@dataclass(frozen=True)
class Verdict(Shown):
    """What can be said, and no more. `str()` is the verdict in plain words."""

    methods: tuple[str, ...]  # by mean, highest first, without the control
    means: tuple[float, ...]
    lead: tuple[str, ...]  # not told apart from the best, and above chance
    behind: tuple[str, ...]  # told apart from the best, and above chance
    no_better_than_random: tuple[str, ...]
    control: float
    metric: str
    operator: str
    n: int
    left_out: int = 0  # texts on which a method or the metric gave no number
    missing: tuple[str, ...] = ()  # methods that ran on too few of the texts to take part
    faithful: bool = True  # the metric asks whether the model does what the method says

    def __str__(self) -> str:
        return self.words if self.n < FEW else f"{self.words} {PROMISE}"

    @property
    def words(self) -> str:
        """The verdict without what holds of every verdict."""
        where = f"On {self.n} texts, by {self.metric}" + (f" under {self.operator}" if self.operator else "")
        if self.n < FEW:
            return f"{where}: too few texts to tell methods apart; at least {FEW} are needed."
        parts = [f"{where}: {self._leaders()}"]
        if self.behind:
            parts.append(f"{listed(self.behind)} {_are(self.behind)} behind, but better than chance")
        if self.no_better_than_random:
            names = self.no_better_than_random
            parts.append(f"{listed(names)} {_are(names)} not shown to be better than a random order")
        if self.missing:
            parts.append(f"{listed(self.missing)} ran on too few of the texts to be compared")
        if self.left_out:
            parts.append(f"texts left out because a method gave no number there: {self.left_out}")
        return "; ".join(parts) + "."

    def _leaders(self) -> str:
        if not self.lead:
            return "no method leads"
        if len(self.lead) == 1:
            return f"heed {self.lead[0]}" if self.faithful else f"{self.lead[0]} leads"
        return f"{listed(self.lead)} lead and cannot be told apart"


def _are(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"


@dataclass(frozen=True)
class Pairs:
    """All pairs i < j of methods: mean difference, standard error, and the critical value they share."""

    difference: Floats  # (M, M) row less column
    error: Floats  # (M, M)
    critical: float

    def apart(self) -> npt.NDArray[np.bool_]:
        """(M, M) row is above column, beyond chance."""
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = self.difference / self.error
        # no spread at all: a difference that is the same on every text is not chance
        ratio = np.where(self.error > 0, ratio, np.where(self.difference > 0, np.inf, 0.0))
        return ratio > self.critical


def compare(values: Floats, seed: int, draws: int = DRAWS, level: float = LEVEL) -> Pairs:
    """values (n, M): higher is better, one row a text."""
    n, m = values.shape
    left, right = np.triu_indices(m, 1)
    gaps = values[:, left] - values[:, right]  # (n, P)
    mean, error = gaps.mean(0), gaps.std(0, ddof=1) / np.sqrt(n)
    real = error > 1e-12 * (np.abs(mean) + np.abs(values).max(initial=0.0))
    least = np.where(real, LEAST * error, np.inf)  # a difference that is the same everywhere has no reach
    rng, reach = np.random.default_rng(seed), list[Floats]()
    for first in range(0, draws, CHUNK):  # in chunks, or many texts would need a lot of memory
        times = rng.multinomial(n, np.full(n, 1 / n), min(CHUNK, draws - first))  # (B, n)
        again = times @ gaps / n  # (B, P)
        spread = np.sqrt(np.maximum(times @ np.square(gaps) / n - np.square(again), 0) / (n - 1))
        reach.append((np.abs(again - mean) / np.maximum(spread, least)).max(1, initial=0.0))
    student = float(special.stdtrit(n - 1, 1 - (1 - level) / max(len(left), 1) / 2))
    critical = max(float(np.quantile(np.concatenate(reach), level)), student)
    difference, errors = np.zeros((m, m)), np.zeros((m, m))
    difference[left, right], difference[right, left] = mean, -mean
    errors[left, right] = errors[right, left] = np.where(real, error, 0.0)
    return Pairs(difference, errors, critical)


def judge(
    values: Floats, methods: Sequence[str], *, metric: str, operator: str = "", seed: int = 0
) -> Verdict:
    """The verdict on `values` (n, M), one row a text, one column a method, higher is better.

    The control is the column named "random"; without it nothing can be said about chance.
    """
    if values.shape[1:] != (len(methods),) or CONTROL not in methods:
        raise HeedfulError(
            f"{values.shape} values do not fit the methods {', '.join(methods)}",
            f"there must be one column a method, {CONTROL} among them",
        )
    present = np.isfinite(values).mean(0) >= PRESENT if len(values) else np.ones(len(methods), dtype=bool)
    missing = tuple(name for name, here in zip(methods, present, strict=True) if not here)
    if missing and CONTROL not in missing:
        kept = [name for name in methods if name not in missing]
        found = judge(values[:, present], kept, metric=metric, operator=operator, seed=seed)
        return replace(found, missing=missing)
    told = values[np.isfinite(values).all(1)]  # pairs need every method on the text
    mean = told.mean(0) if len(told) else np.full(len(methods), np.nan)
    chance = methods.index(CONTROL)
    order = [int(i) for i in np.argsort(-mean, kind="stable") if i != chance]
    lead: list[int] = []
    behind: list[int] = []
    dull: list[int] = []
    if len(told) >= FEW:
        above = compare(told, seed).apart()
        dull = [i for i in order if not above[i, chance]]
        lead = [i for i in order if i not in dull and not above[order[0], i]]
        behind = [i for i in order if i not in dull and i not in lead]
    return Verdict(
        methods=tuple(methods[i] for i in order),
        means=tuple(float(mean[i]) for i in order),
        lead=tuple(methods[i] for i in lead),
        behind=tuple(methods[i] for i in behind),
        no_better_than_random=tuple(methods[i] for i in dull),
        control=float(mean[chance]),
        metric=metric,
        operator=operator,
        n=len(told),
        left_out=len(values) - len(told),
    )
