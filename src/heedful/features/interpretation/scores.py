"""Agreement of predicted and true activations, with 95 % intervals over contexts drawn again.

Sums over a context are its sufficient statistics, so a thousand draws are one product of matrices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import hypergeom, rankdata

from heedful.stats.intervals import WHOLE, bootstrap, mean_of, percentile_interval, resampled_means

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class AgreementScore:
    """A number and its 95 % interval."""

    value: float
    low: float
    high: float
    p: float = float("nan")  # of so much or more where there is nothing to find; nan: not tested

    @classmethod
    def mean(cls, values: Sequence[float], least: float = -1.0) -> AgreementScore:
        """Over features; Student's interval, as far as the score can reach: from `least` to 1."""
        value, interval = mean_of(values, (least, 1.0) if len(values) > 1 else WHOLE)
        return cls(value, *interval)

    def to_dict(self) -> dict[str, Any]:
        sure = np.isfinite([self.low, self.high]).all()
        results = {"value": self.value, "interval": [self.low, self.high] if sure else None}
        return results | ({"p": self.p} if np.isfinite(self.p) else {})


def detection(predicted: Bools, fired: Bools, seed: int) -> AgreementScore:
    """Balanced accuracy; firings and silent places are drawn again separately. p is Fisher's exact one: the
    marks stay, and which of them fire is drawn at random."""
    right = [(predicted[fired] > 0).astype(float), (~predicted[~fired]).astype(float)]
    value = float(np.mean([part.mean() for part in right]))
    draws = [resampled_means(part, seed + number) / 2 for number, part in enumerate(right)]  # (D,) each
    hits, marks = int(predicted[fired].sum()), len(fired)
    p = hypergeom.sf(hits - 1, marks, int(predicted.sum()), int(fired.sum()))
    return AgreementScore(value, *percentile_interval(draws[0] + draws[1]), min(1.0, float(p)))


def pearson(predicted: Sequence[Floats], true: Sequence[Floats], seed: int) -> AgreementScore:
    """Over all tokens of all contexts, one array a context."""
    sums = np.array([_sums(x, y) for x, y in zip(predicted, true, strict=True)])  # (n, 6)
    value = float(_correlation(sums.sum(0)[None])[0])
    draws = bootstrap(lambda counts: _correlation(counts @ sums), len(sums), seed)
    return AgreementScore(value, *percentile_interval(draws))


def spearman(predicted: Sequence[Floats], true: Sequence[Floats], seed: int) -> AgreementScore:
    """Pearson of ranks; ties share their mean rank."""
    ends = np.cumsum([len(x) for x in predicted])[:-1]
    ranks = [np.split(rankdata(np.concatenate(side)), ends) for side in (predicted, true)]
    return pearson(ranks[0], ranks[1], seed)


def correlation(x: Floats, y: Floats) -> float:
    """Pearson's; 0 where one side does not vary."""
    return float(_correlation(np.array([_sums(x, y)]))[0])


def correlations(x: Floats, many: Floats) -> Floats:
    """Of x (n,) with every row of `many` (D, n)."""
    sums = np.zeros((len(many), 6))
    sums[:, [0, 1, 3]] = len(x), x.sum(), (x * x).sum()
    sums[:, 2], sums[:, 4], sums[:, 5] = many.sum(1), (many * many).sum(1), many @ x
    return _correlation(sums)


def _sums(x: Floats, y: Floats) -> list[float]:
    return [float(len(x)), x.sum(), y.sum(), (x * x).sum(), (y * y).sum(), (x * y).sum()]


def _correlation(sums: Floats) -> Floats:
    """sums (D, 6) -> (D,); 0 where one side does not vary."""
    n, x, y, xx, yy, xy = sums.T
    over, left, right = xy - x * y / n, xx - x * x / n, yy - y * y / n
    flat = (left <= 1e-12 * np.maximum(xx, 1e-300)) | (right <= 1e-12 * np.maximum(yy, 1e-300))
    with np.errstate(invalid="ignore", divide="ignore"):
        values: Floats = np.where(flat, 0.0, over / np.sqrt(np.where(flat, 1.0, left * right)))
    return values
