"""Two continuations of one text, read as two rows, put together as one tree: the text, the first, the second.

    text       a b c                      A  a b c p q
    tree       a b c p q r       from     B  a b c r

Each continuation looks at the text and at itself, never at the other, so rows of attention still sum to one
and every method that reads a trace reads this one. What belongs to the text is the same in both rows;
gradients, which are of the difference A - B, add up there. It is what one pass over the tree would give.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from heedful.models.backend import TraceOutput


def joined(out: TraceOutput, shared: int, lengths: Sequence[int], *, summed: bool) -> TraceOutput:
    """A pass over two rows as a pass over one tree.

    `shared` positions begin both rows, whose lengths without padding are `lengths`: of the decoder, in an
    encoder-decoder, whose encoder reads the same text twice. `summed` is for gradients.
    """

    def same(both: Tensor) -> Tensor:  # (2, ...) -> (1, ...)
        return both.sum(0, keepdim=True) if summed else both[:1]

    def line(both: Tensor) -> Tensor:  # (2, N, ...) -> (1, M, ...)
        first, second = (both[i, : lengths[i]] for i in range(2))
        whole = torch.cat([first, second[shared:]])
        if summed:
            whole[:shared] += second[:shared]
        return whole[None]

    def square(both: Tensor) -> Tensor:  # (2, H, N, N) -> (1, H, M, M)
        first, second = (both[i, :, : lengths[i], : lengths[i]] for i in range(2))
        return tree(first, second, shared, summed=summed)[None]

    two_stacks = bool(out.cross)
    return replace(
        out,
        embeds=same(out.embeds) if two_stacks else line(out.embeds),
        answer_embeds=None if out.answer_embeds is None else line(out.answer_embeds),
        last_hidden=None if out.last_hidden is None else line(out.last_hidden),
        hidden=tuple(map(same if two_stacks else line, out.hidden)),
        attentions=tuple(map(same if two_stacks else square, out.attentions)),
        cross=tuple(line(both.transpose(1, 2)).transpose(1, 2) for both in out.cross),
        decoder_attentions=tuple(map(square, out.decoder_attentions)),
    )


def tree(first: Tensor, second: Tensor, shared: int, *, summed: bool = False) -> Tensor:
    """Maps (..., N, N) and (..., M, M) of two rows that share a beginning as one, zero between their ends."""
    size, more = first.shape[-1], second.shape[-1] - shared
    whole = first.new_zeros(*first.shape[:-2], size + more, size + more)
    whole[..., :size, :size] = first
    whole[..., size:, :shared] = second[..., shared:, :shared]
    whole[..., size:, size:] = second[..., shared:, shared:]
    if summed:
        whole[..., :shared, :shared] += second[..., :shared, :shared]
    return whole
