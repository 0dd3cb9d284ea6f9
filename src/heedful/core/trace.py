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
    """The results of one forward and one backward pass of a model. Gradient and attention methods use them.

    T is the number of tokens, d the width, H the number of heads, A the number of answer tokens, W the
    number of tokens that were already written. Q is the number of queries: T for self-attention, 1 for a
    layer with a single query.

    Parameters
    ----------
    x
        The text as the model reads it.
    target
        The number that is explained.
    output
        Value of the target.
    embeds
        Embeddings, (T, d).
    grad_embeds
        Gradients of the target with respect to the embeddings, (T, d).
    attentions
        Attention weights, one (H, Q, T) per layer.
    grad_attentions
        Gradients with respect to the attention weights, one (H, Q, T) per layer.
    readout
        Share of the answer that is read at each query position, (Q,). It comes from the gradient with respect
        to the last hidden states.
    hidden
        Hidden states, one (T, d) per layer, if requested.
    cross
        For encoder-decoders: cross-attention, one (H, A, T) per layer.
    grad_cross
        Gradients with respect to the cross-attention.
    decoder_attentions
        For encoder-decoders: self-attention of the decoder, one (H, A, A) per layer.
    grad_decoder_attentions
        Gradients with respect to the self-attention of the decoder.
    notes
        Remarks.
    written
        The tokens that were already written. `None` if there were no such tokens.
    written_embeds
        Embeddings of the written tokens, (W, d).
    grad_written
        Gradients with respect to these embeddings, (W, d).
    parts
        One trace per part, for an input whose parts have an encoder each. Attention is in these, and
        `embeds` and `grad_embeds` are packed (see `Model.embed_parts`).

    Examples
    --------
    >>> import heedful
    >>> model = heedful.load("zoo:sentiment")
    >>> x = model.encode("The food was great")
    >>> trace = model.trace(x, model.target(x))
    >>> len(trace.attentions), tuple(trace.attentions[0].shape)
    (4, (4, 6, 6))
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
    parts: tuple[Trace, ...] = ()  # of an input whose parts have an encoder each
