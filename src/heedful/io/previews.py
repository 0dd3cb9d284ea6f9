"""An input in small, for reports that show single rows of an audit: of a picture at most 96 pixels per side.

    keep="png"    the small picture itself
    keep="path"   the path of its file and the SHA-256: the picture is read again only if both are right

A preview is JSON text, as `heedful.io.input_codec` writes an input. Cells and patches are counted as before.
Units of other shapes become regions whose names are their numbers, since small ones may vanish. A text has no
preview: its words are in the table of scores.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np

from heedful.core.errors import HeedfulError
from heedful.core.input import Input
from heedful.core.whole_numbers import whole_number
from heedful.io.input_codec import input_to_dict
from heedful.modalities import image_codec
from heedful.modalities.image import ImageInput
from heedful.modalities.image_codec import KEEP
from heedful.modalities.image_files import resized

__all__ = ["KEEP", "preview_of", "preview_unit", "read_preview"]

MAX_SIDE = 96
MAX_CHARS = 400_000  # of a preview: 96 x 96 colours of noise and 1,000 regions have fewer


def preview_of(x: Input, unit: str, keep: str = "png") -> str:
    """JSON text; "" of a text, and of a picture without a file if only its path may be kept."""
    if not isinstance(x, ImageInput):
        return ""
    try:
        text = json.dumps(input_to_dict(_small(x, unit), keep), sort_keys=True)
    except HeedfulError:
        return ""
    return text if len(text) <= MAX_CHARS else ""


def _small(x: ImageInput, unit: str) -> ImageInput:
    share = min(1.0, MAX_SIDE / max(x.height, x.width))
    height, width = max(1, round(share * x.height)), max(1, round(share * x.width))
    regions: Any = ()
    if not 0 < _cells(x, unit or x.default_unit) <= min(height, width):
        down = ((np.arange(height) + 0.5) / share).astype(int).clip(max=x.height - 1)
        along = ((np.arange(width) + 0.5) / share).astype(int).clip(max=x.width - 1)
        owner = x.units(unit).owner.reshape(x.height, x.width)[np.ix_(down, along)]
        regions = tuple((str(number), owner == number) for number in np.unique(owner[owner >= 0]))
    pixels = x.pixels if share == 1 else resized(x.pixels, (height, width))
    grid = (0, 0) if regions else x.grid
    return replace(x, pixels=pixels, grid=grid, regions=regions, notes=())


def _cells(x: ImageInput, unit: str) -> int:
    """Per side, of units that are counted by row and column; 0 of others."""
    if unit == "patch":
        return max(x.grid)
    return int(unit.removeprefix("grid:")) if unit.startswith("grid:") else 0


def read_preview(text: str) -> ImageInput:
    """The small picture. What is no preview raises ValueError: it may come from a stranger's folder."""
    if len(text) > MAX_CHARS:
        raise ValueError("a preview is too long")
    try:
        data = json.loads(text)
        if data["modality"] != ImageInput.modality:
            raise ValueError("a preview is no picture")
        x = image_codec.from_dict(data, MAX_SIDE * MAX_SIDE)
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"a preview cannot be read: {error!r:.80}") from None
    if max(x.height, x.width) > MAX_SIDE:
        raise ValueError(f"a preview is no picture of at most {MAX_SIDE} pixels per side")
    return x


def preview_unit(x: ImageInput, unit: str) -> tuple[str, list[int]]:
    """(the unit to draw, for each unit of the preview its number among the units that have scores)"""
    if not x.regions:
        return unit or x.default_unit, list(range(len(x.units(unit))))
    numbers = [whole_number(label) for label in x.units("region").labels]
    return "region", [-1 if number is None else number for number in numbers]
