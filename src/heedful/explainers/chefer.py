"""Gradient x attention relevance: attention weighted by the gradient, accumulated through the layers.

    Abar = mean_h (dA * A)^+                      dA = gradient of the target with respect to the weights A
    self-attention       R <- R + Abar R          R starts as I, last layer leftmost
    decoder self         R_aa <- R_aa + Abar R_aa,  R_at <- R_at + Abar R_at        a: answer, t: text
    cross-attention      R_at <- R_at + Rbar_aa^T Abar Rbar_tt,     Rbar = I + row-normalise(R - I)
    score                readout . (R - I), for encoder-decoders readout . R_at
    written before       readout . (R_aa - I)

Rows of R - I that are all zero stay zero in Rbar (0 / 0). The score leaves out the I that every position
starts with: it is the same for every target, and it would always rank the last token of a decoder first (the
authors' code overwrites this entry of [CLS], too). A pooling query has no I.

`layers` counts the last layers that are used; 0: all. A dual encoder (CLIP) has two stacks. Each has its own
R, and by default only the last layer of each is used, as in the authors' notebook. Both are gradients of the
one similarity, so their scores are not divided by their sums and can be compared.
Models with cross-attention in both directions (LXMERT): heedful.explainers.co_attention.

Cost: one forward and backward, shared with all methods that use the trace.
Needs: attentions (with gradients).

`felt` is Abar of one layer; `relevance` is the score of a whole trace, from a model or made by hand.

Chefer, Gur & Wolf, Generic Attention-model Explainability, ICCV 2021.
"""

from __future__ import annotations

import torch
from torch import Tensor

from heedful.core.attribution import Attribution
from heedful.core.registry import explainer
from heedful.core.trace import Trace
from heedful.engine.question import POSITION, Question
from heedful.explainers.attention_rollout import answer_of_trace, by_part, head_mean, written_columns

DUAL_LAYERS = 1  # of each of two encoders, as in the authors' notebook for CLIP


def felt(maps: Tensor, grads: Tensor) -> Tensor:
    """(H, Q, T) and its gradient -> (Q, T): mean over heads of the positive part of their product."""
    return head_mean((maps * grads).clamp_min_(0))  # in place: memory is what this costs


def normalised(gained: Tensor) -> Tensor:
    """R - I (N, N) -> I + row-normalise(R - I); rows that gained nothing stay those of I."""
    eye = torch.eye(len(gained), dtype=gained.dtype, device=gained.device)
    sums = gained.sum(-1, keepdim=True)
    return eye + torch.where(sums > 0, gained / sums.clamp_min(torch.finfo(gained.dtype).tiny), 0.0)


def _stack(maps: tuple[Tensor, ...], grads: tuple[Tensor, ...], last: int = 0) -> Tensor:
    """(Q, N) R - I after a stack of self-attention layers, each as wide as its maps; `last`: of so many."""
    gained = torch.zeros(maps[0].shape[-1], maps[0].shape[-1], dtype=torch.float64, device=maps[0].device)
    for layer, grad in zip(maps[-last:], grads[-last:], strict=True):
        bar = felt(layer, grad)
        step = bar + bar @ gained  # Abar R, with R = I + gained
        gained = gained + step if bar.shape[0] == bar.shape[1] else step
    return gained


def relevance(trace: Trace, last: int = 0) -> Tensor:
    """(N,) relevance of each token that the answer was read from."""
    return relevances(trace, last)[0]


def relevances(trace: Trace, last: int = 0) -> tuple[Tensor, Tensor]:
    """(N,) of the text and (W,) of what was written, from the `last` layers of the encoder (0: all)."""
    readout = torch.tensor(trace.readout, dtype=torch.float64, device=trace.embeds.device)  # (Q,)
    text = _stack(trace.attentions, trace.grad_attentions, last)
    if not trace.cross:
        every = readout @ text
        return every[: trace.x.positions.atoms], every[written_columns(trace)]
    answer, length = trace.cross[0].shape[-2:]
    own_gain, r_at = text.new_zeros(answer, answer), text.new_zeros(answer, length)  # R_aa - I, R_at
    own = zip(trace.decoder_attentions, trace.grad_decoder_attentions, strict=True)
    cross = zip(trace.cross, trace.grad_cross, strict=True)
    for self_pair, cross_pair in zip(own, cross, strict=True):
        bar = felt(*self_pair)
        own_gain, r_at = own_gain + bar + bar @ own_gain, r_at + bar @ r_at
        r_at = r_at + normalised(own_gain).T @ felt(*cross_pair) @ normalised(text)
    return readout @ r_at, (readout @ own_gain)[written_columns(trace)]


@explainer(
    "chefer",
    needs={"attentions", "gradients"},
    cite="Chefer, Gur & Wolf 2021 (ICCV)",
    signed=False,
    properties=("symmetric",),
)
def chefer(q: Question, *, layers: int | None = None) -> Attribution:
    """Positive part of attention times the target's gradient, accumulated through the layers.

    Limitations: Negative contributions are dropped, so what speaks against the target looks unimportant.
    Saturated attention has no gradient and gets no relevance. Of a dual encoder, only the last layer of each
    encoder is used by default.
    """
    trace = q.trace()
    if trace.parts:
        last = DUAL_LAYERS if layers is None else layers
        scores = by_part(trace, lambda part: relevance(part, last))
        return q.answer(scores.numpy(), over=POSITION, output=trace.output, notes=trace.notes)
    scores, written = relevances(trace, layers or 0)
    return answer_of_trace(q, trace, scores, written)
