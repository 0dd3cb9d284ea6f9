"""How few units have most of the scores: the Gini index of the absolute scores.

    c = sorted |a|, smallest first, d of them
    G = 1 - 2 sum_k  c_k / |c|_1  (d - k + 1/2) / d

It is 0 if all absolute scores are equal and 1 - 1/d if only one unit has a score other than zero. Moving a
part of a large score to a small one lowers it. A common factor, a sign or the order of the units do not
change it. Neither does repeating the whole text, so texts of different length can be compared. A short
explanation is easy to read, but this is no reason to trust it.

Cost: a sort, no model inputs.
Hurley & Rickard 2009, "Comparing measures of sparsity" (of the measures compared there, the only one with all
six properties).
"""

from __future__ import annotations

import numpy as np

from heedful.core.arrays import Floats
from heedful.core.registry import metric
from heedful.metrics.metric_input import MetricInput


@metric("compactness", kind="re-explain", better="high", best=1.0, cite="Hurley & Rickard 2009")
def compactness(subject: MetricInput, rng: np.random.Generator) -> float:
    """How strongly the scores are concentrated on a few units.

    Limitations: Few units are not necessarily the right ones: a method that always names one has the best
    value.
    """
    return gini(subject.scores)


def gini(scores: Floats) -> float:
    """Of the sizes; nan for fewer than two units, 0 where no unit has a score: none stands out."""
    d, sizes = len(scores), np.sort(np.abs(scores))
    if d < 2:
        return float("nan")
    if not sizes.any():
        return 0.0
    rank = np.arange(1, d + 1)
    return float(1 - 2 * np.sum(sizes / sizes.sum() * (d - rank + 0.5)) / d)
