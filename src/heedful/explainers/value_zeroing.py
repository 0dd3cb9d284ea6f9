"""Value zeroing: how much the next state of each token depends on the value vector of each other token.

    C^l_ij = 1 - cos(h_i, h_i without v_j)        output of layer l for token i, with token j's value at zero
    Chat^l = row-normalise(C^l)                   a token that nothing changes keeps itself
    S = Chat^N ... Chat^1,  score = readout . S   last layer leftmost; no I is added, because the output of
                                                  the layer already contains the residual stream

It includes what attention maps miss: value norms, output projection, residual stream, LayerNorm, MLP.

Cost: the trace, one pass, and one model input per token (each layer runs once on T copies of its input).
Needs: value-maps, that is, one stack of layers that uses the attention interface of the `transformers`
library. For encoder-decoders and your own modules the method is skipped.

Mohebbi, Zuidema, Chrupała & Alishahi, Quantifying Context Mixing in Transformers, EACL 2023.
"""

from __future__ import annotations

from functools import reduce

import torch
from torch import Tensor

from heedful.core.attribution import Attribution
from heedful.core.input import Input
from heedful.core.registry import explainer
from heedful.core.target import Target
from heedful.engine.question import Question
from heedful.explainers.attention_rollout import answer_of_trace, written_columns
from heedful.models.contrast_pass import tree


def shares(moved: Tensor) -> Tensor:
    """(T, T) distances -> rows that sum to one."""
    sums = moved.sum(-1, keepdim=True)
    eye = torch.eye(len(moved), dtype=moved.dtype, device=moved.device)
    return torch.where(sums > 0, moved / sums.clamp_min(torch.finfo(moved.dtype).tiny), eye)


def mixing(q: Question, side: Target, layers: int) -> list[Tensor]:
    """Chat of each layer, (N, N) with N the tokens the model reads."""
    with q.spend(_rows_of(q.x, side)):
        return [shares(layer).cpu() for layer in q.model.value_maps(q.x, side, layers)]


def _rows_of(x: Input, side: Target) -> int:
    """A pass, and a row for every token that is read: the text up to the target's position, and what was
    written after it."""
    return (len(x) if side.position is None else side.position) + len(side.written) + 1


@explainer(
    "value-zeroing",
    needs={"attentions", "value-maps"},
    cite="Mohebbi et al. 2023",
    signed=False,
    expensive=True,
    properties=("symmetric",),
    rows=lambda x, target, p: 1 + sum(_rows_of(x, side) for side in target.sides),
)
def value_zeroing(q: Question) -> Attribution:
    """How much each layer's output changes direction when a token's value vector is zero, multiplied through
    the layers.

    Limitations: It measures how far representations change, not what this does to the output: a token may
    change everything except the output.
    """
    trace = q.trace()
    layers, *other = (mixing(q, side, len(trace.attentions)) for side in q.target.sides)
    for more in other:
        layers = [tree(*both, shared=q.x.positions.atoms) for both in zip(layers, more, strict=True)]
    readout = torch.tensor(trace.readout, dtype=torch.float64)
    scores = reduce(lambda above, below: above @ below, reversed(layers), readout)
    return answer_of_trace(q, trace, scores[: q.x.positions.atoms], scores[written_columns(trace)])
