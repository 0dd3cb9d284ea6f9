"""Gradients of the target with respect to the token embeddings e_t in R^d. With g_t = d f / d e_t:

    grad-avg      mean_i g_ti            grad-l1   sum_i |g_ti|
    grad-x-input  sum_i g_ti e_ti        grad-l2   sqrt(sum_i g_ti^2)

True norms, without the 1/d of some lecture notes. Cost: one forward and backward, shared by all of them.
Needs: gradients.

Simonyan et al. 2014 (gradients); Shrikumar et al. 2016 (gradient x input); Denil et al. 2014 (text).
"""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from heedful.models.base import Model
from heedful.registry import explainer
from heedful.types import Attribution, Encoded, Target, Trace


def _attribution(trace: Trace, scores: Tensor) -> Attribution:
    """(T,) scores of a trace."""
    return Attribution(
        trace.x, trace.target, scores.double().cpu().numpy(), output=trace.output, notes=trace.notes
    )


@explainer(
    "grad-avg",
    needs={"gradients"},
    cite="Simonyan et al. 2014",
    promises=("gradient-mean", "unused", "symmetric"),
)
def grad_avg(model: Model, x: Encoded, target: Target) -> Attribution:
    """Mean of the gradient's coordinates: signed, but coordinates of opposite sign cancel.

    When it lies: Coordinates of opposite sign cancel: a word that matters much may score zero. The mean over
    coordinates has no meaning that survives a rotation of the embeddings.
    """
    trace = model.trace(x, target)
    found = _attribution(trace, trace.grad_embeds.double().mean(-1))
    size = float(trace.grad_embeds.double().abs().mean(-1).max())
    if (
        size and abs(found.scores).max() < 1e-5 * size
    ):  # sums of float32 gradients round at 1e-7 of their size
        note = "zero but for rounding: a LayerNorm right after the embeddings makes every mean gradient zero"
        return replace(found, scores=0 * found.scores, notes=(*found.notes, note))
    return found


@explainer(
    "grad-l1",
    needs={"gradients"},
    cite="Simonyan et al. 2014",
    signed=False,
    promises=("gradient-l1", "unused", "symmetric"),
)
def grad_l1(model: Model, x: Encoded, target: Target) -> Attribution:
    """L1 norm of the gradient: how strongly the output reacts to this token, in no direction.

    When it lies: It says that the output reacts, not how or in which direction; rare tokens with unusual
    embeddings score high. Where the model is saturated the gradient vanishes for the words that decided.
    """
    trace = model.trace(x, target)
    return _attribution(trace, trace.grad_embeds.double().norm(p=1, dim=-1))


@explainer(
    "grad-l2",
    needs={"gradients"},
    cite="Simonyan et al. 2014",
    signed=False,
    promises=("gradient-l2", "unused", "symmetric"),
)
def grad_l2(model: Model, x: Encoded, target: Target) -> Attribution:
    """L2 norm of the gradient: how strongly the output reacts to this token, in no direction.

    When it lies: It says that the output reacts, not how or in which direction; rare tokens with unusual
    embeddings score high. Where the model is saturated the gradient vanishes for the words that decided.
    """
    trace = model.trace(x, target)
    return _attribution(trace, trace.grad_embeds.double().norm(p=2, dim=-1))


@explainer(
    "grad-x-input",
    needs={"gradients"},
    cite="Shrikumar et al. 2016",
    promises=("linear", "gradient-x-input", "unused", "symmetric"),
)
def grad_x_input(model: Model, x: Encoded, target: Target) -> Attribution:
    """Gradient times embedding: the first-order effect of scaling this token's embedding to zero.

    When it lies: It is a straight line drawn at one point: words that work only together, and saturated
    outputs, are misjudged. An embedding of zero is no neutral word.
    """
    trace = model.trace(x, target)
    return _attribution(trace, (trace.grad_embeds.double() * trace.embeds.double()).sum(-1))
