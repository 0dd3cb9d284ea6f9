"""Colours of 8 bits, (H, W, 3), from what a decoder or a user has. Brightness never depends on the content.

    8 bits                as they are
    16 bits (12 in TIFF)  divided by the largest value of so many bits, and a note
    floats                from 0 to 1; others are refused
    32-bit whole numbers  refused: nothing says which of them is white
    transparent parts     on white

The work is done in bands of rows, so that it takes little more memory than the picture and its colours.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from heedful.core.errors import HeedfulError

if TYPE_CHECKING:
    from PIL.Image import Image

Pixels = npt.NDArray[np.uint8]  # (H, W, 3)

WHITE = 255
BAND_PIXELS = 1 << 18  # that are worked with at once
ON_WHITE = "transparent parts are shown on white"
SIXTEEN_GREY = "16-bit grey, shown in 8 bits"
FLOATS = "floats from 0 to 1, shown in 8 bits"
SIXTEEN = "16 bits per colour, shown in 8 bits"
BITS_PER_SAMPLE = 258  # the TIFF tag
SIXTEEN_FORMATS = ("PNG", "PPM")  # whose mode "I" has 16 bits
NUMBERS = "Save it with 8 or 16 bits per colour, or as floats from 0 to 1"


def bands(height: int, width: int) -> Iterator[slice]:
    """Rows, a few at a time."""
    rows = max(1, BAND_PIXELS // width)
    return (slice(top, min(top + rows, height)) for top in range(0, height, rows))


def is_wide(image: Image) -> bool:
    """More than 8 bits per pixel in one channel."""
    return image.mode.startswith("I") or image.mode == "F"


def depth_notes(image: Image) -> tuple[str, ...]:
    """What is said of a picture of more than 8 bits. It is asked before the picture is decoded."""
    if image.mode == "F":
        return (FLOATS,)
    if is_wide(image):
        return (SIXTEEN_GREY,)
    return (SIXTEEN,) if any(_is_deep(tile[3]) for tile in getattr(image, "tile", [])) else ()


def _is_deep(args: Any) -> bool:
    """Of what a decoder is told: the layout of the file, such as "RGB;16B", or the largest value of a PPM."""
    args = args if isinstance(args, tuple) else (args,)
    layout = args[0] if args and isinstance(args[0], str) else ""
    largest = args[1] if len(args) == 2 and isinstance(args[1], int) else 0
    return bool(re.search(r";16[BLN]$", layout)) or largest > WHITE


def as_eight_bits(image: Image) -> Image:
    """A grey picture of 16 bits or of floats with 8 bits."""
    from PIL import Image as image_module

    divisor, (width, height) = _divisor(image), image.size
    out = np.empty((height, width), dtype=np.uint8)
    for rows in bands(height, width):
        values = np.asarray(_rows_of(image, rows), dtype=np.float64) / divisor
        if image.mode == "F":
            _check_shares(values)
        out[rows] = np.round(np.clip(values, 0, 1) * WHITE)
    return image_module.fromarray(out)


def _divisor(image: Image) -> float:
    """What is white, by the mode and the format."""
    if image.mode == "F":
        return 1.0
    if image.mode == "I" and image.format not in SIXTEEN_FORMATS:
        raise HeedfulError(
            "the picture has whole numbers of 32 bits", "nothing says which of them is white", NUMBERS
        )
    tags: Any = getattr(image, "tag_v2", None) or {}
    bits = tags.get(BITS_PER_SAMPLE, (16,))
    return float((1 << int(bits[0])) - 1)


def of_image(image: Image) -> tuple[Pixels, tuple[str, ...]]:
    """Of a decoded picture with at most 8 bits per channel."""
    width, height = image.size
    layered = "A" in image.getbands() or "a" in image.getbands() or "transparency" in image.info
    out, clear = np.empty((height, width, 3), dtype=np.uint8), False
    for rows in bands(height, width):
        band = np.asarray(_rows_of(image, rows).convert("RGBA" if layered else "RGB"))
        clear = clear or (layered and int(band[..., 3].min()) < WHITE)
        out[rows] = on_white(band / WHITE) if layered else band
    return out, (ON_WHITE,) if clear else ()


def _rows_of(image: Image, rows: slice) -> Image:
    return image.crop((0, rows.start, image.size[0], rows.stop))


def of_array(array: npt.NDArray[Any]) -> tuple[Pixels, tuple[str, ...]]:
    """Of (H, W), (H, W, 1), (H, W, 3) or (H, W, 4): uint8, uint16, or numbers from 0 to 1."""
    if array.ndim == 2:
        array = array[..., None]
    if array.ndim == 3 and array.size and array.shape[0] in (1, 3, 4) and array.shape[2] not in (1, 3, 4):
        raise HeedfulError(
            f"an array of shape {array.shape} is no picture",
            "its channels are first",
            "Put them last: array.transpose(1, 2, 0)",
        )
    if array.ndim != 3 or array.shape[2] not in (1, 3, 4) or not array.size:
        raise HeedfulError(
            f"an array of shape {array.shape} is no picture",
            fix="Give (height, width), (height, width, 3) or (height, width, 4)",
        )
    as_shares, notes = _reader_of(array.dtype)
    out = np.empty((*array.shape[:2], 3), dtype=np.uint8)
    if not notes and array.dtype != np.uint8:
        _check_shares(array)
    for rows in bands(*array.shape[:2]):
        out[rows] = on_white(as_shares(array[rows]))
    return out, notes


def _reader_of(
    dtype: np.dtype[Any],
) -> tuple[Callable[[npt.NDArray[Any]], npt.NDArray[np.float64]], tuple[str, ...]]:
    """Numbers of this type as shares of white, and a note."""
    if dtype.kind == "u" and dtype.itemsize <= 2:
        top = np.float64((1 << 8 * dtype.itemsize) - 1)
        return lambda band: band / top, () if dtype.itemsize == 1 else (SIXTEEN,)
    if dtype.kind in "fbiu":
        return lambda band: band.astype(np.float64), ()
    raise HeedfulError(f"an array of {dtype} is no picture", fix="Give uint8 or floats")


def _check_shares(values: npt.NDArray[Any]) -> None:
    lowest, highest = float(values.min()), float(values.max())
    if values.dtype.kind in "iu" and lowest >= 0 and 1 < highest <= WHITE:
        raise HeedfulError(
            f"the values of the picture are {lowest:g} to {highest:g}, of the type {values.dtype}",
            "nothing says which of them is white",
            "If 255 is white: array.astype(numpy.uint8)",
        )
    if not (lowest >= 0 and highest <= 1):  # also where one is not a number
        raise HeedfulError(
            f"the values of the picture are {lowest:.3g} to {highest:.3g}",
            "nothing says which of them is white",
            "Give 8 bits from 0 to 255, 16 bits from 0 to 65,535, or floats from 0 to 1",
        )


def on_white(shares: npt.NDArray[np.float64]) -> Pixels:
    """Shares of white (h, w, 1, 3 or 4) as 8-bit colours (h, w, 3)."""
    if shares.shape[2] == 4:
        alpha = shares[..., 3:]
        shares = shares[..., :3] * alpha + 1 - alpha
    colours = np.asarray(np.round(shares * WHITE), dtype=np.uint8)
    return np.repeat(colours, 3, axis=2) if colours.shape[2] == 1 else colours
