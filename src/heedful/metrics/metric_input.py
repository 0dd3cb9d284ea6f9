"""What a metric that explains again is given: one method on one text, and how to ask it anew."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from heedful.core.arrays import Floats
from heedful.core.attribution import Attribution
from heedful.core.errors import HeedfulError
from heedful.core.input import Encoded
from heedful.core.model import Model
from heedful.core.target import Target


class CannotExplainAgainError(HeedfulError):
    """Scores that came from elsewhere are what they are."""


ReExplain = Callable[[Model, Encoded, Target, int], Attribution]  # (model, text, target, seed)


@dataclass(frozen=True)
class MetricInput:
    """One method's explanation of one prediction.

    `again` explains with the same method and parameters, on this model or another, this text or another. Of
    the control it draws afresh at every call: a random explanation knows nothing that could stay the same.
    """

    model: Model
    item: Attribution
    again: ReExplain
    unit: str = "word"
    rationale: tuple[bool, ...] | None = None  # by unit: what people marked as the reason

    @property
    def scores(self) -> Floats:
        """(d,) one score per unit."""
        return unit_scores(self.item, self.item.x.units(self.unit))


def unit_scores(item: Attribution, groups: list[list[int]]) -> Floats:
    """(d,) a unit's score is the sum over its tokens."""
    return np.array([item.scores[positions].sum() for positions in groups])
