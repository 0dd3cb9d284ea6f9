"""What one forward and backward pass leaves behind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from heedful.core.result import NotebookRepr

if TYPE_CHECKING:
    from torch import Tensor
from heedful.core.input import Input
from heedful.core.target import Target


@dataclass(frozen=True)
class Trace(NotebookRepr):
    """What one forward and backward of the user's own model shows.

    Q is T for self-attention; a single-query layer (one-layer classifier) has Q = 1.
    `readout[q]` is the share of the answer read at query position q, found from the gradient of the target
    with respect to the last hidden states: all on [CLS], all on the last token, or spread by a mean pool.
    """

    x: Input
    target: Target
    output: float
    embeds: Tensor  # (T, d)
    grad_embeds: Tensor  # (T, d)
    attentions: tuple[Tensor, ...] = ()  # one per layer, (H, Q, T)
    grad_attentions: tuple[Tensor, ...] = ()  # one per layer, (H, Q, T)
    readout: tuple[float, ...] = ()  # (Q,)
    hidden: tuple[Tensor, ...] = ()  # (T, d) a layer, on request
    cross: tuple[Tensor, ...] = ()  # encoder-decoders: (H, A, T), A = answer positions
    grad_cross: tuple[Tensor, ...] = ()
    decoder_attentions: tuple[Tensor, ...] = ()  # encoder-decoders: (H, A, A)
    grad_decoder_attentions: tuple[Tensor, ...] = ()
    notes: tuple[str, ...] = ()
    written: Input | None = None  # the target's `given`: W tokens that were written before it
    written_embeds: Tensor | None = None  # (W, d)
    grad_written: Tensor | None = None  # (W, d)
