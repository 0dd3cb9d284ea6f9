"""What a method may promise beyond the conventions, on models whose right answer is known or on any.

    linear            f = sum of word weights: every word's score is its weight
    complete          scores sum to f(text) - f(base)
    unused            a token that cannot reach the output, whatever stands there, scores zero
    symmetric         equal tokens that the model cannot tell apart score alike
    gradient-mean     the score is the mean of the gradient's coordinates; likewise gradient-l1, gradient-l2
                      (norms) and gradient-x-input (product with the embedding): held to finite differences

LIME does not promise "unused": the line nearest to f over masks of random size leans on unused words, too.
Attention weights do not: a model may look where it does not listen.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from heedful.checks.conventions import answered, explained, precision, question
from heedful.checks.known_models import (
    DEAF,
    TEXT,
    TWIN,
    WEIGHTS,
    linear_model,
    reader_model,
    stack_model,
    textbook_model,
)
from heedful.core.attribution import Attribution
from heedful.core.model import Model
from heedful.core.registry import Explainer

# what the scores are of the gradient g (T, d) at the embeddings e (T, d)
READINGS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "gradient-mean": lambda g, e: g.mean(-1),
    "gradient-l1": lambda g, e: g.abs().sum(-1),
    "gradient-l2": lambda g, e: g.norm(dim=-1),
    "gradient-x-input": lambda g, e: (g * e).sum(-1),
}
# the direction (T, d) in which the slope of f at each token is that score
DIRECTIONS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "gradient-mean": lambda g, e: torch.full_like(g, 1 / g.shape[-1]),
    "gradient-l1": lambda g, e: g.sign(),
    "gradient-l2": lambda g, e: torch.nn.functional.normalize(g, dim=-1),
    "gradient-x-input": lambda g, e: e,
}
EXACT = 1e-9  # float64 models of a few hundred operations round at 1e-14; sums over rows lose some digits


def check_linear(entry: Explainer, bag: Model | None = None) -> None:
    """On a sum of word weights every word's score is its weight."""
    bag = _able(entry, bag or linear_model())
    wanted = [WEIGHTS[word] for word in TEXT.split()]
    attribution = explained(entry, bag, operator="delete", baseline="zero")
    scores = [word.score for word in attribution.words()]
    np.testing.assert_allclose(
        scores, wanted, rtol=0, atol=EXACT, err_msg=f"{entry.name} misses a linear model"
    )


def check_unused(entry: Explainer) -> None:
    """The word at the position the model is deaf to scores zero; other words do not."""
    model = _able(entry, reader_model(), textbook_model())
    scores = _words(explained(entry, model))
    largest = max(map(abs, scores))
    assert largest > 0, f"{entry.name} scores every word zero on {model.name}"
    assert abs(scores[DEAF]) <= EXACT * largest, f"{entry.name} credits a word that {model.name} never reads"


def check_symmetric(entry: Explainer) -> None:
    """The same word twice, to models without positions: the same score, but for sampling error."""
    places = [i for i, word in enumerate(TEXT.split()) if word == TWIN]
    able = [m for m in (reader_model(), stack_model()) if not m.lacks(entry.needs)]
    for model in able or [_able(entry, textbook_model())]:
        attribution = explained(entry, model)
        scores = _words(attribution)
        noise = 0.0 if attribution.stderr is None else 5 * float(attribution.stderr.max())
        gap = abs(scores[places[0]] - scores[places[1]])
        largest = max(map(abs, scores))
        assert gap <= EXACT * largest + noise, f"{entry.name} tells equal words of {model.name} apart"


def _words(found: Attribution) -> list[float]:
    return [word.score for word in found.words()]


def _able(entry: Explainer, *models: Model) -> Model:
    """The first of the models that has what the method needs."""
    for model in models:
        if not model.lacks(entry.needs):
            return model
    raise AssertionError(
        f"{entry.name} makes a promise that no model of heedful.checks.known_models can test"
    )


def check_complete(entry: Explainer, model: Model) -> None:
    """Scores sum to f(text) - f(base)."""
    attribution = explained(entry, model, most=128)
    assert attribution.base is not None, f"{entry.name} promises completeness but names no base"
    rise = attribution.output - attribution.base
    gap = abs(attribution.total - rise)
    # integrated gradients stop at 1e-3 of the rise, or say that they did not get there (kinks of ReLU, or a
    # LayerNorm that bends sharply on the way); their error is then of the size of the scores, which may
    # cancel in the sum: 6e-3 of them was seen. Sums round at the size of the outputs.
    unsure = any("not converged" in note for note in attribution.notes)
    allowed = 3e-2 * float(np.abs(attribution.scores).sum()) if unsure else 1e-3 * abs(rise)
    allowed += 100 * precision(model) * (abs(attribution.output) + abs(attribution.base))
    assert gap <= allowed, f"{entry.name}: scores sum to {attribution.total:.6g}, not {rise:.6g}"


def check_differences(entry: Explainer, property_name: str) -> None:
    """Every partial derivative by central differences in float64, read as promised, gives the scores."""
    model = _able(entry, reader_model(), textbook_model())
    x, target = question(model)
    embeds = model.lookup(x, target)
    basis = torch.eye(embeds.numel(), dtype=embeds.dtype).reshape(-1, *embeds.shape)
    grad = _slopes(model, x, target, basis, 1e-5).reshape(embeds.shape)
    wanted = READINGS[property_name](grad, embeds).numpy()
    result = answered(entry, model, x, target).scores
    # step 1e-5: f''' h^2 and rounding / h are both near 1e-10
    np.testing.assert_allclose(
        result,
        wanted,
        rtol=0,
        atol=1e-7 * np.abs(wanted).max(),
        err_msg=f"{entry.name} is not the {property_name} of finite differences",
    )


def check_slopes(entry: Explainer, model: Model, property_name: str) -> None:
    """On any model: the slope along each token's direction is its score. The directions of the norms are
    those of the model's own gradient, so this alone would not see a gradient that lacks a part."""
    x, target = question(model)
    embeds = model.lookup(x, target)
    _, (grad,) = model.gradients(x, target, embeds[None])
    along = DIRECTIONS[property_name](grad, embeds)
    each = torch.eye(len(x), dtype=along.dtype)[:, :, None] * along  # (T, T, d): one token moves
    longest = float(along.norm(dim=-1).max()) or 1.0
    step = 0.01 * float(embeds.norm(dim=-1).mean()) / longest
    wanted = _slopes(model, x, target, each, step, fourth_order=True).numpy()
    result = answered(entry, model, x, target).scores
    # of |g| |direction|: smooth float32 models stay under 6e-5 at this step; one with ReLU has kinks on the
    # way, and the tiny T5 of the tests comes to 2e-2
    share = 3e-2 if "relu" in model.capabilities else 3e-4
    np.testing.assert_allclose(
        result,
        wanted,
        rtol=0,
        atol=share * float((grad.norm(dim=-1) * along.norm(dim=-1)).max()),
        err_msg=f"{entry.name} is not the slope of {model.name} ({property_name})",
    )


def _slopes(
    model: Model, x: Any, target: Any, along: Tensor, step: float, fourth_order: bool = False
) -> Tensor:
    """(n,) slopes of the target at the text along n directions (n, T, d), by central differences."""
    embeds = model.lookup(x, target)

    def central(h: float) -> Tensor:
        values, _ = model.gradients(x, target, torch.cat([embeds + h * along, embeds - h * along]))
        ahead, behind = values.chunk(2)
        return (ahead - behind) / (2 * h)

    return (4 * central(step) - central(2 * step)) / 3 if fourth_order else central(step)
