"""One text with and without some heads: what the model says, and whether just any heads would do as much.

    drop      metric of heedful.heads.tasks with all heads less that without these (own answer, own tokens)
    control   the same for random sets of as many heads: mean, lowest and highest of draws

One text proves nothing about a head: for that, see heedful.head_importance.
Cost: 2 forwards for the predictions, 2 + draws for the metric.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from heedful.errors import HeedfulError
from heedful.heads.ablation import Anatomy, Means, ablated, anatomy, check_how, every_head, head_means, named
from heedful.heads.intervals import Interval
from heedful.heads.tasks import NAMES, Heads, measure, prepare
from heedful.heads.worth import plain
from heedful.types import Encoded

DRAWS = 10
Prediction = tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Without:
    """What removing some heads did to one text."""

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

    @property
    def changed(self) -> bool:
        """The first answer is another one."""
        return [name for name, _ in self.before[:1]] != [name for name, _ in self.after[:1]]

    def to_dict(self) -> dict[str, Any]:
        found: dict[str, Any] = plain(asdict(self) | {"changed": self.changed})
        return found


def without(
    model: Any, x: Encoded, heads: Any, how: str = "zero", *, means: Means | None = None, seed: int = 0
) -> Without:
    """Remove heads for one text. Means that are not given are taken over this text's own tokens, and told."""
    notes: tuple[str, ...] = ()
    if how == "mean" and means is None:
        means = head_means(model, [x])
        notes = ("means of the heads are over the tokens of this text alone",)
    check_how(how, means)
    shape = anatomy(model)
    gone = frozenset(named(heads, shape))
    before = says(model, x)
    with ablated(model, list(gone), how, means=means):
        after = says(model, x)
    names = tuple(head.name for head in named(list(gone), shape))
    found = Without(names, len(every_head(shape)), how, before, after, notes=notes)
    return found if model.kind not in NAMES else _weighed(model, x, gone, shape, found, means, seed)


def says(model: Any, x: Encoded) -> Prediction:
    """What the model answers, highest first."""
    if model.kind == "encoder":
        return ()
    if model.kind == "encoder-decoder":
        written = model.tokenizer.decode(model.answer(x), skip_special_tokens=True)
        return ((str(written), float("nan")),)
    return tuple((str(name), float(value)) for name, value in model.predict(x, 3))


def _weighed(
    model: Any, x: Encoded, gone: Heads, shape: Anatomy, found: Without, means: Means | None, seed: int
) -> Without:
    """With the metric, and the control where there are other heads to draw."""
    every, rng = every_head(shape), np.random.default_rng(seed)
    draws = DRAWS if len(gone) < len(every) else 0
    drawn = [rng.choice(len(every), len(gone), replace=False) for _ in range(draws)]
    sets = [frozenset(), gone, *(frozenset(every[i] for i in some) for some in drawn)]
    try:
        task = prepare(model, [x])
    except HeedfulError as error:  # a text of one token has none to foretell
        return Without(**vars(found) | {"notes": (*found.notes, f"no metric: {error.why or error.what}")})
    values = measure(task, sets, shape, found.how, means)[0, :, 0]
    drops = values[0] - values[1:]
    control = drops[1:] if draws else drops
    return Without(
        **vars(found)
        | {"metric": task.metrics[0], "about": task.about, "value": float(values[0]), "drop": float(drops[0])}
        | {"draws": draws, "random": float(control.mean())}
        | {"random_range": (float(control.min()), float(control.max()))}
    )
