"""Grad-ECLIP: the values of the last attention layer, weighted by the gradient and by loosened attention.

    w_q   = d S / d o_q                              o: outputs of the heads, before the output projection
    l_qi  = minmax_i cos(q_q, k_i)                   "loosened" attention, from 0 to 1
    E_i   = ReLU( sum_q l_qi (w_q . v_i) )

q runs over the positions from which the vector is read: the class token of CLIP's picture encoder and the end
token of its text encoder, one each. i runs over patches, or over the tokens that can be removed. The map of
the picture uses the last block. In the text encoder, the sum also runs over the last `layers` blocks before
the ReLU. o, q, k, v are those of the model itself, its heads side by side. (The code that the authors
released computes the explained block again with one head over the full width, so that S is not the similarity
of the model: docs/errata.md.) Scores of picture and text are in the unit of S and are not divided by their
maximum or sum, so that they can be compared.

Cost: one forward + backward, and the trace, which tells the positions. Needs: head-states.
Zhao, Wang, Kim, Xu & Chan, Gradient-based Visual Explanation for Transformer-based CLIP, ICML 2024.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from heedful.core.attribution import Attribution
from heedful.core.errors import HeedfulError
from heedful.core.input import NEVER
from heedful.core.model import HeadStates
from heedful.core.registry import explainer
from heedful.engine.question import POSITION, Question
from heedful.explainers.gradcam import empty_map

READ = 1e-6  # share of the answer from which on a position counts as read
WORD_LAYERS = 8  # of the text encoder, as the authors use; all where there are fewer


def contributions(states: HeadStates, read: Sequence[int]) -> Tensor:
    """(N,) of one layer before the ReLU; positions that cannot be removed get 0."""
    inside = torch.from_numpy(states.places.owner != NEVER).nonzero()[:, 0]
    normal = torch.nn.functional.normalize
    scores = torch.zeros(states.places.atoms, dtype=torch.float64)
    for place in read:
        near = normal(states.key[inside], dim=-1) @ normal(states.query[place], dim=-1)  # (n,)
        span = (near.max() - near.min()).clamp_min(1e-12) if len(near) else 1.0
        loose = (near - near.min()) / span if len(near) > 1 else torch.ones_like(near)
        scores[inside] += (loose * (states.value[inside] @ states.grads[place])).cpu()
    return scores


@explainer(
    "grad-eclip",
    needs={"attentions", "gradients", "head-states"},
    cite="Zhao et al. 2024",
    signed=False,
    rows=lambda x, target, p: 2,
)
def grad_eclip(q: Question, *, layers: int = WORD_LAYERS) -> Attribution:
    """Values of the last attention layer, weighted by the gradient and by the cosine of query and key.

    Limitations: Parts that speak against the target are cut off. It looks at the last layer of the picture's
    encoder only, where a patch already contains information from all patches. Its weights are not the
    attention of the model.
    """
    if layers < 1:
        raise HeedfulError("grad-eclip needs at least one layer")
    trace = q.trace()
    with q.spend(1):
        encoders = q.model.head_states(q.x, q.target)
    scores = []
    for part, states in zip(trace.parts or (trace,), encoders, strict=True):
        read = [place for place, share in enumerate(part.readout) if share > READ]
        last = states[-layers:] if part.x.scored_by_atom else states[-1:]  # words: of several layers
        total = torch.stack([contributions(layer, read) for layer in last]).sum(0)
        scores.append(total.clamp_min(0))
    whole = torch.cat(scores)
    notes = (*trace.notes, *empty_map(whole))
    return q.answer(whole.numpy(), over=POSITION, output=trace.output, notes=notes)
