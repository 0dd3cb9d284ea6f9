"""A traced pass as a `Trace`: batch dimension off, graph off, gradients matched with what they belong to."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from heedful.core.input import Input
from heedful.core.target import Target
from heedful.core.trace import Trace
from heedful.models.backend import AttentionOutput, TraceOutput

MAPS = ("attentions", "cross", "decoder_attentions")


def gradients(score: Tensor, out: TraceOutput, *, again: bool = False) -> TraceOutput:
    """Gradients of `score`, each where its tensor stands in `out`; `again` keeps the graph for another."""
    maps = [a for name in MAPS for a in getattr(out, name)]
    hidden = [] if out.last_hidden is None else [out.last_hidden]
    answer = [] if out.answer_embeds is None else [out.answer_embeds]
    wrt = [out.embeds, *answer, *hidden, *maps]
    values = torch.autograd.grad(score, wrt, allow_unused=True, retain_graph=again)
    filled = iter([torch.zeros_like(w) if g is None else g for w, g in zip(wrt, values, strict=True)])
    return replace(
        out,
        embeds=next(filled),
        answer_embeds=next(filled) if answer else None,
        last_hidden=next(filled) if hidden else None,
        attentions=tuple(next(filled) for _ in out.attentions),
        cross=tuple(next(filled) for _ in out.cross),
        decoder_attentions=tuple(next(filled) for _ in out.decoder_attentions),
    )


def until(out: TraceOutput, tokens: int, written: int) -> TraceOutput:
    """The pass as it was over fewer tokens: of the text, and of those an encoder-decoder wrote."""
    hidden = None if out.last_hidden is None else out.last_hidden[:, : written if out.cross else tokens]
    return replace(
        out,
        embeds=out.embeds[:, :tokens],
        answer_embeds=None if out.answer_embeds is None else out.answer_embeds[:, :written],
        last_hidden=hidden,
        attentions=tuple(a[..., :tokens, :tokens] for a in out.attentions),
        cross=tuple(a[..., :written, :tokens] for a in out.cross),
        decoder_attentions=tuple(a[..., :written, :written] for a in out.decoder_attentions),
    )


def as_trace(
    x: Input,
    target: Target,
    score: Tensor,
    out: TraceOutput,
    grads: TraceOutput,
    hidden: bool = False,
    written: Input | None = None,
) -> Trace:
    """Batch dimension off, graph off. `written` is what the target says was written, as a text."""
    length = min(len(x), out.embeds.shape[1])  # the tokens of the text, without an appended continuation
    maps: dict[str, Any] = {name: tuple(map(_plain, getattr(out, name))) for name in MAPS}
    grad_maps: dict[str, Any] = {f"grad_{name}": tuple(map(_plain, getattr(grads, name))) for name in MAPS}
    return Trace(
        x=x,
        target=target,
        output=score.item(),
        embeds=_padded(out.embeds[0].detach()[:length], len(x)),
        grad_embeds=_padded(grads.embeds[0].detach()[:length], len(x)),
        readout=_readout(grads),
        hidden=tuple(h[0].detach() for h in out.hidden) if hidden else (),
        notes=out.notes,
        written=written,
        written_embeds=_behind(out, len(x), written),
        grad_written=_behind(grads, len(x), written),
        **maps,
        **grad_maps,
    )


def _behind(out: TraceOutput, length: int, written: Input | None) -> Tensor | None:
    """(W, d): the part of what was written, behind a decoder's start token or a causal model's text."""
    if written is None or (out.cross and out.answer_embeds is None):
        return None
    side, begin = (out.embeds, length) if out.answer_embeds is None else (out.answer_embeds, 1)
    return side[0, begin : begin + len(written)].detach()


def alone(found: AttentionOutput) -> AttentionOutput:
    """Batch dimension off: (H, Q, T) a layer."""
    maps: dict[str, Any] = {name: tuple(map(_plain, getattr(found, name))) for name in MAPS}
    return replace(found, **maps)


def _readout(grads: TraceOutput) -> tuple[float, ...]:
    """Share of the answer read at each query position."""
    if grads.last_hidden is not None:
        weight = grads.last_hidden[0].norm(dim=-1)  # (Q,)
    elif grads.attentions:  # no hidden states to look at: the rows of the last map that the target feels
        weight = _plain(grads.attentions[-1]).abs().sum((0, 2))
    else:
        return ()
    return tuple((weight / weight.sum().clamp_min(1e-30)).tolist())


def _plain(attention: Tensor) -> Tensor:
    """(H, Q, T): without batch and graph; a single-query map (H, T) gets its Q = 1."""
    alone = attention[0].detach()
    return alone[:, None] if alone.ndim == 2 else alone


def _padded(rows: Tensor, length: int) -> Tensor:
    """Tokens after the target's position had no part in it: zero rows."""
    return (
        rows if len(rows) == length else torch.cat([rows, rows.new_zeros(length - len(rows), rows.shape[1])])
    )
