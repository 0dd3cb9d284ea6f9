"""Attention flow: the maximum flow from the position where the answer is read to each token, if each
attention weight (including the residual stream) is the capacity of a pipe.

    graph      one node per token and layer; edge (l, i) -> (l - 1, j) has capacity Ahat^l_ij, the matrices of
               attention-rollout; a source feeds the read-out positions by their share of the answer
    score(j)   maximum flow from the source to input token j, one problem per token, divided by their sum over
               the text; tokens that were written before are divided by the same number

Rollout is a feasible flow, so the flow before division is at least the rollout. In deep models many tokens
reach the limit set by the source alone. These tokens have equal scores, and a note says how many they are.

Solver: heedful.stats.rollout_math, exact except for rounding at 2^-30.

Cost: the trace, and one maximum flow per token: 2 s in total for 128 tokens and 12 layers, 16 s for 256,
minutes for 512. Texts with more than `limit` tokens give an error.
Needs: attentions.

Abnar & Zuidema, Quantifying Attention Flow in Transformers, ACL 2020.
"""

from __future__ import annotations

import numpy as np
import torch

from heedful.core.arrays import Floats
from heedful.core.attribution import Attribution
from heedful.core.errors import HeedfulError
from heedful.core.phrases import plural
from heedful.core.registry import explainer
from heedful.core.trace import Trace
from heedful.engine.question import Question
from heedful.explainers.attention_rollout import (
    answer_of_parts,
    answer_of_trace,
    steps,
    text_columns,
    written_columns,
)
from heedful.stats.rollout_math import max_flows


def flows(trace: Trace, limit: int = 128) -> tuple[Floats, Floats, tuple[str, ...]]:
    """Of the text (N,) and of what was written (W,), divided by the sum over the text, and a note on ties."""
    layers, noun = steps(trace), trace.x.positions.name
    noun = noun if noun == trace.x.atom else "position"  # a position may be more than a patch
    if (size := layers[0].shape[1]) > limit:
        raise HeedfulError(
            f"attention-flow solves one maximum flow per {noun}, and there are {size:,}",
            f"time grows with their cube, and the limit is {limit:,}",
            f"Ask for it with limit={size}, or use attention-rollout",
        )
    every = range(layers[0].shape[1])
    columns, behind = every[text_columns(trace)], every[written_columns(trace)]
    text, written = np.split(max_flows(layers, [*columns, *behind]), [len(columns)])
    bound = float(layers[-1].sum())  # what the source gives
    tied = int((text >= bound - 1e-9).sum())
    result = f"{tied} of {len(text)} {plural(noun)} can take all that flows: flow does not rank them"
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
    """Maximum flow from the position where the answer is read to each token, with attention weights as
    capacities.

    Limitations: Like all attention weights, it ignores the value vectors, so it also counts paths that carry
    no information. On long texts the flows become equal and the ranking follows the position.
    """
    trace = q.trace()
    if trace.parts:
        return answer_of_parts(q, trace, lambda part: torch.from_numpy(flows(part, limit)[0]))
    text, written, notes = flows(trace, limit)
    return answer_of_trace(q, trace, torch.from_numpy(text), torch.from_numpy(written), notes)
