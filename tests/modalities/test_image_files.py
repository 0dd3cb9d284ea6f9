"""Pictures from files, bytes, PIL, numpy and torch; bad ones in one clear line."""

from __future__ import annotations

import io
import os
import struct
import subprocess
import sys
import tracemalloc
import zlib
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from heedful.core.errors import HeedfulError
from heedful.modalities.image_files import read_picture
from heedful.modalities.image_masks import turned

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
        ("no-such-file.png", "there is no file"),
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
        with pytest.raises(HeedfulError, match="is not a regular file"):
            read_picture(path)


def of_sixteen_bits(colours: bool, value: int, side: int = 8) -> bytes:
    """A PNG of one value, of 16 bits per channel."""
    channels = 3 if colours else 1
    rows = (b"\0" + struct.pack(f">{channels * side}H", *[value] * channels * side)) * side

    def chunk(name: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    header = struct.pack(">IIBBBBB", side, side, 16, 2 if colours else 0, 0, 0, 0)
    parts = chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(rows)), chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


@pytest.mark.parametrize("value", [0, 200, 255, 256, 40_000, 65_535])
def test_sixteen_bits_are_scaled_by_their_bits_not_by_their_content(value: int) -> None:
    expected = round(value / 65535 * 255)
    grey = read_picture(of_sixteen_bits(False, value))
    assert (grey.pixels == expected).all()
    assert grey.notes == ("16-bit grey, shown in 8 bits",)
    assert (read_picture(np.full((4, 4), value, np.uint16)).pixels == expected).all()
    assert (read_picture(np.full((4, 4), value, ">u2")).pixels == expected).all()
    tiff = read_picture(encoded(Image.fromarray(np.full((4, 4), value, np.uint16)), "TIFF"))
    assert (tiff.pixels == expected).all()
    pgm = read_picture(b"P5 2 2 65535\n" + struct.pack(">4H", *[value] * 4))
    assert (pgm.pixels == expected).all()
    coloured = read_picture(of_sixteen_bits(True, value))
    assert np.abs(coloured.pixels.astype(int) - expected).max() <= 1  # Pillow keeps the upper 8 bits
    assert coloured.notes == ("16 bits per colour, shown in 8 bits",)


def test_floats_from_zero_to_one_are_kept_and_other_numbers_refused() -> None:
    shares = np.linspace(0, 1, 64, dtype=np.float32).reshape(8, 8)
    kept = read_picture(encoded(Image.fromarray(shares), "TIFF"))
    np.testing.assert_array_equal(kept.pixels[..., 0], np.round(255 * shares.astype(float)))
    assert kept.notes == ("floats from 0 to 1, shown in 8 bits",)
    for bad in (shares * 255, -shares, np.full((8, 8), np.nan, np.float32)):
        with pytest.raises(HeedfulError, match="the values of the picture are"):
            read_picture(encoded(Image.fromarray(bad), "TIFF"))
    with pytest.raises(HeedfulError, match=r"32 bits: nothing says which of them is white"):
        read_picture(encoded(Image.fromarray(np.full((8, 8), 7, np.int32)), "TIFF"))


def test_reading_takes_little_more_memory_than_the_picture() -> None:
    side = 1500
    clear = encoded(Image.new("RGBA", (side, side), (1, 2, 3, 4)), "PNG")
    deep = encoded(Image.fromarray(np.full((side, side), 999, np.uint16)), "PNG")
    plain = encoded(Image.new("RGB", (side, side)), "PNG")
    for given in (
        clear,
        deep,
        plain,
        np.zeros((side, side, 4), np.uint8),
        np.zeros((side, side, 3), np.float32),
    ):
        tracemalloc.start()
        read_picture(given)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        # the colours take 6.75 MB, a band at most 262,144 × 4 floats of 8 bytes, a few times
        assert peak < 3 * side * side + 5 * 8.4e6 + 3e6


def test_a_picture_that_was_opened_and_not_decoded_has_the_same_limit() -> None:
    with pytest.raises(HeedfulError, match="9,000 × 9,000 pixels"):
        read_picture(Image.open(io.BytesIO(png_header(9000, 9000) + b"\0\0\0\0IDAT")))


def test_the_size_of_a_huge_file_is_said() -> None:
    with pytest.raises(HeedfulError, match="it has 20,000 × 20,000 pixels: the limit is 64,000,000 pixels"):
        read_picture(png_header(20_000, 20_000) + b"\0\0\0\0IDAT")


@pytest.mark.parametrize("form", ["PNG", "JPEG", "TIFF"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_orientation_is_followed_and_kept_whole_and_made_smaller(form: str, orientation: int) -> None:
    pixels = np.zeros((24, 40, 3), np.uint8)
    pixels[:8, :16] = 255
    image = Image.fromarray(pixels)
    exif = image.getexif()
    exif[0x0112] = orientation
    data = encoded(image, form, exif=exif)
    whole, small = read_picture(data), read_picture(data, 20)
    assert whole.orientation == small.orientation == orientation
    upright = turned(pixels[..., 0] > 0, orientation)
    np.testing.assert_array_equal(whole.pixels[..., 0] > 127, upright)
    np.testing.assert_array_equal(small.pixels[..., 0] > 127, upright[1::2, 1::2])
    assert "made smaller" in small.notes[-1]


def test_a_file_of_sixteen_bits_is_made_smaller() -> None:
    small = read_picture(of_sixteen_bits(False, 40_000, 64), 16)
    assert small.pixels.shape == (16, 16, 3)
    assert (small.pixels == round(40_000 / 65535 * 255)).all()


def test_tensors_of_any_float_type_are_read() -> None:
    for dtype in (torch.bfloat16, torch.float16, torch.float64):
        tensor = torch.full((3, 7, 5), 0.5, dtype=dtype)
        assert (read_picture(tensor).pixels == 128).all()
    with pytest.raises(HeedfulError, match="can be read in two ways"):
        read_picture(torch.zeros(3, 8, 3))
    with pytest.raises(HeedfulError, match="is no picture"):
        read_picture(torch.zeros(3, 8, 8, dtype=torch.complex64))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("a\0b.png", "null character"),
        ("http://example.com/a.png", "http://example.com/a.png is an address, not a file"),
    ],
)
def test_paths_that_are_none(given: str, words: str) -> None:
    with pytest.raises(HeedfulError, match=words):
        read_picture(given)


def test_messages_name_no_objects_of_python(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"no picture")
    for given in (tmp_path / "a.png", b"abc", b""):
        with pytest.raises(HeedfulError) as caught:
            read_picture(given)
        assert "it is damaged, or no picture of a known format" in str(caught.value)
        assert "<" not in str(caught.value)


def test_pillow_prints_nothing_beside_our_line(tmp_path: Path) -> None:
    """A TIFF with 65,535 values per pixel: Pillow logs it, and Python prints what no handler takes."""
    path = tmp_path / "a.tiff"
    Image.new("RGB", (4, 4)).save(path)
    content = path.read_bytes()
    tag = content.index(b"\x15\x01\x03\x00")  # SamplesPerPixel, a short number
    path.write_bytes(content[: tag + 8] + b"\xff\xff" + content[tag + 10 :])
    code = (
        "import sys; from heedful.modalities.image_files import read_picture\n"
        "try: read_picture(sys.argv[1])\n"
        "except Exception as error: print(type(error).__name__)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("HeedfulError\n", "")
