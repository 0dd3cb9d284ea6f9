"""A picture as JSON and back: its colours compressed, as the model saw them. Needs no Pillow."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from heedful.modalities.image import ImageInput

MAX_STORED_PIXELS = 4_000_000  # of a picture as a model sees it


def to_dict(x: ImageInput) -> dict[str, Any]:
    return {
        "modality": x.modality,
        "height": x.height,
        "width": x.width,
        "pixels": _packed(x.pixels.tobytes()),
        "grid": list(x.grid),
        "special": x.special,
        "regions": [[name, _packed(np.packbits(mask).tobytes())] for name, mask in x.regions],
        "source": x.source,
        "notes": list(x.notes),
    }


def from_dict(data: Mapping[str, Any]) -> ImageInput:
    """What does not fit raises ValueError."""
    height, width = int(data["height"]), int(data["width"])
    if not (height > 0 and width > 0 and height * width <= MAX_STORED_PIXELS):
        raise ValueError(f"a picture of {width} x {height} pixels")
    pixels = np.frombuffer(_unpacked(data["pixels"], 3 * height * width), dtype=np.uint8)
    rows, columns = (int(side) for side in data["grid"])
    special = int(data["special"])
    if not (0 <= rows <= height and 0 <= columns <= width and 0 <= special <= 64):
        raise ValueError("the patches do not fit the picture")
    masks = [(str(name), _mask(packed, height, width)) for name, packed in data["regions"]]
    return ImageInput(
        pixels.reshape(height, width, 3),
        (rows, columns),
        special,
        tuple(masks),
        str(data["source"]),
        tuple(str(note) for note in data["notes"]),
    )


def _mask(packed: str, height: int, width: int) -> Any:
    bits = np.frombuffer(_unpacked(packed, (height * width + 7) // 8), dtype=np.uint8)
    return np.unpackbits(bits, count=height * width).astype(bool).reshape(height, width)


def _packed(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data, 6)).decode()


def _unpacked(text: str, size: int) -> bytes:
    """Exactly so many bytes; never more are made than that."""
    try:
        data = zlib.decompressobj().decompress(base64.b64decode(text, validate=True), size + 1)
    except (zlib.error, ValueError, TypeError) as error:
        raise ValueError(f"the colours cannot be read: {error}") from None
    if len(data) != size:
        raise ValueError("the colours do not fit the size of the picture")
    return data
