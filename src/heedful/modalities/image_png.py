"""PNG files of 8-bit colours, written and read here: a result opens without Pillow.

Only what `png` writes is read (8-bit colours, no filter, no interlacing). A file is hostile until parsed: its
header is checked first, and never more is unpacked than the header says.
"""

from __future__ import annotations

import struct
import zlib

import numpy as np

from heedful.core.unpack import unpacked
from heedful.modalities.image_files import Pixels
from heedful.modalities.png_length import SIGNATURE


def png(pixels: Pixels) -> bytes:
    """(H, W, 3) -> a file."""
    height, width, _ = pixels.shape
    lines = b"".join(b"\0" + pixels[row].tobytes() for row in range(height))

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return SIGNATURE + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(lines, 9)) + chunk(b"IEND", b"")


def from_png(content: bytes, most: int) -> Pixels:
    """The inverse, of at most `most` pixels per side. What does not fit raises ValueError."""
    if len(content) < 45 or content[:8] != SIGNATURE or content[12:16] != b"IHDR":
        raise ValueError("the picture is not a PNG file")
    width, height, *form = struct.unpack(">IIBBBBB", content[16:29])
    if form != [8, 2, 0, 0, 0] or not (0 < width <= most and 0 < height <= most):
        raise ValueError(f"the picture is no PNG of 8-bit colours of at most {most} x {most} pixels")
    (length,) = struct.unpack(">I", content[33:37])
    packed = content[41 : 41 + length]
    size = height * (1 + 3 * width)
    if content[37:41] != b"IDAT" or len(packed) != length:
        raise ValueError("the colours do not fit the size of the picture")
    data = unpacked(packed, size)
    lines = np.frombuffer(data, np.uint8).reshape(height, 1 + 3 * width)
    if lines[:, 0].any():
        raise ValueError("the picture was written by another program")
    return lines[:, 1:].reshape(height, width, 3).copy()
