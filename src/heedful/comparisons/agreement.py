"""How far two methods agree on which words matter: pairwise over the words of one text (or over its tokens
or sentences, where these were scored as one), and of what was already written, where every method scores it
on the scale of the text.

    kendall    tau-b = (C - D) / sqrt((P - ties_a)(P - ties_b)),  P = n(n-1)/2 pairs of words
    spearman   Pearson correlation of the two rank vectors (ties share their mean rank)
    top-k      |top_k(a) & top_k(b)| / k, where top_k is `Attribution.top(k)`: the k largest |scores|

Kendall and Spearman read the signed scores when both methods are signed, and absolute scores when either is
unsigned (a norm or an attention weight has no direction to compare). A method that gives every word the same
score, or a text of fewer than two words, has no ranking: the entry is nan.

Cost: O(m^2 n log n) for m methods and n words; no model is run.
Kendall 1938, 1945 (tau-b); Neely et al. 2021 on why low agreement does not say which method is wrong.
"""

from __future__ import annotations

import math

import numpy as np

from heedful.core.arrays import Floats
from heedful.stats.intervals import NORMAL_QUANTILE

MEASURES = ("kendall", "spearman", "top-k")
MOST_PAIRWISE = 64  # words up to which all pairs are looked at


def kendall(a: Floats, b: Floats) -> float:
    """Of two rankings of the same things; nan where one has no ranking."""
    return pair_agreement(a, b, "kendall", 1)


def pair_agreement(a: Floats, b: Floats, measure: str, k: int) -> float:  # (n,), (n,) -> scalar
    if len(a) < 2 or any(not np.isfinite(v).all() or v.min() == v.max() for v in (a, b)):
        return math.nan
    if measure == "top-k":
        size = min(k, len(a))
        tops = [set(np.argsort(-v, kind="stable")[:size].tolist()) for v in (a, b)]
        return len(tops[0] & tops[1]) / size
    if len(a) == 2:  # one pair, tied in neither: scipy divides by n - 2 here
        return float(np.sign(a[1] - a[0]) * np.sign(b[1] - b[0]))
    if measure == "kendall" and len(a) <= MOST_PAIRWISE:
        return _tau_of_pairs(a, b)
    from scipy import stats

    if measure == "kendall":
        return float(stats.kendalltau(a, b, method="asymptotic").statistic)
    return float(np.corrcoef(stats.rankdata(a), stats.rankdata(b))[0, 1])


def _tau_of_pairs(a: Floats, b: Floats) -> float:  # (n,), (n,) -> scalar
    """Tau-b by looking at every pair of words: of short texts forty times as fast as scipy, which sorts."""
    signs = [np.sign(v[:, None] - v).ravel() for v in (a, b)]  # (n * n,), each pair twice
    untied = [np.count_nonzero(sign) for sign in signs]
    return float(signs[0] @ signs[1] / math.sqrt(untied[0] * untied[1]))


def chance(measure: str, words: int, k: int = 5) -> float:
    """What two unrelated rankings of n words reach: half the width of the interval that holds 95 % of their
    correlations (normal approximation: `chance_band`, and 1.96 / sqrt(n - 1) for Spearman), nan below five
    words; of top-k overlap, the mean k / n."""
    if measure == "top-k":
        return min(k, words) / words if words else math.nan
    if measure == "spearman":
        return NORMAL_QUANTILE / math.sqrt(words - 1) if words >= 5 else math.nan
    return chance_band(words)


def chance_band(words: int) -> float:
    """Half-width of the interval that holds 95 % of Kendall's tau between two unrelated rankings of n words.

    Normal approximation, sd = sqrt(2(2n + 5) / (9n(n - 1))) (Kendall 1938); nan below five words, where it is
    not usable.
    """
    if words < 5:
        return math.nan
    return NORMAL_QUANTILE * math.sqrt(2 * (2 * words + 5) / (9 * words * (words - 1)))
