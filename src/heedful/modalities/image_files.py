"""A picture from whatever a user has: a path, bytes, PIL, numpy or torch. Files are hostile until parsed.

Size and format are read from the header, before anything is decoded: a file of 20,000 x 20,000 is refused
without taking its memory. Needs Pillow for files (`pip install 'heedful[images]'`). How decoded values become
colours of 8 bits: heedful.modalities.image_colours.
"""

from __future__ import annotations

import io
import logging
import os
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from heedful.core.errors import HeedfulError
from heedful.core.regular_file import regular_file
from heedful.modalities import image_colours
from heedful.modalities.image_colours import ON_WHITE, Pixels
from heedful.modalities.png_length import has_too_many_chunks, is_cut_short

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = [
    "FORMATS",
    "MAX_FILE_BYTES",
    "MAX_PIXELS",
    "ON_WHITE",
    "Picture",
    "Pixels",
    "read_picture",
    "resized",
]

FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "PPM")  # parsers that Pillow may use
MAX_FILE_BYTES = 128 << 20
MAX_PIXELS = 64_000_000  # of a file, by its header
ORIENTATION = 0x0112  # the EXIF tag
TIFF_TILE = (322, 323)  # the tags of the width and the height of a tile
UNREADABLE = "it is damaged, or no picture of a known format"
ADDRESS = re.compile(r"^[a-zA-Z][a-zA-Z0-9+.-]+://")


@dataclass(frozen=True, eq=False)
class Picture:
    """Colours of a picture, and what was done to get them."""

    pixels: Pixels  # (H, W, 3)
    source: str = "picture"
    notes: tuple[str, ...] = ()
    orientation: int = 1  # EXIF: how the file lies; the colours are upright


def read_picture(raw: Any, side: int | None = None) -> Picture:
    """A path, bytes, a PIL image, or an array of numpy or torch. `side`: a larger file is made smaller before
    its colours are worked with, so that it takes little memory."""
    if isinstance(raw, Picture):
        return raw
    if isinstance(raw, str | Path):
        return _from_path(raw, side)
    if isinstance(raw, bytes | bytearray | memoryview):
        return _decoded(io.BytesIO(raw), "picture", side)
    if type(raw).__module__.startswith("PIL."):
        with _one_clear_line("picture"):
            return _from_pil(raw, getattr(raw, "filename", "") or "picture")
    if type(raw).__module__.startswith("torch"):
        return _from_array(_from_torch(raw))
    if isinstance(raw, np.ndarray):
        return _from_array(raw)
    raise HeedfulError(
        f"a picture cannot be read from {type(raw).__name__}",
        fix="Give a path, bytes, a PIL image, or an array of shape (height, width, 3)",
    )


def read_levels(path: str | Path) -> npt.NDArray[Any] | None:
    """The values of a grey file of more than 8 bits as they are stored, (H, W): a mask may have small numbers
    in 16 bits. None for other files."""
    with opened_file(path) as file, _opened(file, str(path)) as image:
        if not image_colours.is_wide(image):
            return None
        left = _left_to_turn(image)
        image.load()
        return np.asarray(_upright(image, left)).copy()


def _from_path(path: str | Path, side: int | None) -> Picture:
    with opened_file(path) as file:
        return _decoded(file, str(path), side)


def check_header(path: str | Path) -> None:
    """Refuses a file whose header says that it is no picture, or too large. Nothing is decoded."""
    with opened_file(path) as file, _opened(file, str(path)):
        pass


def refuse_address(given: Any) -> None:
    """An address of the web is no path; said before a path is made of it, which changes it."""
    if isinstance(given, str) and ADDRESS.match(given):
        raise HeedfulError(
            f"{given} is an address, not a file",
            "heedful fetches no pictures",
            "Download it, and give the path of the file",
        )


