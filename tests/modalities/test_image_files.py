"""Pictures from files, bytes, PIL, numpy and torch; bad ones in one clear line."""

from __future__ import annotations

import io
import os
import struct
import zlib
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from heedful.core.errors import HeedfulError
from heedful.modalities.image_files import read_picture

RNG = np.random.default_rng(20261118)
COLOURS = RNG.integers(0, 256, (7, 5, 3)).astype(np.uint8)


def encoded(image: Image.Image, form: str, **options: object) -> bytes:
    out = io.BytesIO()
    image.save(out, form, **options)
    return out.getvalue()


def test_every_way_to_give_a_picture_gives_the_same_colours(tmp_path: Path) -> None:
    image = Image.fromarray(COLOURS)
    path = tmp_path / "a b.png"
    image.save(path)
    given = [
        *(path, str(path), path.read_bytes(), image, COLOURS, COLOURS / 255.0),
        *(torch.from_numpy(COLOURS), torch.from_numpy(COLOURS).permute(2, 0, 1)),
        torch.from_numpy(COLOURS).permute(2, 0, 1)[None] / 255.0,
        COLOURS.astype(np.uint16) * 257,
    ]
    for each in given:
        np.testing.assert_array_equal(read_picture(each).pixels, COLOURS)
    assert read_picture(path).source == str(path)


def test_the_orientation_of_a_photograph_is_followed() -> None:
    image = Image.fromarray(COLOURS)
    exif = image.getexif()
    exif[0x0112] = 6  # to be turned clockwise by a quarter
    turned = read_picture(encoded(image, "PNG", exif=exif)).pixels
    np.testing.assert_array_equal(turned, np.rot90(COLOURS, -1))


def test_grey_sixteen_bits_cmyk_palette_and_transparency() -> None:
    grey = Image.fromarray(COLOURS[..., 0])
    np.testing.assert_array_equal(
        read_picture(encoded(grey, "PNG")).pixels, np.repeat(COLOURS[..., :1], 3, 2)
    )
    wide = Image.fromarray(COLOURS[..., 0].astype(np.uint16) * 257)
    sixteen = read_picture(encoded(wide, "PNG"))
    np.testing.assert_array_equal(sixteen.pixels, np.repeat(COLOURS[..., :1], 3, 2))
    assert "16-bit" in sixteen.notes[0]
    cmyk = read_picture(encoded(Image.fromarray(COLOURS).convert("CMYK"), "TIFF")).pixels
    assert np.abs(cmyk.astype(int) - COLOURS).max() <= 1
    clear = np.dstack([COLOURS, np.zeros((7, 5), np.uint8)])
    on_white = read_picture(encoded(Image.fromarray(clear), "PNG"))
    assert (on_white.pixels == 255).all()
    assert on_white.notes == ("transparent parts are shown on white",)
    palette = Image.fromarray(COLOURS).quantize(4)
    np.testing.assert_array_equal(
        read_picture(encoded(palette, "PNG")).pixels, np.asarray(palette.convert("RGB"))
    )


def test_one_pixel_is_a_picture() -> None:
    assert read_picture(np.array([[[1, 2, 3]]], np.uint8)).pixels.tolist() == [[[1, 2, 3]]]


def png_header(width: int, height: int) -> bytes:
    """A PNG that says it is so large, and has no data."""
    body = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunk = b"IHDR" + body
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", len(body)) + chunk + struct.pack(">I", zlib.crc32(chunk))


def test_a_huge_picture_is_refused_by_its_header() -> None:
    for side in (9_000, 20_000, 2_000_000_000):
        with pytest.raises(HeedfulError, match="is too large"):
            read_picture(png_header(side, side) + b"\0\0\0\0IDAT")


@pytest.mark.parametrize("share", [0.0, 0.1, 0.3, 0.5, 0.8, 0.97])
@pytest.mark.parametrize("form", ["PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF"])
def test_a_truncated_file_gives_one_line(form: str, share: float) -> None:
    whole = encoded(Image.fromarray(RNG.integers(0, 256, (64, 64, 3)).astype(np.uint8)), form)
    with pytest.raises(HeedfulError) as caught:
        read_picture(whole[: int(share * len(whole))])
    assert "\n" not in str(caught.value)


def test_damaged_bytes_never_raise_anything_else() -> None:
    rng = np.random.default_rng(7)
    for form in ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "PPM"):
        whole = encoded(Image.fromarray(COLOURS), form)
        for _ in range(60):
            data = bytearray(whole)
            for place in rng.integers(0, len(data), 3):
                data[place] = rng.integers(0, 256)
            with suppress(HeedfulError):  # anything else fails this test
                assert read_picture(bytes(data)).pixels.dtype == np.uint8


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (b"", "cannot be read as a picture"),
        (b"%PDF-1.4 ...", "cannot be read as a picture"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "cannot be read as a picture"),
        ("no-such-file.png", "No such file"),
        (np.zeros((4, 4, 2)), "is no picture"),
        (np.zeros((0, 4, 3)), "is no picture"),
        (np.full((4, 4, 3), 7.5), "0 to 1"),
        (np.full((4, 4, 3), np.nan), "0 to 1"),
        (np.array([["a"]]), "is no picture"),
        (3, "cannot be read from int"),
    ],
)
def test_bad_input_says_what_is_wrong(given: object, words: str) -> None:
    with pytest.raises(HeedfulError, match=words):
        read_picture(given)


def test_only_regular_files_are_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(HeedfulError, match="is not a file"):
            read_picture(path)
