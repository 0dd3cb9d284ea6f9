"""A picture with every unit shaded by one method, or by what removing it did.

Units of any shape are drawn by the cells of a grid that is fine enough for them. Each cell has the share
of the unit that covers most of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from heedful.core.document import Part, PictureMap
from heedful.core.input import Rectangle, Region
from heedful.core.internals import Removal
from heedful.core.numbers import fixed_signed
from heedful.modalities.image import ImageInput
from heedful.modalities.image_png import png
from heedful.reports.columns import ScoreColumn
from heedful.reports.tested_methods import largest_effect

FINE_CELLS = 28  # per side, for units that are no rectangles


def picture_map(col: ScoreColumn, x: ImageInput, unit: str) -> PictureMap:
    """Each unit by its share of the method's strongest unit."""
    shares = [col.share(one) for one in col.words]
    tips = [f"{one.text}: {col.sign(one)}{col.number(one)}" for one in col.words]
    return _drawn(x, unit, shares, tips, col.item.signed, f"The picture, shaded by {col.method}")


def picture_effects(measured: Removal, x: ImageInput, unit: str) -> PictureMap:
    """The same by the measured effect of removing each unit."""
    top = largest_effect(measured) or 1.0
    known = [value if math.isfinite(value) else 0.0 for value in measured.leave_one_out]
    labels = x.units(unit).labels
    tips = [f"{label}: {fixed_signed(value)}" for label, value in zip(labels, known, strict=True)]
    title = "The picture, shaded by the measured effect of removing each part"
    return _drawn(x, unit, [value / top for value in known], tips, True, title)


def _drawn(
    x: ImageInput, unit: str, shares: Sequence[float], tips: Sequence[str], signed: bool, title: str
) -> PictureMap:
    units, parts = x.units(unit), []
    if all(len(atoms) == _area(box) for atoms, box in zip(units, units.regions, strict=True)):
        every = zip(units.regions, shares, tips, strict=True)
        parts = [Part(_box(region), share, tip) for region, share, tip in every]
    else:
        cells = x.units(f"grid:{min(FINE_CELLS, x.height, x.width)}")
        for atoms, box in zip(cells, cells.regions, strict=True):
            unit_there = int(np.bincount(units.owner[atoms] + 1).argmax()) - 1
            if unit_there >= 0:
                parts.append(Part(_box(box), shares[unit_there], tips[unit_there]))
    return PictureMap(png(x.pixels), (x.width, x.height), tuple(parts), signed, title)


def _box(region: Region) -> tuple[int, int, int, int]:
    if not isinstance(region, Rectangle):
        raise ValueError("a unit of a picture is in a rectangle")
    return region


def _area(box: tuple[int, ...]) -> int:
    left, top, right, bottom = box
    return (right - left) * (bottom - top)
