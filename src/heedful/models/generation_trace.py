"""A text and what a model writes after it, token by token: one forward for all tokens, one backward each.

A causal model's token k is explained by everything before it, so each step has its own, longer text; the pass
over the longest holds all of them, for no token looks ahead. An encoder-decoder's token k is explained by the
text it reads and by the tokens already written (`Attribution.written`).
Cost: 1 forward, 1 backward a token, against 1 of each a token when explained one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import torch

from heedful.core.errors import HeedfulError
from heedful.core.input import Input
from heedful.core.target import Target
from heedful.core.trace import Trace
from heedful.modalities import text_windows
from heedful.modalities.text import TextInput, text_of
from heedful.modalities.tokenizer_calls import decoded
from heedful.models.adapter import TokenModel, wide
from heedful.models.trace_pass import as_trace, gradients, until
from heedful.models.written_text import extended

Step = tuple[TextInput, Target]


def steps(model: TokenModel, x: TextInput, answer: Sequence[int]) -> list[Step]:
    """What is explained at each token of `answer`: the text read so far, and the token as target."""
    names = [decoded(model.tokenizer, [token]) for token in answer]
    if model.kind == "encoder-decoder":
        return [
            (x, Target("token", token, names[k], given=tuple(answer[:k]))) for k, token in enumerate(answer)
        ]
    whole = extended(model.tokenizer, x, answer)
    return [
        (text_windows.select(whole, range(len(x) + k)), Target("token", token, names[k]))
        for k, token in enumerate(answer)
    ]


def continued(model: TokenModel, x: TextInput, answer: Sequence[int]) -> TextInput:
    """The text with the tokens of `answer` after it."""
    return extended(model.tokenizer, x, answer)


def check_tokens(model: TokenModel, answer: Sequence[int]) -> None:
    """Refuse ids that are no tokens of the model."""
    size = model.backend.vocabulary
    if wrong := [token for token in answer if not 0 <= token < size]:
        raise HeedfulError(f"there is no token {wrong[0]:,}", f"the model has {size:,} tokens")


class SharedPass:
    """One traced forward over x and the tokens written after it; `trace` takes the backward of one."""

    def __init__(self, model: TokenModel, x: TextInput, answer: Sequence[int]) -> None:
        self.model = model
        inputs = model.inputs(x, Target("sequence", sequence=tuple(answer)))
        with (
            model.meter.counted(forwards=1, unique=1, tokens=inputs.ids.shape[1]),
            torch.inference_mode(False),
            torch.enable_grad(),
        ):
            self.out = model.backend.traced(inputs)
            self.logits = wide(self.out.logits)[0]  # (L, V)
        model.refuse_nan(self.logits, inputs)

    def trace(self, k: int, x: TextInput, target: Target) -> Trace:
        """The trace of the k-th token, as `model.trace(x, target)` would give it."""
        counted = self.model.meter.counted(backwards=1)
        with counted, torch.inference_mode(False), torch.enable_grad():
            score = target.score(self.logits[k : k + 1])[0]
            grads = gradients(score, self.out, again=True)
        cut = (len(x), k + 1)
        out, own = until(self.out, *cut), until(grads, *cut)
        return as_trace(x, target, score, out, own, written=self.model.written(target))


class SharedGeneration:
    """The pass all tokens share, made when the first method asks for it, and the model's facts."""

    def __init__(self, model: TokenModel, x: TextInput, answer: tuple[int, ...]) -> None:
        self.model, self.x, self.answer = model, x, answer

    @cached_property
    def forward(self) -> SharedPass:
        return SharedPass(self.model, self.x, self.answer)

    @cached_property
    def facts(self) -> dict[str, Any]:
        return self.model.facts()


class StepModel(TokenModel):
    """The model at the k-th token it writes: its trace and prediction come from the shared pass."""

    def __init__(self, shared: SharedGeneration, k: int) -> None:
        vars(self).update(vars(shared.model))  # the same backend, tokenizer and meter
        self.generation, self.k = shared, k

    def facts(self) -> dict[str, Any]:
        return dict(self.generation.facts)

    def trace(self, x: Input, target: Target, hidden: bool = False) -> Trace:
        return self.generation.forward.trace(self.k, text_of(x), target)

    def predict(self, x: Input, k: int = 5, given: Sequence[int] = ()) -> list[tuple[str, float]]:
        return self.ranked(self.generation.forward.logits[self.k].detach(), k)
