"""One text with and without some heads: what the model says, and whether just any heads would do as much.

    drop      metric of heedful.heads.ablation.task_metrics with all heads less that without these (own
              answer, own tokens)
    control   the same for random sets of as many heads: mean, lowest and highest of draws

One text proves nothing about a head: for that, see heedful.head_importance.
Cost: 2 forwards for the predictions, 2 + draws for the metric.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from heedful.core.errors import HeedfulError
from heedful.core.result import Result
from heedful.heads.ablation.ablate import (
    Anatomy,
    Means,
    ablated,
    anatomy,
    check_how,
    every_head,
    head_means,
    named,
)
from heedful.heads.ablation.task_metrics import NAMES, Heads, Task, measure, prepare
from heedful.io.json_codec import to_jsonable
from heedful.modalities.text import TextInput
from heedful.stats.intervals import Interval

if TYPE_CHECKING:
    from heedful.models.adapter import TokenModel

DRAWS = 10
OWN_MEANS = "means of the heads are over the tokens of this text alone"
Prediction = tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class AblationResult(Result):
    """What removing some heads did to one text."""

    kind: ClassVar[str] = "ablation"

    heads: tuple[str, ...]
    of: int  # how many heads there are
    how: str
    before: Prediction  # labels, next tokens or values; what an encoder-decoder writes, with no number
    after: Prediction
    metric: str = ""  # "": the model makes no prediction
    about: str = ""
    value: float = 0.0  # with all heads
    drop: float = 0.0
    draws: int = 0
    random: float = 0.0  # drop without as many random heads: mean over draws
    random_range: Interval = (0.0, 0.0)
    notes: tuple[str, ...] = ()
    answers: bool = True  # it answers by a label, a token or a text; a regression by numbers, an encoder not

    @property
    def changed(self) -> bool | None:
        """The first answer is another one. None where there is no answer that could be: see `drop`."""
        if not self.answers:
            return None
        return [name for name, _ in self.before[:1]] != [name for name, _ in self.after[:1]]

    def to_dict(self) -> dict[str, Any]:
        return dict(to_jsonable(vars(self) | {"changed": self.changed}))


def without(
    model: TokenModel,
    x: TextInput,
    heads: Any,
    how: str = "zero",
    *,
    answer: Any = None,
    means: Means | None = None,
    seed: int = 0,
) -> AblationResult:
    """Remove heads for one text; `answer` is what an encoder-decoder should write, None what it does.

    Means that are not given are taken over this text's own tokens, and told.
    """
    notes: tuple[str, ...] = ()
    if how == "mean" and means is None:
        means = own_means(model, x, answer)
        notes = (OWN_MEANS,)
    check_how(how, means)
    shape = anatomy(model)
    gone = frozenset(named(heads, shape))
    before = prediction(model, x)
    with ablated(model, list(gone), how, means=means):
        after = prediction(model, x)
    names = tuple(head.name for head in named(list(gone), shape))
    answers = model.kind not in ("regression", "encoder")
    result = AblationResult(names, len(every_head(shape)), how, before, after, notes=notes, answers=answers)
    if model.kind not in NAMES:
        return result
    try:
        task = prepare(model, [x], None if answer is None else [answer])
    except HeedfulError as error:  # a text of one token has none to foretell
        return replace(result, notes=(*result.notes, f"no metric: {error.why or error.what}"))
    return _weighed(task, gone, shape, result, means, seed)


def own_means(model: TokenModel, x: TextInput, answer: Any = None) -> Means:
    """Over the tokens of one text, and of what is written to it."""
    return head_means(model, [x], answers=None if answer is None else [answer])


def prediction(model: TokenModel, x: TextInput) -> Prediction:
    """What the model answers, highest first."""
    if model.kind == "encoder":
        return ()
    if model.kind == "encoder-decoder":
        written = model.decode(model.answer(x), skip_special=True)
        return ((str(written), float("nan")),)
    return tuple((str(name), float(value)) for name, value in model.predict(x, 3))


def _weighed(
    task: Task, gone: Heads, shape: Anatomy, result: AblationResult, means: Means | None, seed: int
) -> AblationResult:
    """With the metric, and the control where there are other heads to draw."""
    every, rng = every_head(shape), np.random.default_rng(seed)
    draws = DRAWS if len(gone) < len(every) else 0
    drawn = [rng.choice(len(every), len(gone), replace=False) for _ in range(draws)]
    sets = [frozenset(), gone, *(frozenset(every[i] for i in some) for some in drawn)]
    values = measure(task, sets, shape, result.how, means)[0, :, 0]
    drops = values[0] - values[1:]
    control = drops[1:] if draws else drops
    return replace(
        result,
        metric=task.metrics[0],
        about=task.about,
        value=float(values[0]),
        drop=float(drops[0]),
        draws=draws,
        random=float(control.mean()),
        random_range=(float(control.min()), float(control.max())),
    )
