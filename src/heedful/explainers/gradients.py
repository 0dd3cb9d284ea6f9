"""Gradients of the target with respect to the token embeddings e_t in R^d. With g_t = d f / d e_t:

    grad-avg      mean_i g_ti            grad-l1   sum_i |g_ti|
    grad-x-input  sum_i g_ti e_ti        grad-l2   sqrt(sum_i g_ti^2)

These are true norms, without the 1/d of some lecture notes. Tokens that were written before are scored in the
same way, at the embeddings through which the model reads them (a decoder has its own embeddings).
Cost: one forward and backward, shared by all four methods.
Needs: gradients.

Simonyan et al. 2014 (gradients); Shrikumar et al. 2016 (gradient x input); Denil et al. 2014 (text).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from heedful.core.arrays import Floats
from heedful.core.attribution import Attribution
from heedful.core.registry import explainer
from heedful.core.trace import Trace
from heedful.engine.question import Question


def _answer(q: Question, trace: Trace, reduce: Callable[[Tensor, Tensor], Tensor]) -> Attribution:
    """Scores of the trace; `reduce` makes (T,) of gradients and embeddings (T, d) in float64."""
    scores = q.by_atom(reduce, trace.grad_embeds.double(), trace.embeds.double())
    if trace.grad_written is not None and trace.written_embeds is not None:
        behind = reduce(trace.grad_written.double(), trace.written_embeds.double())
        scores = torch.cat([scores, behind])
    return q.answer(scores.cpu().numpy(), over=q.x.atom, output=trace.output, notes=trace.notes)


@explainer(
    "grad-avg",
    needs={"gradients"},
    cite="Simonyan et al. 2014",
    properties=("gradient-mean", "unused", "symmetric"),
)
def grad_avg(q: Question) -> Attribution:
    """Mean of the gradient over the embedding dimensions; it has a sign, but opposite signs cancel.

    Limitations: Dimensions of opposite sign cancel, so an important word may score zero. The mean changes
    if the embeddings are rotated, although the output of the model does not.
    """
    trace = q.trace()
    attribution = _answer(q, trace, lambda grads, _: grads.mean(-1))
    note = "zero but for rounding: a LayerNorm right after the embeddings makes every mean gradient zero"
    if attribution.written is not None and _only_rounding(trace.grad_written, attribution.written.scores):
        attribution = replace(
            attribution, written=replace(attribution.written, scores=0 * attribution.written.scores)
        )
    if _only_rounding(trace.grad_embeds, attribution.scores):
        return replace(attribution, scores=0 * attribution.scores, notes=(*attribution.notes, note))
    return attribution


def _only_rounding(grads: Tensor | None, means: Floats) -> bool:
    """Sums of float32 gradients round at 1e-7 of their size."""
    size = 0.0 if grads is None else float(grads.double().abs().mean(-1).max())
    return bool(size and abs(means).max() < 1e-5 * size)


@explainer(
    "grad-l1",
    needs={"gradients"},
    cite="Simonyan et al. 2014",
    signed=False,
    properties=("gradient-l1", "unused", "symmetric"),
)
def grad_l1(q: Question) -> Attribution:
    """L1 norm of the gradient: how strongly the output reacts to each part of the input, without a direction.

    Limitations: It says how strongly the output reacts, but not in which direction. Rare tokens with unusual
    embeddings score high. In a saturated model, the gradient is near zero even for the most important words.
    """
    return _answer(q, q.trace(), lambda grads, _: grads.norm(p=1, dim=-1))


@explainer(
    "grad-l2",
    needs={"gradients"},
    cite="Simonyan et al. 2014",
    signed=False,
    properties=("gradient-l2", "unused", "symmetric"),
)
def grad_l2(q: Question) -> Attribution:
    """L2 norm of the gradient: how strongly the output reacts to each part of the input, without a direction.

    Limitations: It says how strongly the output reacts, but not in which direction. Rare tokens with unusual
    embeddings score high. In a saturated model, the gradient is near zero even for the most important words.
    """
    return _answer(q, q.trace(), lambda grads, _: grads.norm(p=2, dim=-1))


@explainer(
    "grad-x-input",
    needs={"gradients"},
    cite="Shrikumar et al. 2016",
    properties=("linear", "gradient-x-input", "unused", "symmetric"),
)
def grad_x_input(q: Question) -> Attribution:
    """Gradient times input (for text, embedding): the first-order effect of scaling this part of it to zero.

    Limitations: It is a linear approximation at one point. It is wrong for words that act only together
    and for saturated outputs. A zero embedding is not a neutral word.
    """
    return _answer(q, q.trace(), lambda grads, embeds: (grads * embeds).sum(-1))
