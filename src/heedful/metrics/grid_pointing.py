"""The grid pointing game: four pictures of different classes in one, and each class is asked for in turn.

    value_i = share of the positive scores for class i that lies in cell i,  i = 1 .. 4

Chance is 1/4, of a constant map, of random scores and of a bump in the middle alike. Where things are is
known without masks. The composite is unlike the pictures that a model was trained on: take pictures of which
the model is sure, and compare methods, not models. Maps that do not depend on the class (attention, rollout,
edges) have a mean of 1/4 over the four classes: the shares of one map sum to 1.

Cost: one explanation per class. Böhle et al. 2021; Rao et al. 2022.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from heedful.core.arrays import Floats
from heedful.core.errors import HeedfulError
from heedful.engine.question import run_explainer
from heedful.engine.session import Session
from heedful.metrics.metric_input import Mask
from heedful.metrics.pointing import mass, spread
from heedful.modalities.image import image_of
from heedful.modalities.image_files import Pixels, read_picture, resized
from heedful.models.picture_model import PictureModel

NEEDS = {"picture"}  # of a model
CELLS = 4
CHANCE = 1 / CELLS


def grid_picture(pictures: Sequence[Any], size: tuple[int, int]) -> Pixels:
    """Four pictures, each resized to a quarter of `size` (height, width), row by row."""
    if len(pictures) != CELLS:
        raise HeedfulError(f"the grid has four cells, and {len(pictures)} pictures were given")
    cell = (size[0] // 2, size[1] // 2)
    a, b, c, d = (resized(read_picture(picture).pixels, cell) for picture in pictures)
    return np.concatenate([np.concatenate([a, b], axis=1), np.concatenate([c, d], axis=1)])


def cell_mask(cell: int, height: int, width: int) -> Mask:
    """(H·W,) the atoms of one of the four cells."""
    down, along = np.arange(height) >= height // 2, np.arange(width) >= width // 2
    return np.asarray((2 * down[:, None] + along == cell).ravel())


def grid_pointing(
    model: PictureModel, pictures: Sequence[Any], classes: Sequence[Any], method: str, **params: Any
) -> Floats:
    """Share of the positive scores in the right cell, class by class.

    Parameters
    ----------
    model
        A classifier of pictures.
    pictures
        Four pictures, one per class.
    classes
        The class of each picture, as `model.target` takes it. All must be different.
    method
        Name of the method. `params` are its parameters.

    Returns
    -------
    Floats
        (4,) between 0 and 1. Chance is 1/4.

    Examples
    --------
    >>> import numpy as np, heedful
    >>> def red_or_blue(pictures):  # two scores: the mean of red, the mean of blue
    ...     return [[p[..., 0].mean(), p[..., 2].mean(), p[..., 1].mean(), -p.mean()] for p in pictures]
    >>> model = heedful.load(red_or_blue, modality="image", labels=["red", "blue", "green", "dark"])
    >>> colours = [(255, 0, 0), (0, 0, 255), (0, 255, 0), (0, 0, 0)]
    >>> four = [np.full((32, 32, 3), colour, dtype=np.uint8) for colour in colours]
    >>> shares = grid_pointing(model, four, model.labels, "occlusion")
    >>> [round(float(share), 2) for share in shares[:3]]
    [1.0, 1.0, 1.0]
    """
    if len(set(classes)) != CELLS:
        raise HeedfulError("the grid pointing game asks for four different classes", f"given: {classes}")
    model.require(NEEDS, "the grid pointing game")
    x = image_of(model.encode(grid_picture(pictures, model.reader.size or (64, 64))))
    session, shares = Session(model), []
    for cell, wanted in enumerate(classes):
        item = run_explainer(method, session, x, model.target(x, wanted), **params)
        shares.append(mass(spread(item), cell_mask(cell, x.height, x.width)))
    return np.array(shares)
