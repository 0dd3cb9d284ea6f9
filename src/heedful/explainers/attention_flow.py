"""Attention flow: the most that can flow from where the answer is read down to each token, when the attention
weights (residual stream included) are pipes of that capacity.

    graph      one node a token and layer; edge (l, i) -> (l - 1, j) has capacity Ahat^l_ij, the matrices of
               attention-rollout; a source feeds the read-out positions by their share of the answer
    score(j)   maximum flow from the source to input token j, one problem a token, then divided by their sum
               over the text; what was already written is divided by the same number

Rollout is a feasible flow, so an undivided flow is at least the rollout. In deep models many tokens reach the
bound set by the source alone: they tie, and a note says how many.

Solver: heedful.stats.rollout_math, exact but for rounding at 2^-30.

Cost: the trace, and one maximum flow a token: in all 2 s for 128 tokens and 12 layers, 16 s for 256, minutes
for 512. More tokens than `limit` are refused.
Needs: attentions.

Abnar & Zuidema, Quantifying Attention Flow in Transformers, ACL 2020.
"""

from __future__ import annotations

import numpy as np
import torch

from heedful.core.arrays import Floats
from heedful.core.attribution import Attribution
from heedful.core.errors import HeedfulError
from heedful.core.registry import explainer
from heedful.core.trace import Trace
from heedful.engine.question import Question
from heedful.explainers.attention_rollout import answer_of_trace, steps, text_columns, written_columns
from heedful.stats.rollout_math import max_flows


def flows(trace: Trace, limit: int = 128) -> tuple[Floats, Floats, tuple[str, ...]]:
    """Of the text (N,) and of what was written (W,), divided by the sum over the text, and a note on ties."""
    layers = steps(trace)
    if (size := layers[0].shape[1]) > limit:
        raise HeedfulError(
            f"attention-flow solves one maximum flow per token, and there are {size:,}",
            f"time grows with their cube, and the limit is {limit:,}",
            f"Ask for it with limit={size}, or use attention-rollout",
        )
    every = range(layers[0].shape[1])
    columns, behind = every[text_columns(trace)], every[written_columns(trace)]
    text, written = np.split(max_flows(layers, [*columns, *behind]), [len(columns)])
    bound = float(layers[-1].sum())  # what the source gives
    tied = int((text >= bound - 1e-9).sum())
    result = f"{tied} of {len(text)} tokens can take all that flows: flow does not rank them"
    total = text.sum() or 1.0
    return text / total, written / total, (result,) if tied > 1 else ()


@explainer(
    "attention-flow",
    needs={"attentions"},
    cite="Abnar & Zuidema 2020",
    signed=False,
    expensive=True,
    properties=("symmetric",),
)
def attention_flow(q: Question, *, limit: int = 128) -> Attribution:
    """Maximum flow from where the answer is read to each token, with attention weights as capacities.

    Limitations: It inherits attention's blindness to values, and counts paths that carry nothing. On long
    texts flows even out and the ranking follows position.
    """
    trace = q.trace()
    text, written, notes = flows(trace, limit)
    return answer_of_trace(q, trace, torch.from_numpy(text), torch.from_numpy(written), notes)
