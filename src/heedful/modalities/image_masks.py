"""Where a thing is in a picture: a mask or boxes, in the coordinates of the picture's file.

    mask     a file or an array of the picture's size: places above half of its largest value are inside
    boxes    left, top, right, bottom; right and bottom are not included

A camera may store a picture lying on its side and say so (EXIF). The picture is turned upright when it is
read, and its mask is turned with it. A mask that has the size of the upright picture only is upright already.
How a model resizes and crops the picture is done to the mask by heedful.models.image_reader.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from heedful.core.errors import HeedfulError
from heedful.modalities.image_files import ON_WHITE, Picture, read_levels, read_picture

Mask = npt.NDArray[np.bool_]  # (H, W)
BOX = "Give left, top, right and bottom in whole pixels, such as 10,20,110,90, or a JSON list of such boxes"


@dataclass(frozen=True)
class TruthBoxes:
    """Boxes around the thing: left, top, right, bottom."""

    boxes: tuple[tuple[int, ...], ...]


def read_boxes(given: Any) -> TruthBoxes | None:
    """From "10 20 110 90", several separated by semicolons, JSON, or numbers; None where nothing is given."""
    if given is None or isinstance(given, TruthBoxes):
        return given
    if isinstance(given, str):
        if not given.strip():
            return None
        given = _written(given)
    try:
        table = np.asarray(given, dtype=np.float64)
        table = table[None] if table.ndim == 1 else table
        whole = np.isfinite(table).all() and (table == np.round(table)).all()
        if table.ndim == 2 and table.shape[1] == 4 and len(table) and whole:
            return TruthBoxes(tuple(tuple(int(value) for value in row) for row in table.tolist()))
    except (TypeError, ValueError, OverflowError):
        pass
    raise HeedfulError("the boxes cannot be read", f"they are {given!r:.60}", BOX)


def _written(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return [part.replace(",", " ").split() for part in text.split(";") if part.strip()]


def mask_of(given: Any, picture: Picture) -> Mask:
    """(H, W) of the upright picture, from a mask, the path of a mask, a box or boxes."""
    upright = picture.pixels.shape[:2]
    stored = upright[::-1] if picture.orientation >= 5 else upright
    if not isinstance(given, TruthBoxes | str | Path):
        shape: tuple[int, ...] = getattr(_array(given), "shape", ())
        if len(shape) == 1 or (len(shape) == 2 and shape[1] == 4 and shape not in (stored, upright)):
            given = read_boxes(given)
    if isinstance(given, TruthBoxes):
        return turned(_filled(given.boxes, stored), picture.orientation)
    mask = _read_mask(given)
    if mask.shape == stored:
        return turned(mask, picture.orientation)
    if mask.shape == upright:
        return mask
    raise HeedfulError(
        f"the mask has {mask.shape[1]} × {mask.shape[0]} pixels",
        f"its picture has {stored[1]} × {stored[0]}",
        "Give a mask of the size of its picture",
    )


def _filled(boxes: Sequence[Sequence[int]], size: tuple[int, ...]) -> Mask:
    mask = np.zeros(size, dtype=bool)
    for left, top, right, bottom in boxes:
        if not (0 <= left < right <= size[1] and 0 <= top < bottom <= size[0]):
            raise HeedfulError(
                f"the box {left} {top} {right} {bottom} does not fit the picture",
                f"it has {size[1]} × {size[0]} pixels",
                BOX,
            )
        mask[top:bottom, left:right] = True
    return mask


def _array(given: Any) -> Any:
    """Numbers as an array; other things as they are."""
    try:
        array = np.asarray(given)
    except (ValueError, TypeError, RuntimeError):  # rows of different lengths; tensors that are no arrays
        return given
    return array if array.dtype.kind in "biuf" else given


def _read_mask(given: Any) -> Mask:
    levels = read_levels(given) if isinstance(given, str | Path) else _array(given)
    if isinstance(levels, np.ndarray) and levels.ndim == 2:
        values = levels.astype(np.float64)
    else:
        picture = read_picture(given)
        if ON_WHITE in picture.notes:
            raise HeedfulError(
                f"{picture.source} is no mask", "it has transparent parts", "Save it in black and white"
            )
        values = picture.pixels.max(axis=2).astype(np.float64)
    if not np.isfinite(values).all():
        raise HeedfulError("the mask has values that are no numbers")
    top = values.max(initial=0.0)
    return np.asarray(values > top / 2) if top > 0 else np.zeros(values.shape, dtype=bool)


def turned(mask: Mask, orientation: int) -> Mask:
    """As a picture with this EXIF orientation is turned upright."""
    if orientation >= 5:  # lying on its side
        mask = mask.T
    across, down = {2: (1, 0), 3: (1, 1), 4: (0, 1), 6: (1, 0), 7: (1, 1), 8: (0, 1)}.get(orientation, (0, 0))
    return np.ascontiguousarray(mask[:: -1 if down else 1, :: -1 if across else 1])
