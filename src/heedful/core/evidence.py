"""How far the model does what a method says, beside random scores."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

from heedful.core.result import NotebookRepr


@dataclass(frozen=True)
class MeasuredValue:
    """A number and its 95 % interval; (nan, nan) where there is none."""

    value: float
    low: float = math.nan
    high: float = math.nan

    def to_dict(self) -> dict[str, float | None]:
        return {name: v if math.isfinite(v) else None for name, v in asdict(self).items()}


@dataclass(frozen=True)
class Evidence(NotebookRepr):
    """The result of one metric for one method, over one or more texts.

    Parameters
    ----------
    metric
        Name of the metric.
    operator
        How words were removed. Empty if the metric removes no words.
    method
        Name of the method.
    value
        Mean value of the method.
    control
        Mean value of random scores.
    best
        Mean of the best values that were found.
    skill
        (value - control) / (best - control). 0 is as good as random scores, 1 is the best value that was
        found.
    interval
        95 % interval of the skill, over texts. (nan, nan) for one text.
    n
        Number of texts.
    chance
        The smallest and the largest value of random scores on a text, each as a mean over texts.
    circular
        Whether the method used the same removal operator to compute its scores. If so, this number is not
        used to judge the method.
    orders
        For one text: the values of the random scores.
    better
        Whether "high" or "low" values are good.
    family
        The part of the verdict that uses the metric. Empty if the verdict does not use it.

    Examples
    --------
    >>> import heedful
    >>> texts = ["The food was great", "The service was bad"]
    >>> audit = heedful.audit("zoo:sentiment", texts, methods=["occlusion"], metrics=["comprehensiveness"])
    >>> evidence = audit.table[0]
    >>> evidence.metric, evidence.n, evidence.value > evidence.control
    ('comprehensiveness', 2, True)
    """

    metric: str
    operator: str
    method: str
    value: float  # means over texts: of the method,
    control: float  # of random scores,
    best: float  # and of the best found
    skill: float  # (value - control) / (best - control): 0 is chance, 1 the best found
    interval: tuple[float, float]  # 95 %, of skill, over texts; (nan, nan) for a single text
    n: int
    chance: tuple[
        float, float
    ]  # the least and the most that random scores reached on a text, means over texts
    circular: bool = False  # the method was fitted by the operator that removes words here
    orders: tuple[float, ...] = ()  # of a single text: the values of the random scores
    better: str = "high"  # or "low": which values are good
    family: str = ""  # the metric's voice in a verdict; "": it has none

    @property
    def beat(self) -> int:
        """For a single text: number of random orders that the method beats."""
        up = self.better == "high"
        return sum(bool(self.value > order if up else self.value < order) for order in self.orders)
