"""A picture as JSON and back. Needs no Pillow for a picture that is stored whole.

    keep="png"    a PNG of at most 512 pixels per side, as the model saw it
    keep="path"   the path of the file and its SHA-256, and which part of it the model saw

What comes back from a path is the same picture only if the checksum is the same. If the file is gone or has
changed, the result opens without its picture, and a note says why. Superpixels depend on the colours, so
their shapes are stored beside either.
"""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from heedful.core.errors import HeedfulError
from heedful.core.unpack import unpacked
from heedful.modalities.image import ImageInput, pieces
from heedful.modalities.image_files import Pixels, opened_file, read_picture, resized
from heedful.modalities.image_png import from_png, png

MAX_STORED_PIXELS = 4_000_000  # of a picture as a model sees it
MAX_REGION_PIXELS = 1 << 29  # of all regions together; a picture of 1024 x 1024 pixels may have 512
MAX_SIDE = 512  # of the PNG
MAX_PIECES = 4096
KEEP = ("png", "path")
NOT_SHOWN = "the picture is not shown: "
GREY = 128  # shown where the picture is not there


def to_dict(x: ImageInput, keep: str = "png") -> dict[str, Any]:
    if len(x.regions) * x.height * x.width > MAX_REGION_PIXELS:
        what = f"{len(x.regions)} regions of {x.width} x {x.height} pixels"
        raise HeedfulError(f"{what} cannot be stored", "they are too large", "Give fewer regions")
    known = x.known_units("superpixel")
    cuts = {} if known is None else {"superpixels": _packed(known.owner.astype("<u2").tobytes())}
    return {
        "modality": x.modality,
        "height": x.height,
        "width": x.width,
        **_stored(x, keep),
        **cuts,
        "grid": list(x.grid),
        "special": x.special,
        "regions": [[name, _packed(np.packbits(mask).tobytes())] for name, mask in x.regions],
        "source": x.source,
        "notes": list(x.notes),
    }


def _stored(x: ImageInput, keep: str) -> dict[str, Any]:
    if keep not in KEEP:
        raise HeedfulError(f"keep cannot be {keep!r}", fix=f"Use one of: {', '.join(KEEP)}")
    if keep == "png":
        share = min(1.0, MAX_SIDE / max(x.height, x.width))
        size = (max(1, round(x.height * share)), max(1, round(x.width * share)))
        return {"png": base64.b64encode(png(x.pixels if share == 1 else resized(x.pixels, size))).decode()}
    if x.kept[0]:  # it may be gone by now
        return {"path": x.kept[0], "sha256": x.kept[1], "window": list(x.window)}
    path = Path(x.source)
    if not path.is_file():
        raise HeedfulError(
            "the path of the picture cannot be kept", f"there is no file {x.source}", 'Use keep="png"'
        )
    with opened_file(path) as file:
        checksum = hashlib.file_digest(file, "sha256").hexdigest()
    return {"path": str(path.resolve()), "sha256": checksum, "window": list(x.window)}


def from_dict(data: Mapping[str, Any], most: int = MAX_STORED_PIXELS) -> ImageInput:
    """What does not fit raises ValueError, and so does a picture of more than `most` pixels."""
    height, width = int(data["height"]), int(data["width"])
    if not (height > 0 and width > 0 and height * width <= most):
        raise ValueError(f"a picture of {width} x {height} pixels")
    if len(data["regions"]) * height * width > MAX_REGION_PIXELS:
        raise ValueError(f"{len(data['regions']):,} regions of {width} x {height} pixels")
    pixels, notes, window = _colours(data, (height, width))
    rows, columns = (int(side) for side in data["grid"])
    special = int(data["special"])
    if not (0 <= rows <= height and 0 <= columns <= width and 0 <= special <= 64):
        raise ValueError("the patches do not fit the picture")
    masks = [(str(name), _mask(packed, height, width)) for name, packed in data["regions"]]
    told = tuple(str(note) for note in data["notes"])
    x = ImageInput(
        pixels,
        (rows, columns),
        special,
        tuple(masks),
        str(data["source"]),
        (*(note for note in told if not note.startswith(NOT_SHOWN)), *notes),
        window,
        (str(data["path"]), str(data["sha256"])) if "path" in data else ("", ""),
    )
    if "superpixels" in data:
        labels = np.frombuffer(unpacked(_decoded(data["superpixels"]), 2 * height * width), dtype="<u2")
        if labels.max() >= MAX_PIECES:
            raise ValueError("there are too many pieces")
        x.know(pieces("superpixel", labels.astype(np.intp).reshape(height, width)))
    return x


def _colours(data: Mapping[str, Any], size: tuple[int, int]) -> tuple[Pixels, tuple[str, ...], Any]:
    """(colours, a note where they are not there, the part of the file that the model saw)"""
    whole = (0.0, 0.0, 1.0, 1.0)
    if "png" in data:
        pixels = from_png(_decoded(data["png"]), MAX_SIDE)
        return pixels if pixels.shape[:2] == size else resized(pixels, size), (), whole
    window = tuple(float(share) for share in data["window"])
    if len(window) != 4 or not all(0 <= share <= 1 for share in window) or not _ordered(window):
        raise ValueError("the part of the picture that was seen is no box")
    try:
        return _from_path(str(data["path"]), str(data["sha256"]), window, size), (), window
    except HeedfulError as error:
        return np.full((*size, 3), GREY, np.uint8), (f"{NOT_SHOWN}{error.what}",), window


def _ordered(window: tuple[float, ...]) -> bool:
    return window[0] < window[2] and window[1] < window[3]


def _from_path(path: str, known: str, window: tuple[float, ...], size: tuple[int, int]) -> Pixels:
    """Only the file that was explained is read: another one under its name has another checksum."""
    with opened_file(path) as file:
        content = file.read()
    if hashlib.sha256(content).hexdigest() != known:
        raise HeedfulError(f"{path} has changed since it was explained")
    pixels = read_picture(content).pixels
    height, width = pixels.shape[:2]
    left, top, right, bottom = (
        round(share * side) for share, side in zip(window, (width, height) * 2, strict=True)
    )
    seen = pixels[top : max(bottom, top + 1), left : max(right, left + 1)]
    return seen.copy() if seen.shape[:2] == size else resized(seen, size)


def _mask(packed: str, height: int, width: int) -> npt.NDArray[np.bool_]:
    bits = np.frombuffer(unpacked(_decoded(packed), (height * width + 7) // 8), dtype=np.uint8)
    return np.unpackbits(bits, count=height * width).astype(bool).reshape(height, width)


def _packed(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data, 6)).decode()


def _decoded(text: Any) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (ValueError, TypeError) as error:
        raise ValueError(f"the picture cannot be read: {error}") from None
