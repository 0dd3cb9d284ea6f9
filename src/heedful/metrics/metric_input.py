"""What a metric that explains again is given: one method on one text, and how to ask it anew."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from heedful.core.arrays import Floats
from heedful.core.attribution import Attribution
from heedful.core.errors import HeedfulError
from heedful.core.input import Input, Units
from heedful.core.model import Model
from heedful.core.removal_record import not_recording
from heedful.core.target import Target
from heedful.engine.session import Session, session_of
from heedful.modalities.neighbours import smoothed


def inputs_per_mask(model: Model, x: Input, target: Target, operator: str | None, unit: str = "") -> int:
    """Model inputs that one removal takes: more than one where an operator draws at random."""
    with not_recording():
        return len(model.rows(x, target, np.ones((1, len(x.units(unit))), dtype=bool), operator, unit))


class CannotExplainAgainError(HeedfulError):
    """Scores that came from elsewhere are what they are."""


Mask = npt.NDArray[np.bool_]  # (atoms,)
ReExplain = Callable[[Model | Session, Input, Target, int], Attribution]  # (model, input, target, seed)


@dataclass(frozen=True)
class MetricInput:
    """One method's explanation of one prediction.

    `again` explains with the same method and parameters, on this model or another, this text or another. Of
    the control it draws afresh at every call: a random explanation knows nothing that could stay the same.
    """

    source: Model | Session  # what explained it; of a session, what was run is not run again
    item: Attribution
    again: ReExplain
    unit: str = ""  # "": the default unit of the input
    rationale: tuple[bool, ...] | None = None  # by unit: what people marked as the reason
    mask: Mask | None = None  # by atom: where the thing is that must be found
    smooth: bool = False  # its scores are smoothed over neighbours: a control

    @cached_property
    def session(self) -> Session:
        return session_of(self.source)

    @property
    def model(self) -> Model:
        return self.session.model

    @property
    def units(self) -> Units:
        return self.item.x.units(self.unit)

    @property
    def scores(self) -> Floats:
        """(d,) one score per unit."""
        scores = self.item.unit_scores(self.unit)
        return smoothed(self.item.x, scores, self.unit) if self.smooth else scores
