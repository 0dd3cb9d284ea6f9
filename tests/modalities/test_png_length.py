"""Whether the data of a PNG fill its picture: against files of Pillow and pixels that are counted."""

from __future__ import annotations

import io
import struct
import zlib
from itertools import pairwise

import numpy as np
import pytest
from PIL import Image

from heedful.core.errors import HeedfulError
from heedful.modalities.image_files import read_picture
from heedful.modalities.png_length import PASSES, SIGNATURE, data_bytes, is_cut_short

BITS = {"1": 1, "L": 8, "P": 8, "LA": 16, "RGB": 24, "RGBA": 32, "I;16": 16}
COLOURS = {1: 0, 8: 0, 16: 4, 24: 2, 32: 6}


def chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def file_of(data: bytes, width: int, height: int, interlaced: int = 0, pieces: int = 1) -> bytes:
    """A file of grey pixels of 8 bits with these rows; its compressed data in so many chunks."""
    packed = zlib.compress(data)
    cuts = np.linspace(0, len(packed), pieces + 1).astype(int)
    parts = [chunk(b"IDAT", packed[a:b]) for a, b in pairwise(cuts)]
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, interlaced))
    return SIGNATURE + head + chunk(b"tEXt", b"a\0b") + b"".join(parts) + chunk(b"IEND", b"")


def unpacked(content: bytes) -> bytes:
    """The data of a file, chunk by chunk."""
    place, packed = len(SIGNATURE), b""
    while place < len(content):
        (length,) = struct.unpack(">I", content[place : place + 4])
        if content[place + 4 : place + 8] == b"IDAT":
            packed += content[place + 8 : place + 8 + length]
        place += 12 + length
    return zlib.decompress(packed)


@pytest.mark.parametrize("mode", BITS)
@pytest.mark.parametrize("size", [(1, 1), (7, 3), (8, 8), (33, 17)])
def test_as_many_bytes_as_pillow_writes(mode: str, size: tuple[int, int]) -> None:
    made = io.BytesIO()
    Image.new(mode, size).save(made, "PNG")
    bits = made.getvalue()[24] if mode == "P" else BITS[mode]  # Pillow packs a palette of few colours
    assert data_bytes(*size, bits, False) == len(unpacked(made.getvalue()))
    assert not is_cut_short(made)


@pytest.mark.parametrize("bits", COLOURS)
@pytest.mark.parametrize("size", [(1, 1), (2, 5), (5, 2), (8, 8), (13, 21)])
def test_interlaced_rows_are_counted_pixel_by_pixel(bits: int, size: tuple[int, int]) -> None:
    width, height = size
    total = 0
    for left, top, across, down in PASSES:
        columns, rows = len(range(left, width, across)), len(range(top, height, down))
        total += rows * (1 + -(-columns * bits // 8)) if columns and rows else 0
    assert data_bytes(width, height, bits, True) == total
    pixels = np.zeros((height, width), int)
    for left, top, across, down in PASSES:
        pixels[top::down, left::across] += 1
    assert (pixels == 1).all(), "the passes meet every pixel once"


@pytest.mark.parametrize("pieces", [1, 5])
@pytest.mark.parametrize("interlaced", [0, 1])
def test_data_that_end_early_but_properly_are_refused(interlaced: int, pieces: int) -> None:
    width, height = 40, 30
    whole = b"\0" * data_bytes(width, height, 8, bool(interlaced))
    assert read_picture(file_of(whole, width, height, interlaced, pieces)).pixels.shape == (30, 40, 3)
    for missing in (1, width, len(whole) // 2, len(whole)):
        content = file_of(whole[missing:], width, height, interlaced, pieces)
        assert is_cut_short(io.BytesIO(content))
        with pytest.raises(HeedfulError, match="its data end early"):
            read_picture(content)


def test_other_damage_is_left_to_the_decoder_and_the_place_in_the_file_is_kept() -> None:
    content = file_of(b"\0" * 11, 1, 1)
    for damaged in (b"", b"GIF89a", SIGNATURE, content[:20], content[:45], content.replace(b"IHDR", b"IHDX")):
        file = io.BytesIO(damaged)
        file.seek(min(3, len(damaged)))
        assert not is_cut_short(file)
        assert file.tell() == min(3, len(damaged))


def test_no_more_is_unpacked_than_the_picture_needs() -> None:
    """A bomb of 100 MB of zeros behind a picture of one pixel: a moment, and few bytes."""
    import tracemalloc

    content = file_of(b"\0" * 100_000_000, 1, 1)
    tracemalloc.start()
    assert not is_cut_short(io.BytesIO(content))
    assert tracemalloc.get_traced_memory()[1] < 3_000_000
    tracemalloc.stop()
