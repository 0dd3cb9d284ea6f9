"""Value zeroing: how much each token's next state depends on the value vector of each other token.

    C^l_ij = 1 - cos(h_i, h_i without v_j)        output of layer l for token i, with token j's value at zero
    Chat^l = row-normalise(C^l)                   a token that nothing moves keeps itself
    S = Chat^N ... Chat^1,  score = readout . S   last layer leftmost; no I is added: the layer's output holds
                                                  the residual stream already

It sees what attention maps miss: value norms, output projection, residual stream, LayerNorm, feed-forward.

Cost: the trace, one pass, and one row a token (each layer runs once on T copies of its input).
Needs: values, that is one stack of layers behind transformers' attention switch; encoder-decoders and modules
of one's own are refused.

Mohebbi, Zuidema, Chrupała & Alishahi, Quantifying Context Mixing in Transformers, EACL 2023.
"""

from __future__ import annotations

import time
from functools import reduce
from typing import Any

import torch
from torch import Tensor

from heedful.explainers.rollout import as_attribution
from heedful.models.base import Model
from heedful.models.zeroing import value_maps
from heedful.registry import explainer
from heedful.run import Run
from heedful.types import Attribution, Encoded, Target


def shares(moved: Tensor) -> Tensor:
    """(T, T) distances -> rows that sum to one."""
    sums = moved.sum(-1, keepdim=True)
    eye = torch.eye(len(moved), dtype=moved.dtype, device=moved.device)
    return torch.where(sums > 0, moved / sums.clamp_min(torch.finfo(moved.dtype).tiny), eye)


def mixing(model: Any, x: Encoded, target: Target, layers: int) -> list[Tensor]:
    """Chat of each layer, (N, N) with N the tokens the model reads; counted as N + 1 rows."""
    started = time.perf_counter()
    inputs = model.inputs(x, target)
    length = inputs.ids.shape[1]
    if isinstance(model, Run):
        model.spend(length + 1)
    maps = value_maps(model.backend.model, model.backend.runner(inputs), layers)
    model.meter.forwards += length + 1
    model.meter.unique += length + 1
    model.meter.tokens += length * (length + 1)
    model.meter.seconds += time.perf_counter() - started
    return [shares(layer).cpu() for layer in maps]


def _read(x: Encoded, target: Target) -> int:
    """How many tokens are read: the text up to the target's position, and what was written after it."""
    return (len(x) if target.position is None else target.position) + len(target.written)


@explainer(
    "value-zeroing",
    needs={"attentions", "values"},
    cite="Mohebbi et al. 2023",
    signed=False,
    dear=True,
    promises=("symmetric",),
    rows=lambda x, target, p: _read(x, target) + 2,
)
def value_zeroing(model: Model, x: Encoded, target: Target) -> Attribution:
    """How far each layer's output turns when a token's value is zeroed, multiplied through the layers."""
    trace = model.trace(x, target)
    layers = mixing(model, x, target, len(trace.attentions))
    readout = torch.tensor(trace.readout, dtype=torch.float64)
    scores = reduce(lambda above, below: above @ below, reversed(layers), readout)
    return as_attribution(trace, scores[: len(x)])
