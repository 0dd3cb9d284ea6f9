"""A picture with every unit shaded by one method, or by what removing it did.

Units of any shape are drawn by the cells of a grid that is fine enough for them. Each cell has the share
of the unit that covers most of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from heedful.core.document import Part, PictureMap
from heedful.core.input import Rectangle, Region, Units
from heedful.core.internals import Removal
from heedful.core.numbers import fixed_signed
from heedful.modalities.image import ImageInput
from heedful.modalities.image_png import png
from heedful.reports.columns import ScoreColumn

FINE_CELLS = 56  # per side, for units that are no rectangles


def picture_map(col: ScoreColumn, x: ImageInput, unit: str) -> PictureMap:
    """Each unit by its share of the method's strongest unit."""
    shares = [col.share(one) for one in col.words]
    tips = [f"{one.text}: {col.sign(one)}{col.number(one)} {col.unit}".strip() for one in col.words]
    return _drawn(x, unit, shares, tips, col.item.signed, f"The picture, shaded by {col.method}")


def picture_effects(measured: Removal, x: ImageInput, unit: str, top: float) -> PictureMap:
    """The same by the measured effect of removing each unit, `top` at full colour; units that were not
    removed have no colour."""
    top = top or 1.0
    labels, shares, tips = x.units(unit).labels, [], []
    for label, value in zip(labels, measured.leave_one_out, strict=True):
        known = math.isfinite(value)
        shares.append(value / top if known else 0.0)
        tips.append(f"{label}: {fixed_signed(value) if known else 'not measured'}")
    title = f"The picture, shaded by the measured effect of removing each {x.unit_noun(unit)}"
    return _drawn(x, unit, shares, tips, True, title)


def plain_picture(x: ImageInput, small: bool = False) -> PictureMap:
    """The picture without colours over it."""
    size = (x.width, x.height)
    return PictureMap(png(x.pixels), size, (), title="The picture as the model sees it", small=small)


def drawn_map(
    x: ImageInput, unit: str, shares: Sequence[float], tips: Sequence[str], signed: bool, method: str
) -> PictureMap:
    """One of many: each unit by its share, -1 to 1."""
    return replace(_drawn(x, unit, shares, tips, signed, f"The picture, shaded by {method}"), small=True)


def _drawn(
    x: ImageInput, unit: str, shares: Sequence[float], tips: Sequence[str], signed: bool, title: str
) -> PictureMap:
    units = x.units(unit)
    parts = tuple(Part(box, shares[index], tips[index], index) for index, box in _boxes(x, units))
    return PictureMap(png(x.pixels), (x.width, x.height), parts, signed, title, grid=_grid(x, units.name))


def _boxes(x: ImageInput, units: Units) -> list[tuple[int, Rectangle]]:
    """(unit, rectangle) of everything that is drawn."""
    if all(len(atoms) == _area(box_of(region)) for atoms, region in zip(units, units.regions, strict=True)):
        return [(index, box_of(region)) for index, region in enumerate(units.regions)]
    cells = x.units(f"grid:{min(FINE_CELLS, x.height, x.width)}")
    found = []
    for atoms, box in zip(cells, cells.regions, strict=True):
        there = int(np.bincount(units.owner[atoms] + 1).argmax()) - 1
        if there >= 0:
            found.append((there, box_of(box)))
    return found


def _grid(x: ImageInput, name: str) -> tuple[int, int]:
    """Rows and columns, where units are counted so."""
    if name == "patch":
        return x.grid
    side = int(name.removeprefix("grid:")) if name.startswith("grid:") else 0
    return side, side


def box_of(region: Region) -> Rectangle:
    if not isinstance(region, Rectangle):
        raise ValueError("a unit of a picture is in a rectangle")
    return region


def _area(box: Rectangle) -> int:
    return (box.right - box.left) * (box.bottom - box.top)
