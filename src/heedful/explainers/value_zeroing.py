"""Value zeroing: how much each token's next state depends on the value vector of each other token.

    C^l_ij = 1 - cos(h_i, h_i without v_j)        output of layer l for token i, with token j's value at zero
    Chat^l = row-normalise(C^l)                   a token that nothing moves keeps itself
    S = Chat^N ... Chat^1,  score = readout . S   last layer leftmost; no I is added: the layer's output holds
                                                  the residual stream already

It sees what attention maps miss: value norms, output projection, residual stream, LayerNorm, feed-forward.

Cost: the trace, one pass, and one row per token (each layer runs once on T copies of its input).
Needs: values, that is one stack of layers behind transformers' attention switch; encoder-decoders and modules
of one's own are refused.

Mohebbi, Zuidema, Chrupała & Alishahi, Quantifying Context Mixing in Transformers, EACL 2023.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import torch
from torch import Tensor

from heedful.core.attribution import Attribution
from heedful.core.input import Encoded
from heedful.core.model import Model
from heedful.core.registry import explainer
from heedful.core.target import Target
from heedful.explainers.attention_rollout import as_attribution, written_columns
from heedful.models.contrast_pass import tree
from heedful.models.passes import check_budget
from heedful.models.value_zeroing import value_maps


def shares(moved: Tensor) -> Tensor:
    """(T, T) distances -> rows that sum to one."""
    sums = moved.sum(-1, keepdim=True)
    eye = torch.eye(len(moved), dtype=moved.dtype, device=moved.device)
    return torch.where(sums > 0, moved / sums.clamp_min(torch.finfo(moved.dtype).tiny), eye)


def mixing(model: Any, x: Encoded, target: Target, layers: int) -> list[Tensor]:
    """Chat of each layer, (N, N) with N the tokens the model reads; counted as N + 1 rows."""
    inputs = model.inputs(x, target)
    length = inputs.ids.shape[1]
    rows = length + 1
    check_budget(getattr(model, "budget", None), rows)
    with model.meter.counted(forwards=rows, unique=rows, tokens=length * rows):
        maps = value_maps(model.backend.model, model.backend.runner(inputs), layers)
    return [shares(layer).cpu() for layer in maps]


def _rows(x: Encoded, target: Target) -> int:
    """The trace, a pass, and a row for every token that is read: the text up to the target's position, and
    what was written after it. Of two continuations, each is read by itself."""
    text = len(x) if target.position is None else target.position
    return 1 + sum(text + len(side.written) + 1 for side in target.sides)


@explainer(
    "value-zeroing",
    needs={"attentions", "values"},
    cite="Mohebbi et al. 2023",
    signed=False,
    expensive=True,
    properties=("symmetric",),
    rows=lambda x, target, p: _rows(x, target),
)
def value_zeroing(model: Model, x: Encoded, target: Target) -> Attribution:
    """How far each layer's output turns when a token's value is zeroed, multiplied through the layers.

    Limitations: It measures how far representations turn, not what that does to the answer: a token may
    change everything but the output.
    """
    trace = model.trace(x, target)
    layers, *other = (mixing(model, x, side, len(trace.attentions)) for side in target.sides)
    for more in other:
        layers = [tree(*both, shared=len(x)) for both in zip(layers, more, strict=True)]
    readout = torch.tensor(trace.readout, dtype=torch.float64)
    scores = reduce(lambda above, below: above @ below, reversed(layers), readout)
    return as_attribution(trace, scores[: len(x)], written=scores[written_columns(trace)])
