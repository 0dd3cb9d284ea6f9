"""Gradient x relevance: relevance of attention weights (layer-wise relevance propagation) times the gradient.

    cam^l = mean_h (dA_h^l * R^{A_h^l})^+      dA: the target's gradient
                                               R^A: relevance (heedful.models.relevance_rules)
    C = (I + cam^N) ... (I + cam^1)            last layer leftmost, rows not normalised
    score = readout . (C - I)                  the I that every position starts with is left out

The authors' code overwrites the [CLS] entry; C - I keeps the relevance that really arrived there. Published
variants that start at the last layer or normalise rows use other formulas. The rules divide relevance by the
output Z of an operation, so rounding errors are large where Z is near zero. On MiniLM, float32 scores
differed from float64 scores by at most 4 % of the largest score.

Cost: the trace, and one forward and backward with the rules. Needs: attentions, and relevance: a classifier
that is built from operations with rules (linear, LayerNorm, GELU, ReLU, tanh, softmax, matmul, add), such as
BERT, RoBERTa and DistilBERT. For other models the method is skipped.

Chefer, Gur & Wolf, Transformer Interpretability Beyond Attention Visualization, CVPR 2021.
"""

from __future__ import annotations

from functools import reduce

import torch
from torch import Tensor

from heedful.core.attribution import Attribution
from heedful.core.registry import explainer
from heedful.engine.question import Question
from heedful.explainers.attention_rollout import answer_of_trace


def cam(grad: Tensor, relevance: Tensor) -> Tensor:
    """(H, T, T) twice -> (T, T): mean over heads of the positive part of their product."""
    return (grad.double() * relevance.double()).clamp_min(0).mean(0)


def rolled(cams: list[Tensor]) -> Tensor:
    """(T, T): (I + cam^N) ... (I + cam^1) - I."""
    # without I, beside which small cams would lose their digits: (I + cam)(I + C) - I = cam + C + cam C
    return reduce(lambda below, layer: layer + below + layer @ below, cams)


@explainer(
    "chefer-lrp",
    needs={"attentions", "relevance"},
    cite="Chefer, Gur & Wolf 2021 (CVPR)",
    signed=False,
    properties=("symmetric",),
    rows=lambda x, target, p: 2,
)
def chefer_lrp(q: Question) -> Attribution:
    """Positive part of attention relevance times its gradient, multiplied through the layers.

    Limitations: The rules conserve relevance by construction, whether or not the model works that way.
    Only the positive part is kept. The relevance that goes to biases and norms is lost.
    """
    trace = q.trace()
    with q.spend(1):
        relevances = q.model.relevances(q.x, q.target)  # (H, T, T) per layer
    cams = [cam(grad, relevance) for grad, relevance in zip(trace.grad_attentions, relevances, strict=True)]
    readout = torch.tensor(trace.readout, dtype=torch.float64, device=cams[0].device)
    return answer_of_trace(q, trace, readout @ rolled(cams))
