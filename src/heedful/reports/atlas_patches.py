"""Heads of a vision transformer as maps on the picture: where the class token looks, in every head.

Strength is the square root of a patch's share of the largest weight of that map. A network without a class
token is shown by the mean over all patches that look. The script of the page draws the same from any patch.
"""

from __future__ import annotations

import numpy as np

from heedful.core.arrays import Floats
from heedful.core.document import Choice, Only, Paragraph, Part, PictureMap, Tab
from heedful.core.numbers import percent, short
from heedful.heads.atlas import Atlas
from heedful.heads.maps import Maps
from heedful.modalities.image import ImageInput, image_of
from heedful.modalities.image_png import png
from heedful.reports import atlas_image
from heedful.reports.picture_map import box_of

LETTERS = {
    "class-token": "C",
    "register": "R",
    "self": "S",
    "local": "L",
    "row": "=",
    "column": "|",
    "sink": "V",
    "broad": "~",
    "heterogeneous": "-",
}
LOOKS_AT = {
    "class-token": "the class token",
    "register": "other special positions",
    "self": "the patch itself",
    "local": "patches around it",
    "row": "patches of its row",
    "column": "patches of its column",
    "sink": "one patch that all look at",
    "broad": "many patches",
    "heterogeneous": "none of these",
}
HUE = (0x73, 0x50, 0xBD)  # as maps without a sign, and in atlas_patches.js
STRENGTH = "more attention (square root of the weight, relative to the strongest patch)."
LEAD = (
    "Each picture: where {who} looks in this head. Strength is the square root of the weight, relative to "
    "the strongest patch of that head. The share is what patches give to special positions. Layers and heads "
    "count from 0."
)


def reader_of(maps: Maps) -> str:
    """Who looks, where nobody chose."""
    return "the class token" if maps.queries.special[0] else "the mean patch"


def seen(maps: Maps, matrix: Floats) -> Floats:
    """(Q, K) -> (rows, columns): what the class token gives to each patch, or the mean of all patches."""
    rows, columns = maps.grid
    row = matrix[0] if maps.queries.special[0] else matrix.mean(0)
    return np.asarray(row[-rows * columns :].reshape(rows, columns), dtype=np.float64)


def head_map(picture: PictureMap, maps: Maps, layer: int, head: int) -> PictureMap:
    """One head on the picture, small."""
    strengths = atlas_image.strengths(seen(maps, maps.weights[layer, head]), max(maps.grid))
    title = f"layer {layer}, head {head}: where {reader_of(maps)} looks"
    overlay = atlas_image.png(strengths, HUE)
    return PictureMap(picture.png, picture.size, (), False, title, small=True, overlay=overlay)


def plain(atlas: Atlas) -> PictureMap:
    x = image_of(atlas.x)
    return PictureMap(png(x.pixels), (x.width, x.height), ())


def together(atlas: Atlas) -> Choice:
    """Heads and layers together: the mean, rollout, and each layer."""
    x, maps = image_of(atlas.x), atlas.stacks[0]
    mean = maps.weights.mean((0, 1), dtype=np.float64)
    ways = [("mean of all heads", mean), ("rollout", atlas.rollout())]
    ways += [(f"layer {n}", maps.weights[n].mean(0, dtype=np.float64)) for n in range(maps.layers)]
    key = (
        Only("html", (Paragraph(f"Stronger violet: {STRENGTH}", "soft"),)),
        Only("console", (Paragraph(f"Strong: {STRENGTH}", "soft"),)),
    )
    tabs = [Tab(name, (_map(x, maps, matrix, name), *key)) for name, matrix in ways]
    return Choice(f"Where {reader_of(maps)} looks", tuple(tabs))


def one_head(atlas: Atlas, layer: int, head: int) -> PictureMap:
    """One head on the picture, large."""
    maps = atlas.stacks[0]
    matrix = maps.weights[layer, head].astype(np.float64)
    return _map(image_of(atlas.x), maps, matrix, f"layer {layer}, head {head}")


def _map(x: ImageInput, maps: Maps, matrix: Floats, name: str) -> PictureMap:
    shares, units = seen(maps, matrix).ravel(), x.units("patch")
    strengths = np.sqrt(shares / (shares.max() or 1.0))
    parts = tuple(
        Part(box_of(box), float(strength), f"{label}: {short(float(share))}", index)
        for index, (label, box, share, strength) in enumerate(
            zip(units.labels, units.regions, shares, strengths, strict=True)
        )
    )
    title = f"Where {reader_of(maps)} looks, {name}"
    return PictureMap(png(x.pixels), (x.width, x.height), parts, False, title, grid=x.grid)


def counted(maps: Maps) -> str:
    """8 × 8 patches and 1 special position"""
    rows, columns = maps.grid
    special = sum(maps.keys.special)
    text = f"{rows} × {columns} patches"
    return text + (f" and {special} special position{'s' * (special != 1)}" if special else "")


def mass_line(mass: Floats, alike: float) -> str:
    return (
        f"Patches give {percent(float(mass.mean()))} of their attention to special positions, mean over "
        f"heads; uniform attention would give them {percent(alike)}."
    )
