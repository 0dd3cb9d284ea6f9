"""One line of the errata: a formula in the form that circulates, the form that holds, and a judge.

Both are measured by their distance to the same truth, got in a third way (autograd, quadrature, enumeration,
another library), on `n` drawn instances. The misprint must miss it on every one, the correction on none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from heedful.core.arrays import Floats
from heedful.labs.data.reviews import reviews

ROUNDING = 1e-9  # float64, after some arithmetic


@dataclass(frozen=True)
class Misprint:
    """What is printed, what holds, how far each is from the truth, and how the truth was got."""

    number: str  # in docs/errata.md
    sentence: str  # the claim
    printed: str
    correct: str
    judge: str
    wrong: Floats  # (n,) error of the printed form
    right: Floats  # (n,) error of the correct one
    least: float = 0.01  # the printed form misses the truth by more than this, always
    most: float = ROUNDING  # and the correct one never by more than this

    @property
    def holds(self) -> bool:
        errors = np.concatenate([self.wrong, self.right])
        return bool(
            np.isfinite(errors).all() and self.wrong.min() > self.least and self.right.max() <= self.most
        )


def distance(found: Any, truth: Any) -> float:
    """|found - truth| / |truth|, Euclidean; numbers, arrays or tensors."""
    found, truth = np.asarray(found, dtype=np.float64), np.asarray(truth, dtype=np.float64)
    return float(np.linalg.norm(found - truth) / np.linalg.norm(truth))


def texts(count: int, seed: int) -> list[str]:
    """Film reviews no embedded model was trained on."""
    results = [review.text for review in reviews("held")]
    return [str(text) for text in np.random.default_rng(seed).choice(results, count, replace=False)]
