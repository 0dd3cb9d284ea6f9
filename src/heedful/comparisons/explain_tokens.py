"""`explain_each`: why a language model wrote each of its tokens.

All tokens share one forward; each adds one backward for the methods that read the trace, and its own rows for
those that remove words (heedful.models.generation_trace). Ctrl-C keeps the tokens that are finished.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from heedful.comparisons.execute import explain, interrupted_twice
from heedful.comparisons.result import Comparison
from heedful.core.errors import HeedfulError
from heedful.core.model import Loadable
from heedful.core.progress import Report
from heedful.modalities.text import TextInput
from heedful.models.adapter import TokenModel
from heedful.models.generation_trace import SharedGeneration, StepModel, steps
from heedful.models.load import load
from heedful.models.token_reader import GENERATORS


def explain_each(
    model: Loadable,
    text: Any,
    methods: Iterable[str] | str | None = None,
    unit: str = "word",
    seed: int = 0,
    budget: int | None = None,
    *,
    continuation: str | Sequence[int] | None = None,
    max_new_tokens: int = 16,
    long: str = "error",
    params: Mapping[str, Mapping[str, Any]] | None = None,
    progress: Report | None = None,
    keep_partial: bool = True,
) -> list[Comparison]:
    """Explain every token that a language model writes after a text.

    For a causal model, the text of the k-th result includes the tokens that were written before. For an
    encoder-decoder, `Attribution.written` has the scores of these tokens.

    Parameters
    ----------
    model
        A language model: the result of `heedful.load`, or anything that `heedful.load` accepts.
    text
        The prompt: a text or a list of chat messages.
    methods
        Names of methods. If `None`, the seven default methods (`heedful.core.defaults`). If "all", every
        method that the model supports, except expensive methods.
    unit
        What is removed and scored as one piece: "word", "token" or "sentence".
    seed
        Random seed.
    budget
        The largest number of model inputs per token. If `None`, there is no limit.
    continuation
        The continuation to explain, as text or token ids. If `None`, the model writes it by greedy decoding.
    max_new_tokens
        The largest number of tokens that the model writes.
    long
        What to do with a text that is too long: "error" or "truncate".
    params
        Parameters per method, such as `{"occlusion": {"operator": "delete"}}`.
    progress
        A function that is called with a `heedful.core.progress.Step` during the work.
    keep_partial
        After Ctrl-C, return the finished tokens with a warning. If False, raise KeyboardInterrupt.

    Returns
    -------
    list of Comparison
        One comparison per token.

    Examples
    --------
    >>> import heedful
    >>> tokens = heedful.explain_each("zoo:lm", "The king", methods=["grad-x-input"], max_new_tokens=2)
    >>> [comparison.target.label for comparison in tokens]
    [' of', ' the']
    """
    model = load(model)
    if model.kind not in GENERATORS or not isinstance(model, TokenModel):
        raise HeedfulError(f"{model.name} writes no text", f"it is a {model.kind}", "Use heedful.explain")
    x = model.encode(text, long)
    answer = _answer(model, x, continuation, max_new_tokens)
    shared, pieces = SharedGeneration(model, x, answer), steps(model, x, answer)
    wanted = methods if methods is None or isinstance(methods, str) else tuple(methods)
    common: dict[str, Any] = {"params": params, "progress": progress, "keep_partial": False}
    common["evidence"] = False  # of every token it would cost many times what the methods do
    comparisons: list[Comparison] = []
    try:
        for k, (piece, target) in enumerate(pieces):
            step = explain(StepModel(shared, k), piece, wanted, target, unit, seed, budget, **common)
            comparisons.append(replace(step, settings={**step.settings, "prompt_tokens": len(x)}))
    except KeyboardInterrupt:
        if not keep_partial or not comparisons or interrupted_twice():
            raise
        at = f"interrupted at token {len(comparisons) + 1} of {len(pieces)}"
        warnings.warn(f"{at}: those before it are in the result", stacklevel=2)
    return comparisons


def _answer(
    model: TokenModel, x: TextInput, continuation: str | Sequence[int] | None, most: int
) -> tuple[int, ...]:
    """Ids of the continuation; one that does not fit the window is refused."""
    if continuation is None:
        continuation = model.answer(x, most)
    if not isinstance(continuation, str | Sequence):
        raise HeedfulError(
            f"cannot read a continuation of type {type(continuation).__name__}", fix="Give text or token ids"
        )
    if not len(continuation):
        raise HeedfulError("there is no token to explain", "the continuation is empty")
    return model.target(x, {"sequence": continuation}).sequence


__all__ = ["explain_each"]
