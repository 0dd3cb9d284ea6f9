"""Raw attention: the attention of one layer on each token, from the position where the answer is read.

    attention-avg   mean over heads of A[h, q, t]        attention-max   max over heads

q is the position where the answer is read: [CLS], the last token, or all positions weighted by their share of
the answer (`Trace.readout`). The default is the last layer. For an encoder-decoder the scores of the text are
cross-attention, and the scores of tokens that were written before are the decoder's own attention. Each of
these two kinds of scores sums to one. So the two kinds cannot be compared, and input dependence is not
reported.
Cost: one forward and backward, shared with all methods that use the trace. Needs: attentions.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from heedful.core.attribution import Attribution
from heedful.core.errors import HeedfulError
from heedful.core.registry import explainer
from heedful.core.trace import Trace
from heedful.engine.question import POSITION, Question
from heedful.explainers.attention_rollout import answer_of_parts


def answer_rows(trace: Trace, layer: int) -> Tensor:
    """(H, T): each head's attention from where the answer is read, in one layer."""
    rows = _read(trace, trace.cross or trace.attentions, layer)[
        :, : trace.x.positions.atoms
    ]  # without a continuation
    missing = trace.x.positions.atoms - rows.shape[1]  # tokens after the target's position were not read
    return torch.nn.functional.pad(rows, (0, missing))


def written_rows(trace: Trace, layer: int) -> Tensor:
    """(H, W): the same over what was written; in an encoder-decoder behind the start token."""
    begin, count = (
        1 if trace.cross else trace.x.positions.atoms,
        0 if trace.written is None else len(trace.written),
    )
    return _read(trace, trace.decoder_attentions or trace.attentions, layer)[:, begin : begin + count]


def _read(trace: Trace, layers: tuple[Tensor, ...], layer: int) -> Tensor:
    """(H, N) float64: all that one layer looks at from where the answer is read."""
    if not -len(layers) <= layer < len(layers):
        raise HeedfulError(f"there is no layer {layer}", f"the model has {len(layers)}, counted from 0")
    weights = torch.tensor(trace.readout, dtype=torch.float64)
    read = weights.nonzero()[:, 0]  # mostly one row, [CLS] or the last: no need to widen the others
    maps = layers[layer][:, read.to(layers[layer].device)]  # (H, q, S)
    maps = maps.to(torch.promote_types(maps.dtype, torch.float32))  # summed as they are: widening costs more
    return torch.einsum("q,hqs->hs", weights[read].to(maps), maps).double().cpu()


def _answer(q: Question, layer: int, over_heads: Callable[[Tensor], Tensor]) -> Attribution:
    trace = q.trace()
    if trace.parts:
        return answer_of_parts(q, trace, lambda part: over_heads(answer_rows(part, layer)))
    rows = torch.cat([answer_rows(trace, layer), written_rows(trace, layer)], 1)  # (H, T + W)
    return q.answer(
        over_heads(rows).numpy(),
        over=POSITION,
        same_scale=not trace.cross,
        output=trace.output,
        notes=trace.notes,
    )


@explainer(
    "attention-avg", needs={"attentions"}, cite="Vaswani et al. 2017", signed=False, properties=("symmetric",)
)
def attention_avg(q: Question, *, layer: int = -1) -> Attribution:
    """Attention from the position where the answer is read, mean over the heads of one layer.

    Limitations: A head may attend to a token without using it. In deep layers a position contains
    information from other words, too. The mean hides differences between heads.
    """
    return _answer(q, layer, lambda rows: rows.mean(0))


@explainer(
    "attention-max", needs={"attentions"}, cite="Vaswani et al. 2017", signed=False, properties=("symmetric",)
)
def attention_max(q: Question, *, layer: int = -1) -> Attribution:
    """Attention from the position where the answer is read, maximum over the heads of one layer.

    Limitations: One head that always attends to punctuation decides the scores of every text. A large weight
    on a token with a small value vector has no effect.
    """
    return _answer(q, layer, lambda rows: rows.amax(0))
