"""Attention maps of one pass over a picture: positions are special ones, then patches row by row.

Cost: 1 forward, 1 backward with gradients. Needs: a vision transformer whose layers attend over all patches.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from heedful.core.errors import HeedfulError
from heedful.core.model import Model
from heedful.core.target import Target
from heedful.heads.maps import MapAxis, Maps
from heedful.modalities.image import ImageInput

CLASS_TOKEN = "class token"


def picture_maps(
    model: Model, x: ImageInput, spec: Any, gradients: bool
) -> tuple[Maps, Target | None, tuple[float, ...], tuple[str, ...]]:
    """(maps, target of the gradients, share of the answer read at each position, notes)"""
    if model.lacks(["attentions"]):
        raise HeedfulError(
            f"{model.name} shows no attention over patches",
            "only vision transformers whose layers attend over all patches do",
            "See what it offers: heedful doctor",
        )
    target = model.target(x, spec) if gradients else None
    found: Any = model.attention_only(x) if target is None else model.trace(x, target)
    weights = np.stack([layer.float().cpu().numpy() for layer in found.attentions])  # (L, H, T, T)
    grads = None
    if target is not None:
        grads = np.stack([layer.float().cpu().numpy() for layer in found.grad_attentions])
    side = patch_side(x)
    maps = Maps("self", weights, side, side, grads=grads, grid=x.grid)
    return maps, target, () if target is None else found.readout, found.notes


def patch_side(x: ImageInput) -> MapAxis:
    """Special positions, then patches."""
    patches = tuple(x.units("patch").labels)
    front = (CLASS_TOKEN, *(f"register {n}" for n in range(1, x.special)))[: x.special]
    special = (True,) * x.special + (False,) * len(patches)
    numbers = (-1,) * x.special + tuple(range(len(patches)))
    parts = (-1,) * x.special + (0,) * len(patches)
    return MapAxis((*front, *patches), special, numbers, parts, patches)
