"""The numbers that the scripts of an atlas draw from: every stack, at the level of tokens and of words."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

from heedful.core.arrays import Floats
from heedful.heads.atlas import Atlas
from heedful.heads.kinds import HeadKind
from heedful.heads.maps import MapAxis, Maps
from heedful.reports.atlas_data import Packed, pack
from heedful.reports.visible import visible

Level = tuple[Atlas, list[Packed]]


def packed_levels(atlas: Atlas) -> list[Level]:
    """The atlas as it is and, where it differs, the same at the other level, in one budget."""
    shown = [atlas]
    if atlas.unit == "token" and any(_split(side) for m in atlas.stacks for side in (m.queries, m.keys)):
        shown.append(atlas.words())
    if atlas.unit == "word" and atlas.tokens is not None:
        shown.append(atlas.tokens)
    result = iter(pack([maps for each in shown for maps in each.stacks]))
    return [(each, [next(result) for _ in each.stacks]) for each in shown]


def _split(side: MapAxis) -> bool:
    """Whether some word is more than one token."""
    words = [word for word in side.words if word >= 0]
    return len(set(words)) < len(words)


def island_data(
    title: str,
    kinds: dict[str, list[HeadKind]],
    masses: dict[str, Floats],
    levels: Sequence[Level],
) -> dict[str, Any]:
    """`kinds` and `masses` (on special tokens) by stack. Scripts put labels into text nodes: they are made
    visible here, since no renderer sees them."""
    return {
        "title": visible(title),
        "kinds": {stack: [kind.kind for kind in some] for stack, some in kinds.items()},
        "special": {
            name: [round(float(share), 4) for share in mass.ravel()] for name, mass in masses.items()
        },
        "levels": [
            {"unit": each.unit, "stacks": [_stack(m, p) for m, p in zip(each.stacks, packed, strict=True)]}
            for each, packed in levels
        ],
    }


def _stack(maps: Maps, packed: Packed) -> dict[str, Any]:
    same = maps.queries.labels == maps.keys.labels and maps.queries.special == maps.keys.special
    return {
        "stack": maps.stack,
        "shape": packed.shape,
        "causal": maps.causal,
        "top": packed.top,
        "dense": packed.dense,
        "threshold": packed.threshold,
        "left": [round(float(share), 4) for share in packed.left],
        "queries": _side(maps.queries),
        "keys": None if same else _side(maps.keys),
        "heads": [base64.b64encode(blob).decode() for blob in packed.blobs],
    }


def _side(side: MapAxis) -> dict[str, Any]:
    labels = [visible(label) for label in side.labels]
    return {"labels": labels, "special": [i for i, special in enumerate(side.special) if special]}
