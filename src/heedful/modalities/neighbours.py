"""Scores smoothed over neighbouring units: a control for measures that reward smooth maps.

    text      Gaussian over the order of the units
    picture   each unit painted with its score, Gaussian over the places, mean over each unit
    pair      both parts, each on its own

The width is that of one unit. Smoothing adds no information about the model, so a measure by which smoothed
scores do better than the scores themselves, or a smoothed random map better than a random one, rewards
smoothness. Song et al. 2023 found this for ROAR and for ROAD.
"""

from __future__ import annotations

import numpy as np
from scipy import ndimage

from heedful.core.arrays import Floats
from heedful.core.input import Input
from heedful.modalities.image import ImageInput
from heedful.modalities.joint import JointInput

SMOOTHED = ", smoothed"  # behind the name of a method


def smoothed(x: Input, scores: Floats, unit: str = "", width: float = 1.0) -> Floats:
    """(d,) scores of units, each a mean over its neighbours; `width` in units. The mean of the scores over a
    long input stays; a constant stays exactly."""
    if isinstance(x, JointInput):
        count = x.picture_units(unit)
        cells = smoothed(x.picture, scores[:count], x.parts_of(unit)[0], width)
        return np.concatenate([cells, smoothed_row(scores[count:], width)])
    if not isinstance(x, ImageInput):
        return smoothed_row(scores, width)
    units = x.units(unit)
    outside = float(np.mean(scores))  # of places that belong to no unit
    painted = np.append(scores, outside)[units.owner].reshape(x.height, x.width)
    side = (len(x) / len(units)) ** 0.5
    smooth = ndimage.gaussian_filter(painted, width * side, mode="nearest").ravel()
    own = units.owner >= 0
    sums = np.bincount(units.owner[own], weights=smooth[own], minlength=len(units))
    return np.asarray(sums / np.bincount(units.owner[own], minlength=len(units)))


def smoothed_row(scores: Floats, width: float = 1.0) -> Floats:
    """The same for units that stand in a row."""
    return np.asarray(ndimage.gaussian_filter1d(np.asarray(scores, dtype=float), width, mode="nearest"))
