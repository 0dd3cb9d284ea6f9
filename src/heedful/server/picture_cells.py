"""The cells of a picture that one can brush over: those that the methods scored, where they are a grid."""

from __future__ import annotations

from importlib.util import find_spec

from heedful.core.input import Input, Rectangle
from heedful.core.model import Model
from heedful.modalities.image import ImageInput, image_of
from heedful.modalities.joint import JointInput
from heedful.server.schemas import responses

GRIDS = (4, 8, 16)  # per side, that the page offers


def pictured(x: Input, unit: str) -> tuple[ImageInput, str]:
    """The picture of an input, and the cells by which it is brushed over: pieces of any shape by the usual
    ones."""
    picture, own = (x.picture, x.parts_of(unit)[0]) if isinstance(x, JointInput) else (image_of(x), unit)
    return picture, own if own == "patch" or own.startswith("grid:") else picture.default_unit


def cells_of(x: Input, unit: str) -> responses.PictureCells:
    """Where the rows and columns of the cells begin and end."""
    x, name = pictured(x, unit)
    units = x.units(name)
    boxes = [Rectangle(*box) for box in units.regions]
    rows, columns = {box.top for box in boxes}, {box.left for box in boxes}
    return responses.PictureCells(
        unit=units.name, rows=[*sorted(rows), x.height], columns=[*sorted(columns), x.width]
    )


def unit_names(model: Model, is_picture_model: bool) -> list[str]:
    """What can be removed as one, for the picker of the page."""
    if not is_picture_model:
        return ["word", "token", "sentence"]
    names = ["patch"] if "attentions" in model.capabilities else []
    names += [f"grid:{side}" for side in GRIDS]
    return names + (["superpixel"] if find_spec("skimage") else [])