@contextmanager
def opened_file(given: str | Path) -> Iterator[Any]:
    """A regular file that is not too large for a picture; anything else is a HeedfulError."""
    refuse_address(given)
    path = Path(given)
    if "\0" in str(path):
        raise HeedfulError(f"{str(path)!r} is no path", "it contains a null character")
    try:
        with regular_file(path, "Name a picture, such as photo.jpg") as file:
            size = os.fstat(file.fileno()).st_size
            if size > MAX_FILE_BYTES:
                raise HeedfulError(f"{path} has {size >> 20} MB", f"the limit is {MAX_FILE_BYTES >> 20} MB")
            yield file
    except FileNotFoundError:
        raise HeedfulError(f"there is no file {path}") from None
    except OSError as error:
        raise HeedfulError(f"{path} cannot be read", error.strerror or str(error)) from error


@contextmanager
def _opened(file: Any, source: str) -> Iterator[Image]:
    """A file whose header says that it is not too large."""
    image_module = pillow()
    with _one_clear_line(source):
        if has_too_many_chunks(file):
            raise HeedfulError(f"{source} cannot be read as a picture", "it has too many parts")
        try:
            opened = image_module.open(file, formats=FORMATS)
        except image_module.DecompressionBombError:
            raise _too_large(source, _size_by_header(file)) from None
        with opened as image:
            _check_size(image, source)
            if image.format == "PNG" and is_cut_short(file):
                raise HeedfulError(f"{source} cannot be read as a picture", "its data end early")
            yield image


def _check_size(image: Image, source: str) -> None:
    width, height = image.size
    if width * height > MAX_PIXELS:
        raise _too_large(source, f"{width:,} × {height:,} pixels")
    if image.format == "TIFF":
        tags = getattr(image, "tag_v2", {})
        wide, high = (tags.get(tag, 0) for tag in TIFF_TILE)
        if wide * high > MAX_PIXELS:  # a tile is decoded whole, however small the picture in it is
            raise _too_large(source, f"tiles of {wide:,} × {high:,} pixels")


def _size_by_header(file: Any) -> str:
    """Of a file so large that Pillow refuses to open it: its parsers read the header alone."""
    file.seek(0)
    start = file.read(16)
    for factory, accept in (pillow().OPEN[name] for name in FORMATS if name in pillow().OPEN):
        if accept is not None and accept(start) is True:
            file.seek(0)
            try:
                width, height = factory(file).size
            except Exception:  # a parser may raise anything; the size is only for the message
                break
            return f"{width:,} × {height:,} pixels"
    return "more pixels than Pillow opens"


def _decoded(file: Any, source: str, side: int | None) -> Picture:
    with _opened(file, source) as image:
        return _from_pil(image, source, side)


def _shrunk(image: Image, side: int) -> Image:
    """At most so many pixels per side. A palette cannot be resampled as it is."""
    from PIL.Image import Resampling

    if image.mode in ("P", "PA", "1", "LA"):
        image = image.convert("RGBA")
    image.thumbnail((side, side), Resampling.BILINEAR)
    return image


def _too_large(source: str, size: str) -> HeedfulError:
    what = f"{source} is too large: it has {size}"
    return HeedfulError(what, f"the limit is {MAX_PIXELS:,} pixels", "Make it smaller first")


def pillow() -> Any:
    """Pillow's module `Image`, or one line that says how to get it."""
    try:
        from PIL import Image
    except ImportError:
        raise HeedfulError(
            "pictures need Pillow", "it is not installed", "pip install 'heedful[images]'"
        ) from None
    # without a handler, Python prints what Pillow logs about a damaged file beside our own line
    logger = logging.getLogger("PIL")
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
    return Image


@contextmanager
def _one_clear_line(source: str) -> Iterator[None]:
    """Whatever a parser raises on a damaged file, in one sentence."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of large pictures and odd metadata: sizes are checked here
            yield
    except HeedfulError:
        raise
    except Exception as error:  # parsers raise OSError, SyntaxError, ValueError, struct.error, EOFError, ...
        raise HeedfulError(
            f"{source} cannot be read as a picture", _reason(error), f"Known formats: {', '.join(FORMATS)}"
        ) from error


def _reason(error: Exception) -> str:
    """What Pillow says, unless it is about Python's objects."""
    if isinstance(error, MemoryError):
        return "there is not enough memory"
    said = " ".join(str(error).split())[:200]
    of_pillow = isinstance(error, OSError | SyntaxError | ValueError) and "<" not in said
    return said if of_pillow and said else UNREADABLE


