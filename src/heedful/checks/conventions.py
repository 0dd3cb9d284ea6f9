"""What every explainer holds, whatever it promises: checked on any model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any
from unittest.mock import patch
from weakref import WeakKeyDictionary

import numpy as np
import torch

from heedful.checks.known_models import TEXT
from heedful.checks.known_pictures import sample_pictures
from heedful.checks.module_state import changes, global_seed, noticed
from heedful.core.arrays import Floats
from heedful.core.attribution import Attribution
from heedful.core.errors import HeedfulError
from heedful.core.input import Input
from heedful.core.model import Masks, Model
from heedful.core.registry import Explainer
from heedful.core.target import Target
from heedful.engine.question import run_explainer
from heedful.engine.session import Session
from heedful.modalities import text_windows
from heedful.modalities.text import text_of
from heedful.models import passes, value_zeroing

UNICODE = "the caf\u00e9 👩‍👩‍👧 שלום 你好 cat e\u0301"
ANSWER = 2  # tokens of an encoder-decoder's answer that are explained: each costs a step
CHEAP_PARAMS = {"samples": 64, "most": 32}  # rows of expensive methods, and nodes of integrated gradients
ROUNDINGS = 100  # how many units in the last place two ways to run the same rows may differ by

_targets: WeakKeyDictionary[Model, dict[Input, Target]] = WeakKeyDictionary()


def samples(model: Model) -> tuple[Any, Any]:
    """Two inputs of the kind that the model reads: a usual one and a strange one."""
    return sample_pictures() if "picture" in model.capabilities else (TEXT, UNICODE)


def question(model: Model, raw: Any = None) -> tuple[Input, Target]:
    """An input and what is asked of it: the prediction; of a written answer, its first tokens."""
    x = model.encode(samples(model)[0] if raw is None else raw)
    return x, target_of(model, x)


def target_of(model: Model, x: Input) -> Target:
    """Remembered, since an encoder-decoder writes its whole answer to tell it."""
    known = _targets.setdefault(model, {})
    if x not in known:
        target = model.target(x)
        if len(target.sequence) > ANSWER:
            target = model.target(x, {"sequence": list(target.sequence[:ANSWER])})
        known[x] = target
    return known[x]


def explained(entry: Explainer, model: Model, raw: Any = None, **params: Any) -> Attribution:
    return answered(entry, model, *question(model, raw), **params)


def answered(
    entry: Explainer, model: Model | Session, x: Input, target: Target, **params: Any
) -> Attribution:
    """The explanation with seed 0, few rows where it is expensive, and those of `params` that it takes."""
    few = CHEAP_PARAMS if entry.expensive else {"most": CHEAP_PARAMS["most"]}
    known = {"seed": 0, **few, **params}
    return run_explainer(entry, model, x, target, **{k: v for k, v in known.items() if k in entry.params})


def check_scores(entry: Explainer, model: Model) -> None:
    """One finite float64 per token; errors, where there are any, too and not negative. Unicode included, and
    a picture of one colour."""
    for raw in samples(model):
        well_formed(entry, explained(entry, model, raw))


def check_odd_inputs(entry: Explainer, model: Model) -> None:
    """A text of one token, and one of special tokens alone: scores as usual, or a refusal in a sentence."""
    for kind, x in odd_inputs(model).items():
        try:
            attribution = answered(entry, model, x, target_of(model, x))
        except HeedfulError:
            continue
        except Exception as error:
            raise AssertionError(f"{entry.name} breaks on {kind}: {error!r}") from error
        well_formed(entry, attribution)


def odd_inputs(model: Model) -> dict[str, Input]:
    """Text of a single token between special ones, and text of special tokens alone (a chat's frame). Black
    and white pictures."""
    if "picture" in model.capabilities:
        black = np.zeros_like(sample_pictures()[0])
        return {"a black picture": model.encode(black), "a white picture": model.encode(~black)}
    x = text_of(model.encode(TEXT.split()[1]))
    first = x.special.index(False)
    one = text_windows.select(x, [t for t in range(len(x)) if x.special[t] or t == first])
    size = len(x)
    bare = replace(
        x,
        special=(True,) * size,
        offsets=((0, 0),) * size,
        words=(-1,) * size,
        word_spans=(),
        segments=(-1,) * size,
    )
    return {"one token": one, "special tokens alone": bare}


def well_formed(entry: Explainer, found: Attribution) -> None:
    name, text = entry.name, found.x.raw
    assert found.method == name, f"{name} calls itself {found.method}"
    assert found.scores.dtype == np.float64, f"{name} scores in {found.scores.dtype}"
    assert np.isfinite(found.scores).all(), f"{name} gives scores that are not finite for {text!r}"
    assert entry.signed or (found.scores >= 0).all(), f"{name} is unsigned but has negative scores"
    if found.stderr is not None:
        assert found.stderr.shape == found.scores.shape, f"{name} has {found.stderr.shape} errors"
        assert (found.stderr >= 0).all(), f"{name} has negative or missing standard errors"


def check_deterministic(entry: Explainer, model: Model) -> None:
    """The same seed gives the same scores, and nothing is drawn from global random state."""
    results = []
    for seed in (1, 2):
        with global_seed(seed):
            results.append(explained(entry, model).scores)
    assert np.array_equal(results[0], results[1]), f"{entry.name} differs from itself under one seed"


def check_model_untouched(entry: Explainer, model: Model) -> None:
    """Weights, gradients, modes, hooks, attributes, settings and global random state are as they were."""
    x, target = question(model)
    before = noticed(model.module)
    answered(entry, model, x, target)
    left = changes(before, noticed(model.module))
    assert not left, f"{entry.name} left traces: {', '.join(left)}"


def check_remembered(entry: Explainer, model: Model) -> None:
    """Through a run that remembers traces and rows: the same scores again, and the same as alone."""
    x, target = question(model)
    shared = Session(model)
    first, again = (answered(entry, shared, x, target) for _ in range(2))
    same(first, again, model, f"{entry.name} reads stale rows")
    same(first, answered(entry, model, x, target), model, f"{entry.name} differs alone")


def check_chunks(entry: Explainer, model: Model) -> None:
    """Rows asked for backwards, and each run alone, give the same scores as rows run together."""
    x, target = question(model)
    together = answered(entry, model, x, target)
    with chunks_of(1):
        alone = answered(entry, ReversedSession(model), x, target)
    same(together, alone, model, f"{entry.name} depends on what its rows were run with")


def same(a: Attribution, b: Attribution, model: Model, message: str) -> None:
    """Equal but for rounding: a batch of another shape sums in another order. Scores are differences of
    outputs, so they round at the size of the output as well as at their own."""
    scale = np.abs(a.scores).max(initial=0.0) + abs(np.nan_to_num(a.output))
    np.testing.assert_allclose(
        a.scores, b.scores, rtol=0, atol=ROUNDINGS * precision(model) * scale, err_msg=message
    )


def precision(model: Model) -> float:
    """A unit in the last place of the model's numbers, relative to them."""
    first = None if model.module is None else next(model.module.parameters(), None)
    return float(torch.finfo(torch.float32 if first is None else first.dtype).eps)


class ReversedSession(Session):
    """Rows, and points in embedding space, are run in reverse order."""

    def values(
        self, x: Input, target: Target, keep: Masks, operator: str | None = None, unit: str = ""
    ) -> Floats:
        return super().values(x, target, keep[::-1], operator, unit)[::-1]

    def gradients(self, x: Input, target: Target, embeds: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        values, grads = super().gradients(x, target, embeds.flip(0))
        return values.flip(0), grads.flip(0)


@contextmanager
def chunks_of(tokens: int) -> Iterator[None]:
    """Inside, rows are cut into chunks of so many tokens; one token makes every row a chunk."""
    with (
        patch.object(passes, "CHUNK_TOKENS", tokens),
        patch.object(passes, "evaluate", partial(passes.evaluate, tokens=tokens)),
        patch.object(value_zeroing, "CHUNK_TOKENS", tokens),
    ):
        yield
