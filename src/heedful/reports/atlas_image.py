"""A small picture of each head, as PNG, with nothing but zlib.

Each pixel is the mean weight of its block of the map, drawn as the square root of its share of the largest
block: one hue in sixteen strengths of opacity, so the same picture stands on light and on dark paper.
"""

from __future__ import annotations

import base64
import struct
import zlib

import numpy as np
import numpy.typing as npt

HUE = (0x3D, 0x85, 0xD1)  # at least 3.8 : 1 on the light and on the dark paper
LEVELS = 16
SIDE, PIXELS = 32, 600_000  # largest side of a picture, and pixels of all heads together


def side(heads: int) -> int:
    """Side of each picture: smaller where there are many heads."""
    return max(12, min(SIDE, int((PIXELS / max(1, heads)) ** 0.5)))


def shrink(rows: npt.NDArray[np.floating], most: int) -> npt.NDArray[np.float64]:
    """(Q, K) -> means of at most `most` by `most` blocks of nearly equal size."""
    out = rows.astype(np.float64)
    for axis in (0, 1):
        size = out.shape[axis]
        count = min(size, most)
        starts = np.arange(count) * size // count
        lengths = np.diff(starts, append=size)
        sums = np.add.reduceat(out, starts, axis=axis)
        out = sums / (lengths[:, None] if axis == 0 else lengths[None, :])
    return out


def strengths(rows: npt.NDArray[np.floating], most: int = SIDE) -> npt.NDArray[np.float64]:
    """What is drawn: square root of the share of the largest block, 0 to 1."""
    small = shrink(rows, most)
    largest = small.max(initial=0.0)
    return np.sqrt(small / largest) if largest > 0 else small


def png(strength: npt.NDArray[np.float64], hue: tuple[int, int, int] = HUE) -> bytes:
    """(R, C) of 0 to 1 as a palette PNG of four bits a pixel, transparent where 0."""
    rows, columns = strength.shape
    levels = np.rint(np.clip(strength, 0, 1) * (LEVELS - 1)).astype(np.uint8)
    even = np.pad(levels, ((0, 0), (0, columns % 2)))
    packed = (even[:, ::2] << 4) | even[:, 1::2]  # two pixels a byte
    lines = np.pad(packed, ((0, 0), (1, 0)))  # filter 0 before each line
    opacity = bytes(round(255 * level / (LEVELS - 1)) for level in range(LEVELS))
    chunks = (
        (b"IHDR", struct.pack(">IIBBBBB", columns, rows, 4, 3, 0, 0, 0)),
        (b"PLTE", bytes(hue) * LEVELS),
        (b"tRNS", opacity),
        (b"IDAT", zlib.compress(lines.tobytes(), 9)),
        (b"IEND", b""),
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(name, body) for name, body in chunks)


def _chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def uri(picture: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(picture).decode()