def _from_pil(image: Image, source: str, side: int | None = None) -> Picture:
    notes = ["the first of several frames"] if _has_frames(image) else []
    _check_size(image, source)  # a picture may be opened and not yet decoded
    limit = side if side is not None and max(image.size) > side else None
    notes += image_colours.depth_notes(image)
    turn, left = _orientation(image), _left_to_turn(image)
    if image_colours.is_wide(image):
        image.load()
        image = image_colours.as_eight_bits(image)
    if limit is not None:
        image = _shrunk(image, limit)
    image.load()
    pixels, made = image_colours.of_image(_upright(image, left))
    picture = Picture(pixels, source, (*notes, *made), turn)
    return picture if limit is None else _with_size_note(picture, limit)


def _has_frames(image: Image) -> bool:
    """Whether there is a second one. Pillow would count them by reading the whole file, which may have a
    million."""
    if not getattr(image, "is_animated", False):
        return False
    image.seek(0)
    return True


def _with_size_note(picture: Picture, side: int) -> Picture:
    made = f"{picture.pixels.shape[1]:,} × {picture.pixels.shape[0]:,} pixels"
    note = f"made smaller to {made}: more than {side:,} pixels per side are not kept"
    return replace(picture, notes=(*picture.notes, note))


def _orientation(image: Image) -> int:
    turn = image.getexif().get(ORIENTATION, 1)
    return turn if isinstance(turn, int) and 1 <= turn <= 8 else 1


def _left_to_turn(image: Image) -> int:
    """Pillow turns a TIFF upright itself when it decodes it."""
    return 1 if image.format == "TIFF" else _orientation(image)


def _upright(image: Image, orientation: int) -> Image:
    from PIL.Image import Transpose

    ways = {
        2: Transpose.FLIP_LEFT_RIGHT,
        3: Transpose.ROTATE_180,
        4: Transpose.FLIP_TOP_BOTTOM,
        5: Transpose.TRANSPOSE,
        6: Transpose.ROTATE_270,
        7: Transpose.TRANSVERSE,
        8: Transpose.ROTATE_90,
    }
    return image.transpose(ways[orientation]) if orientation in ways else image


def _from_torch(tensor: Any) -> npt.NDArray[Any]:
    tensor = tensor.detach().cpu()
    try:
        array = (tensor.float() if tensor.is_floating_point() else tensor).numpy()
    except (TypeError, RuntimeError, NotImplementedError):
        raise HeedfulError(
            f"a tensor of {tensor.dtype} is no picture", fix="Give uint8 from 0 to 255, or floats from 0 to 1"
        ) from None
    return _channels_last(array)


def _channels_last(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """torch has channels first."""
    if array.ndim == 4 and len(array) == 1:
        array = array[0]
    if array.ndim == 3 and array.shape[0] in (1, 3, 4):
        if array.shape[2] in (1, 3, 4):
            raise HeedfulError(
                f"a tensor of shape {array.shape} can be read in two ways",
                "its channels may be first or last",
                "Give an array of numpy of shape (height, width, 3)",
            )
        array = array.transpose(1, 2, 0)
    return array


def _from_array(array: npt.NDArray[Any]) -> Picture:
    pixels, notes = image_colours.of_array(array)
    return Picture(pixels, notes=notes)


def resized(pixels: Pixels, size: tuple[int, int]) -> Pixels:
    """By Pillow, bilinear: anti-aliased, as image processors do."""
    image_module = pillow()
    made = image_module.fromarray(pixels).resize((size[1], size[0]), image_module.Resampling.BILINEAR)
    return np.asarray(made).copy()
