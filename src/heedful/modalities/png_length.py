"""Whether the data of a PNG file fill its picture, and whether it has a sensible number of parts.

Pillow paints the rest black, without a word, where the compressed data end early but properly. Here they are
unpacked piece by piece and counted; nothing is kept. PNG specification, third edition, sections 7 and 8.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import BinaryIO

SIGNATURE = b"\x89PNG\r\n\x1a\n"
CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}  # by the colour type of the header
# Adam7: first column, first row, step across, step down, of each pass
PASSES = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))
PIECE_BYTES = 1 << 16
MAX_CHUNKS = 50_000  # parts of a file: Pillow takes 20 µs for each; 128 MB in parts of 8 KB have 16,000


def has_too_many_chunks(file: BinaryIO) -> bool:
    """Of a PNG; other files have none. The place in the file stays as it was."""
    place = file.tell()
    try:
        if file.read(len(SIGNATURE)) != SIGNATURE:
            return False
        for _ in range(MAX_CHUNKS):
            if len(head := file.read(8)) < 8 or head[4:] == b"IEND":
                return False
            file.seek(int.from_bytes(head[:4], "big") + 4, 1)
        return True
    finally:
        file.seek(place)


def is_cut_short(file: BinaryIO) -> bool:
    """Whether the compressed data come to an end before the picture does. Other damage is left to the
    decoder. The place in the file stays as it was."""
    place = file.tell()
    try:
        file.seek(0)
        return _is_cut_short(file)
    except (struct.error, zlib.error, KeyError):
        return False
    finally:
        file.seek(place)


def _is_cut_short(file: BinaryIO) -> bool:
    if file.read(len(SIGNATURE)) != SIGNATURE:
        return False
    _, kind = struct.unpack(">I4s", file.read(8))
    if kind != b"IHDR":
        return False
    width, height, depth, colours, _, _, interlaced = struct.unpack(">IIBBBBB", file.read(13))
    file.read(4)  # its checksum
    expected = data_bytes(width, height, depth * CHANNELS[colours], bool(interlaced))
    unpack, count = zlib.decompressobj(), 0
    for piece in _compressed(file):
        while piece and count < expected and not unpack.eof:
            count += len(unpack.decompress(piece, PIECE_BYTES))
            piece = unpack.unconsumed_tail
    return unpack.eof and count < expected


def data_bytes(width: int, height: int, bits: int, interlaced: bool) -> int:
    """Bytes of the rows, each with one byte that names its filter. `bits`: of a pixel."""
    passes = PASSES if interlaced else ((0, 0, 1, 1),)
    total = 0
    for left, top, across, down in passes:
        columns, rows = (width - left + across - 1) // across, (height - top + down - 1) // down
        total += rows * (1 + (columns * bits + 7) // 8) if columns > 0 else 0
    return total


def _compressed(file: BinaryIO) -> Iterator[bytes]:
    """The content of the chunks IDAT, which follow each other, in pieces."""
    begun = False
    while len(head := file.read(8)) == 8:
        left, kind = struct.unpack(">I4s", head)
        if begun and kind != b"IDAT":
            return
        begun = kind == b"IDAT"
        while left and kind == b"IDAT" and (piece := file.read(min(left, PIECE_BYTES))):
            left -= len(piece)
            yield piece
        file.seek(left + 4, 1)  # the rest of it, and its checksum
