"""A picture from whatever a user has: a path, bytes, PIL, numpy or torch. Files are hostile until parsed.

Size and format are read from the header, before anything is decoded: a file of 20,000 x 20,000 is refused
without taking its memory. Needs Pillow for files (`pip install 'heedful[images]'`).
"""

from __future__ import annotations

import io
import stat
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from heedful.core.errors import HeedfulError

if TYPE_CHECKING:
    from PIL.Image import Image

Pixels = npt.NDArray[np.uint8]  # (H, W, 3)

FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "PPM")  # parsers that Pillow may use
MAX_FILE_BYTES = 128 << 20
MAX_PIXELS = 64_000_000  # of a file, by its header
WHITE = 255
ON_WHITE = "transparent parts are shown on white"
ORIENTATION = 0x0112  # the EXIF tag


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
        return _from_path(Path(raw), side)
    if isinstance(raw, bytes | bytearray | memoryview):
        return _decoded(io.BytesIO(raw), "picture", side)
    if type(raw).__module__.startswith("PIL."):
        return _from_pil(raw, getattr(raw, "filename", "") or "picture")
    if type(raw).__module__.startswith("torch"):
        return _from_array(_channels_last(raw.detach().cpu().numpy()))
    if isinstance(raw, np.ndarray):
        return _from_array(raw)
    raise HeedfulError(
        f"a picture cannot be read from {type(raw).__name__}",
        fix="Give a path, bytes, a PIL image, or an array of shape (height, width, 3)",
    )


def _from_path(path: Path, side: int | None) -> Picture:
    try:
        facts = path.stat()
        if not stat.S_ISREG(facts.st_mode):
            raise HeedfulError(f"{path} is not a file", fix="Name a picture, such as photo.jpg")
        if facts.st_size > MAX_FILE_BYTES:
            raise HeedfulError(
                f"{path} has {facts.st_size >> 20} MB", f"the limit is {MAX_FILE_BYTES >> 20} MB"
            )
        with path.open("rb") as file:
            return _decoded(file, str(path), side)
    except OSError as error:
        raise HeedfulError(f"{path} cannot be read", error.strerror or str(error)) from error


def _decoded(file: Any, source: str, side: int | None) -> Picture:
    image_module = pillow()
    with _one_clear_line(source), image_module.open(file, formats=FORMATS) as image:
        width, height = image.size
        if width * height > MAX_PIXELS:
            raise _too_large(source, f"{width:,} × {height:,} pixels")
        if side is None or max(width, height) <= side:
            return _from_pil(image, source)
        picture = _from_pil(_shrunk(image, side), source)
    made = f"{picture.pixels.shape[1]:,} × {picture.pixels.shape[0]:,} pixels"
    note = f"made smaller to {made}: more than {side:,} pixels per side are not kept"
    return Picture(picture.pixels, picture.source, (*picture.notes, note))


def _shrunk(image: Image, side: int) -> Image:
    """At most so many pixels per side. A palette or 16 bits cannot be resampled as they are."""
    from PIL.Image import Resampling

    if image.mode in ("P", "PA", "1", "LA"):
        image = image.convert("RGBA")
    elif image.mode.startswith("I;16"):
        image = image.convert("I")
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
    except pillow().DecompressionBombError:
        raise _too_large(source, "more than twice the pixels that Pillow reads") from None
    except Exception as error:  # parsers raise OSError, SyntaxError, ValueError, struct.error, EOFError, ...
        why = "it is damaged, or no picture of a known format" if not str(error) else str(error)[:200]
        raise HeedfulError(
            f"{source} cannot be read as a picture", why, f"Known formats: {', '.join(FORMATS)}"
        ) from error


def _from_pil(image: Image, source: str) -> Picture:
    from PIL import ImageOps

    notes = []
    with _one_clear_line(source):
        if getattr(image, "n_frames", 1) > 1:
            image.seek(0)
            notes.append(f"the first of {getattr(image, 'n_frames', 1)} frames")
        image.load()
        turn = image.getexif().get(ORIENTATION, 1)
        turn = turn if isinstance(turn, int) and 1 <= turn <= 8 else 1
        image = ImageOps.exif_transpose(image) or image
        if image.mode in ("I;16", "I;16B", "I;16L", "I", "F"):
            wide = np.asarray(image, dtype=np.float64)
            top = 65535.0 if wide.max(initial=0.0) > WHITE else float(WHITE)
            return Picture(
                _rgb(np.clip(wide / top, 0, 1)), source, (*notes, "16-bit grey, shown in 8 bits"), turn
            )
        if "A" in image.getbands() or "transparency" in image.info:
            layers = np.asarray(image.convert("RGBA"), dtype=np.float64) / WHITE
            alpha = layers[..., 3:]
            if alpha.min(initial=1.0) < 1:
                notes.append(ON_WHITE)
            return Picture(_rgb(layers[..., :3] * alpha + 1 - alpha), source, tuple(notes), turn)
        return Picture(np.asarray(image.convert("RGB")).copy(), source, tuple(notes), turn)


def _channels_last(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """torch has channels first."""
    if array.ndim == 4 and len(array) == 1:
        array = array[0]
    if array.ndim == 3 and array.shape[0] in (1, 3, 4) and array.shape[2] not in (1, 3, 4):
        array = array.transpose(1, 2, 0)
    return array


def _from_array(array: npt.NDArray[Any]) -> Picture:
    if array.ndim == 2:
        array = array[..., None]
    if array.ndim != 3 or array.shape[2] not in (1, 3, 4) or not array.size:
        raise HeedfulError(
            f"an array of shape {array.shape} is no picture",
            fix="Give (height, width), (height, width, 3) or (height, width, 4)",
        )
    if array.dtype == np.uint8:
        shares = array / np.float64(WHITE)
    elif array.dtype == np.uint16:
        shares = array / 65535.0
    elif array.dtype.kind in "fbiu":
        shares = array.astype(np.float64)
        if not np.isfinite(shares).all() or shares.min() < 0 or shares.max() > 1:
            raise HeedfulError(
                f"the values of the array are {shares.min():.3g} to {shares.max():.3g}",
                fix="Give uint8 from 0 to 255, or numbers from 0 to 1",
            )
    else:
        raise HeedfulError(f"an array of {array.dtype} is no picture", fix="Give uint8 or floats")
    if shares.shape[2] == 4:
        alpha = shares[..., 3:]
        shares = shares[..., :3] * alpha + 1 - alpha
    return Picture(_rgb(shares))


def _rgb(shares: npt.NDArray[np.float64]) -> Pixels:
    """Numbers from 0 to 1, one or three channels."""
    three = np.repeat(shares[..., None] if shares.ndim == 2 else shares, 3 if shares.ndim == 2 else 1, axis=2)
    if three.shape[2] == 1:
        three = np.repeat(three, 3, axis=2)
    return np.asarray(np.round(three * WHITE), dtype=np.uint8)


def resized(pixels: Pixels, size: tuple[int, int]) -> Pixels:
    """By Pillow, bilinear: anti-aliased, as image processors do."""
    image_module = pillow()
    made = image_module.fromarray(pixels).resize((size[1], size[0]), image_module.Resampling.BILINEAR)
    return np.asarray(made).copy()
