"""Grad-CAM: the last layer that still has places, weighted by how the target reacts to each of its channels.

    w_c  = mean over places of  d f / d A_c(place)
    map  = ReLU( sum_c w_c A_c ),  enlarged to the picture (bilinear)

A (C, h, w) is the output of the last layer whose output is a map over places and whose gradient is not zero
there. It is found by running the model once and looking at every layer. In a vision transformer the places
are patches: after the last block only the class token is read, so the map is taken before its attention.
Where every place speaks against the target, the ReLU leaves nothing, and a note says so.

Cost: one forward + backward. Needs: a layer with places. Selvaraju et al. 2017.
"""

from __future__ import annotations

import torch
from torch import Tensor

from heedful.core.attribution import Attribution
from heedful.core.phrases import EMPTY_MAP
from heedful.core.registry import explainer
from heedful.engine.question import Question
from heedful.modalities.joint import over_atoms, picture_of, words_left_out


def empty_map(scores: Tensor) -> tuple[str, ...]:
    """A note where the ReLU has left nothing."""
    return () if bool((scores > 0).any()) else (EMPTY_MAP,)


@explainer(
    "gradcam",
    needs={"gradients", "feature-map", "picture"},
    cite="Selvaraju et al. 2017",
    signed=False,
    rows=lambda x, target, p: 1,
)
def gradcam(q: Question) -> Attribution:
    """The last feature map of the network, with channels weighted by the mean gradient of the target.

    Limitations: The map is coarse: often seven by seven places. Parts that speak against the target are cut
    off. It uses the last layers only, so it says little about where they got their information.
    """
    x = picture_of(q.x)
    with q.spend(1):
        found = q.model.feature_map(q.x, q.target)
    weights = found.grads.double().mean((1, 2))  # (C,)
    coarse = torch.einsum("c,chw->hw", weights, found.maps.double()).clamp_min(0)
    fine = torch.nn.functional.interpolate(
        coarse[None, None], (x.height, x.width), mode="bilinear", align_corners=False
    )[0, 0]
    notes = (f"layer {found.layer}, {coarse.shape[0]} × {coarse.shape[1]} places", *empty_map(coarse))
    scores = over_atoms(q.x, fine.flatten().cpu().numpy())
    return q.answer(scores, over=q.x.atom, output=found.output, notes=(*notes, *words_left_out(q.x)))
