"""A traced pass as a `Trace`: batch dimension off, graph off, gradients matched with what they belong to."""

from __future__ import annotations

import torch
from torch import Tensor

from heedful.models.base import Output
from heedful.types import Encoded, Target, Trace


def as_trace(
    x: Encoded, target: Target, score: Tensor, out: Output, grads: list[Tensor], hidden: bool
) -> Trace:
    """Batch dimension off, graph off, gradients matched with what they belong to."""
    embeds_grad, hidden_grad, *maps = [grad[0].detach() for grad in grads]
    rest = [_with_queries(grad) for grad in maps]
    counts = (len(out.attentions), len(out.cross), len(out.decoder_attentions))
    first, second = counts[0], counts[0] + counts[1]
    length = min(len(x), len(embeds_grad))  # the tokens of the text, without an appended continuation
    if out.last_hidden is not None:
        weight = hidden_grad.norm(dim=-1)  # (Q,)
    else:  # no hidden states to look at: the rows of the last attention map that the target feels
        weight = rest[first - 1].abs().sum((0, 2)) if first else hidden_grad.new_zeros(0)
    return Trace(
        x=x,
        target=target,
        output=score.item(),
        embeds=_padded(out.embeds[0].detach()[:length], len(x)),
        grad_embeds=_padded(embeds_grad[:length], len(x)),
        attentions=tuple(_with_queries(a[0].detach()) for a in out.attentions),
        grad_attentions=tuple(rest[:first]),
        readout=tuple((weight / weight.sum().clamp_min(1e-30)).tolist()),
        hidden=tuple(h[0].detach() for h in out.hidden) if hidden else (),
        cross=tuple(a[0].detach() for a in out.cross),
        grad_cross=tuple(rest[first:second]),
        decoder_attentions=tuple(a[0].detach() for a in out.decoder_attentions),
        grad_decoder_attentions=tuple(rest[second:]),
        notes=out.notes,
    )


def _with_queries(attention: Tensor) -> Tensor:
    """A single-query map (H, T) gets its Q = 1."""
    return attention[:, None] if attention.ndim == 2 else attention


def _padded(rows: Tensor, length: int) -> Tensor:
    """Tokens after the target's position had no part in it: zero rows."""
    return (
        rows if len(rows) == length else torch.cat([rows, rows.new_zeros(length - len(rows), rows.shape[1])])
    )
