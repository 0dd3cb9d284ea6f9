"""Conventions as executable checks, for our explainers and for yours:

    from heedful.checks import check_explainer
    check_explainer("my-method", heedful.load("zoo:sentiment"))

Each check is a function that raises AssertionError with a sentence. What holds for every explainer is checked
on the model given; what a method *promises* (see `registry.explainer`) is checked on a linear model whose
answer is known: f(text) = sum of one weight a word.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from torch import Tensor, nn

from heedful import registry
from heedful.errors import HeedfulError
from heedful.models import load
from heedful.models.base import Model, missing
from heedful.models.hf_config import fingerprint
from heedful.registry import Explainer
from heedful.run import Run
from heedful.types import Attribution

TEXTS = ("the cat sat on the mat", "cat", "caf\u00e9 👩‍👩‍👧 שלום 你好 e\u0301")
WEIGHTS = {"the": 0.0, "cat": 2.0, "sat": -1.0, "on": 0.5, "mat": 3.0}


def check_explainer(name: str, model: Model | None = None) -> None:
    """Every check that applies to a registered explainer; the first that fails raises."""
    entry = registry.get(name)
    bag = linear_model()
    chosen = bag if model is None else model
    if why := missing(chosen, entry.needs):
        raise HeedfulError(f"{name} cannot be checked on {chosen.name}", why, "Give a model it supports")
    for check in EVERY:
        check(entry, chosen)
    for promise in sorted(entry.promises):
        if promise == "complete":
            check_complete(entry, chosen)
        elif not missing(bag, entry.needs):
            PROMISES[promise](entry, bag)


def explained(entry: Explainer, model: Model, text: str = TEXTS[0], **params: Any) -> Attribution:
    x = model.encode(text)
    known = {"seed": 0, **({"samples": 256} if entry.dear else {}), **params}
    return entry(model, x, model.target(x), **{k: v for k, v in known.items() if k in entry.params})


# --- what every explainer holds ------------------------------------------------------------------------


def check_scores(entry: Explainer, model: Model) -> None:
    """One finite float64 a token; errors, where there are any, too and not negative."""
    for text in TEXTS:
        try:
            found = explained(entry, model, text)
        except HeedfulError:
            if text == TEXTS[0]:
                raise
            continue  # an odd text may be refused, in a sentence
        assert found.method == entry.name, f"{entry.name} calls itself {found.method}"
        assert found.scores.dtype == np.float64, f"{entry.name} scores in {found.scores.dtype}"
        assert np.isfinite(found.scores).all(), f"{entry.name} gives scores that are not finite for {text!r}"
        assert entry.signed or (found.scores >= 0).all(), f"{entry.name} is unsigned but has negative scores"
        if found.stderr is not None:
            assert found.stderr.shape == found.scores.shape, f"{entry.name} has {found.stderr.shape} errors"
            assert (found.stderr >= 0).all(), f"{entry.name} has negative or missing standard errors"


def check_deterministic(entry: Explainer, model: Model) -> None:
    """The same seed gives the same scores, and nothing is drawn from global random state."""
    torch.manual_seed(1)
    first = explained(entry, model).scores
    torch.manual_seed(2)
    again = explained(entry, model).scores
    np.testing.assert_array_equal(first, again, f"{entry.name} differs from itself under one seed")


def check_model_untouched(entry: Explainer, model: Model) -> None:
    """Weights, modes and gradients are as they were."""
    module = model.module
    if module is None:  # a function
        return
    before = fingerprint(module), [part.training for part in module.modules()]
    grads = [parameter.grad for parameter in module.parameters()]
    explained(entry, model)
    assert before == (fingerprint(module), [part.training for part in module.modules()]), (
        f"{entry.name} left traces"
    )
    same = all(a is b for a, b in zip(grads, [p.grad for p in module.parameters()], strict=True))
    assert same, f"{entry.name} left gradients behind"


def check_remembered(entry: Explainer, model: Model) -> None:
    """Through a run that remembers traces and rows: the same scores again, and the same as alone."""
    x = model.encode(TEXTS[0])
    target = model.target(x)
    seed = {"seed": 0} if "seed" in entry.params else {}
    shared = Run(model)
    first, again = (entry(shared, x, target, **seed).scores for _ in range(2))  # type: ignore[arg-type]
    np.testing.assert_allclose(first, again, rtol=1e-9, atol=1e-12, err_msg=f"{entry.name} reads stale rows")
    if not entry.dear:  # those take decisions at thresholds, which rounding in another batch can tip
        alone = explained(entry, model).scores
        np.testing.assert_allclose(first, alone, rtol=1e-3, atol=1e-5, err_msg=f"{entry.name} differs alone")


# --- what some promise -----------------------------------------------------------------------------------


def check_linear(entry: Explainer, bag: Model) -> None:
    """On a sum of word weights every word's score is its weight."""
    wanted = [WEIGHTS[word] for word in TEXTS[0].split()]
    found = explained(entry, bag, operator="delete", baseline="zero")
    scores = [word.score for word in found.words()]
    np.testing.assert_allclose(scores, wanted, atol=2e-3, err_msg=f"{entry.name} misses a linear model")
    equal = [score for word, score in zip(TEXTS[0].split(), scores, strict=True) if word == "the"]
    assert abs(equal[0] - equal[1]) < 1e-3, f"{entry.name} tells equal words apart"
    assert abs(equal[0]) < 2e-3, f"{entry.name} credits a word the model ignores"


def check_complete(entry: Explainer, model: Model) -> None:
    """Scores sum to f(text) - f(base)."""
    found = explained(entry, model)
    assert found.base is not None, f"{entry.name} promises completeness but names no base"
    rise = found.output - found.base
    gap = abs(float(found.scores.sum()) - rise)
    assert gap <= 2e-3 * abs(rise) + 1e-5, (
        f"{entry.name}: scores sum to {found.scores.sum():.4g}, not {rise:.4g}"
    )


EVERY: tuple[Callable[[Explainer, Model], None], ...] = (
    check_scores,
    check_deterministic,
    check_model_untouched,
    check_remembered,
)
PROMISES: dict[str, Callable[[Explainer, Model], None]] = {"linear": check_linear}


class Bag(nn.Module):
    """f(text) = sum of the first coordinate of its embeddings: (f, -f) as two logits."""

    def __init__(self, weights: list[float]) -> None:
        super().__init__()
        self.table = nn.Embedding(len(weights), 2)
        with torch.no_grad():
            self.table.weight.copy_(torch.tensor([[weight, 0.0] for weight in weights]))

    def embed(self, ids: Tensor) -> Tensor:
        return self.table(ids)  # type: ignore[no-any-return]

    def forward(self, inputs_embeds: Tensor, attention_mask: Tensor) -> Tensor:
        total = (inputs_embeds[..., 0] * attention_mask).sum(-1)
        return torch.stack([total, -total], -1)


def linear_model() -> Model:
    """The bag of weighted words behind heedful's door; unknown words weigh nothing."""
    from transformers import PreTrainedTokenizerFast

    words = ["[PAD]", "[UNK]", *WEIGHTS]
    raw = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    raw.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=raw, pad_token="[PAD]", unk_token="[UNK]", model_max_length=64
    )
    return load(Bag([0.0, 0.0, *WEIGHTS.values()]), tokenizer=tokenizer, labels=("up", "down"))
