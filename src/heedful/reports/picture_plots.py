"""Shaded pictures as matplotlib figures: one method, or all of them side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from matplotlib.colors import to_rgb
from matplotlib.patches import Rectangle as Square

from heedful.core.document import PictureMap
from heedful.modalities.image import ImageInput
from heedful.reports.columns import ScoreColumn
from heedful.reports.picture_map import picture_map
from heedful.reports.picture_svg import COLOURS, OPAQUE
from heedful.reports.shading import hue, level

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GREY_SHARE, LIGHT_SHARE = 0.85, 0.35  # how far a picture fades under its colours


def shade_axes(axes: Axes, col: ScoreColumn, x: ImageInput, unit: str) -> None:
    """The picture in grey, the colours over it, hatched where they are against the target."""
    node = picture_map(col, x, unit)
    axes.imshow(faded(x), interpolation="nearest")
    axes.imshow(heat(node), interpolation="nearest")
    for part in node.parts:
        if level(part.share) > 1 and hue(part.share, node.signed) == "neg":
            left, top, right, bottom = part.box
            box = Square((left - 0.5, top - 0.5), right - left, bottom - top)
            box.set(fill=False, hatch="////", edgecolor="#4a2100", linewidth=0, alpha=abs(part.share))
            axes.add_patch(box)
    axes.set_axis_off()


def heat(node: PictureMap) -> npt.NDArray[np.float64]:
    """(H, W, 4): the hue and opacity of each place."""
    width, height = node.size
    drawn = np.zeros((height, width, 4))
    for part in node.parts:
        left, top, right, bottom = part.box
        colour = to_rgb(COLOURS[hue(part.share, node.signed)])
        drawn[top:bottom, left:right] = (*colour, OPAQUE * min(1.0, abs(part.share)))
    return drawn


def faded(x: ImageInput) -> npt.NDArray[np.float64]:
    """The picture as it lies under colours."""
    colours = x.pixels / 255.0
    grey = colours.mean(2, keepdims=True)
    mixed = GREY_SHARE * grey + (1 - GREY_SHARE) * colours
    return np.asarray(LIGHT_SHARE + (1 - LIGHT_SHARE) * mixed)
