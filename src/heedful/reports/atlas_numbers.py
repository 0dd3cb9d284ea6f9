"""The numbers that the scripts of an atlas draw from: every stack, at the level of tokens and of words."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

from heedful.core.arrays import Floats
from heedful.core.document import Bullets, Fold, Paragraph
from heedful.heads.atlas import Atlas
from heedful.heads.kinds import HeadKind
from heedful.heads.maps import MapAxis, Maps
from heedful.reports.atlas_data import Packed, pack
from heedful.reports.visible import visible

Level = tuple[Atlas, list[Packed]]
STACKS = {"self": "Self-attention", "decoder": "Decoder self-attention", "cross": "Cross-attention"}


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
        "grid": maps.grid,
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


def stored_weights(levels: Sequence[Level]) -> Fold:
    """What the report stores of the weights, and what not."""
    lines = []
    for atlas, packed in levels:
        for maps, kept in zip(atlas.stacks, packed, strict=True):
            name = f"{STACKS.get(maps.stack, maps.stack)} between {atlas.unit}s"
            line = f"{name}: every weight." if kept.dense else f"{name}: {_left(maps, kept)}"
            lines.append(f"{line} No weight shown is off by more than {kept.error:.1g}.")
    lead = "A report stores weights in 8 bits of their row's largest, so that it stays small."
    return Fold("What the report stores", (Paragraph(lead, "soft"), Bullets(tuple(lines))))


def _left(maps: Maps, held: Packed) -> str:
    masses = maps.weights.sum(axis=(2, 3), dtype=float).ravel()
    share = 100 * float((held.left * masses).sum() / masses.sum())
    most = int(held.left.argmax())
    anyway = f" except for the {held.least} largest of each row" if held.least else ""
    return (
        f"weights under {held.threshold:.2g} or a 510th of their row's largest are left out{anyway}, "
        f"together {share:.1f} % of the mass (at most {100 * held.left[most]:.0f} % of a head's, "
        f"{most // maps.heads}.{most % maps.heads}); "
        "the matrix shows their mean in the row, the head view does not show them."
    )
