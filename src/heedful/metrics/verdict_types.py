"""What an audit concludes: the verdict on each method and control, and which method to use. Data only.

How it is computed is in heedful.metrics.verdict, how it reads in heedful.metrics.verdict_sentences.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from heedful.core.phrases import InputWords
from heedful.core.result import NotebookRepr
from heedful.metrics.random_orders import MetricCell
from heedful.stats.best_comparison import ALPHA

TEXT = InputWords()


@dataclass(frozen=True)
class MethodVerdict(NotebookRepr):
    """What the texts say of one method."""

    method: str
    texts: int  # with a value in every cell
    won: int  # of these, on which it beat more than half of the random orders
    share: float  # of random orders beaten, mean over texts
    p: float  # of "no better than random orders", corrected for all methods
    better: bool  # than random orders
    z: float  # mean distance from random orders, in their standard deviations
    gap: float = math.nan  # no method is better by more than this; NaN: not compared
    may_be_best: bool = False
    certified: bool = False
    settled: bool = True  # looked at after every text: better, or its share is shown to be below 0.6
    inputs: float = math.nan  # model inputs per text; NaN: not known
    by_family: Mapping[str, float] = field(default_factory=dict)  # shares
    by_operator: Mapping[str, float] = field(default_factory=dict)
    fitted_by: tuple[str, ...] | None = ()  # removal operators; None: not known
    # control -> p of "not better than it", corrected for all methods and controls; empty: not tested
    against: Mapping[str, float] = field(default_factory=dict)

    @property
    def not_shown_better(self) -> tuple[str, ...]:
        """The controls than which it is not shown better."""
        return tuple(control for control, p in self.against.items() if not p <= ALPHA)


@dataclass(frozen=True)
class ControlVerdict(NotebookRepr):
    """What a control reaches that does not look at the model. Nothing is claimed of it."""

    control: str
    texts: int  # with a value in every cell
    won: int  # of these, on which it beat more than half of the random orders
    share: float  # of random orders beaten, mean over texts
    z: float  # mean distance from random orders, in their standard deviations


@dataclass(frozen=True)
class Verdict(NotebookRepr):
    """Which method to use, and the evidence for it. `str(verdict)` describes both in words.

    Parameters
    ----------
    n
        Number of texts.
    methods
        One entry per method, the best first.
    use
        The recommended method. Empty if no method is recommended.
    certified
        Whether the audit shows that no other method is better by a relevant amount.
    cells
        The measurements that were used: metric and removal operator.
    draws
        Number of random orders per text.
    common
        Number of texts on which every method has a value.
    compared
        Whether methods were compared with each other. This needs enough texts.
    looked_always
        Whether the verdict was checked after every text, with a test that allows this.
    left_out
        Methods that are not part of the verdict, and the reasons.
    flat
        Whether all orders had the same effect on every text. Then there is nothing to compare.
    visible_share
        The share of random orders that a method must beat, so that an audit of this size detects in 80 % of
        cases that it is better than random.
    visible_gap
        The difference between two methods that an audit of this size detects in 80 % of cases.
    words
        What the sentences call the inputs and their parts: texts and words, or pictures and patches.
    controls
        Controls that do not look at the model, such as `edges`. They are never recommended.
    controlled
        Number of inputs on which methods were compared with the controls. 0 if there are no controls or too
        few inputs.

    Examples
    --------
    >>> import heedful
    >>> texts = ["The food was great", "The service was bad"]
    >>> audit = heedful.audit("zoo:sentiment", texts, methods=["occlusion"], metrics=["comprehensiveness"])
    >>> audit.verdict.headline
    '2 texts are too few for a verdict: at least 10 are needed.'
    >>> audit.verdict.use
    ''
    """

    n: int  # texts
    methods: tuple[MethodVerdict, ...] = ()  # by mean z, highest first
    use: str = ""  # the recommended method; "" where there is none
    certified: bool = False
    cells: tuple[MetricCell, ...] = ()
    draws: int = 0  # random orders per text
    common: int = 0  # texts on which every method has a value: on these they are compared
    compared: bool = False  # claims between methods are made
    looked_always: bool = False  # after every text, by betting
    left_out: Mapping[str, str] = field(default_factory=dict)  # method -> why it takes no part
    flat: bool = False  # all orders did the same on every text: nothing to compare
    visible_share: float = math.nan  # the share that would be claimed in 80 % of audits like this
    visible_gap: float = math.nan  # the same of a difference between two methods
    words: InputWords = TEXT  # what sentences call the inputs and their parts
    controls: tuple[ControlVerdict, ...] = ()
    controlled: int = 0  # inputs on which methods were compared with the controls; 0: they were not

    def __getitem__(self, method: str) -> MethodVerdict:
        return next(each for each in self.methods if each.method == method)

    def __str__(self) -> str:
        return "\n".join(self.sentences)

    @property
    def headline(self) -> str:
        """The first sentence of the verdict."""
        return self.sentences[0]

    @property
    def sentences(self) -> list[str]:
        """The verdict in words, one sentence per entry."""
        from heedful.metrics.verdict_sentences import sentences

        return sentences(self)

    @property
    def better(self) -> list[str]:
        """Methods that are better than random orders."""
        return [each.method for each in self.methods if each.better]

    @property
    def not_proven(self) -> list[str]:
        """Methods that are not proven better than random orders."""
        return [each.method for each in self.methods if not each.better]

    @property
    def may_be_best(self) -> list[str]:
        """Methods that may be the best method."""
        return [each.method for each in self.methods if each.may_be_best]

    @property
    def not_shown_better(self) -> dict[str, list[str]]:
        """For each control: the methods that are not shown better than it. Empty if this was not tested."""
        names = dict.fromkeys(control for each in self.methods for control in each.against)
        return {
            control: [each.method for each in self.methods if control in each.not_shown_better]
            for control in names
        }

    @property
    def operators(self) -> tuple[str, ...]:
        """Removal operators that judged the methods."""
        return tuple(dict.fromkeys(cell.operator for cell in self.cells))
