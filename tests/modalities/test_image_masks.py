"""Masks and boxes follow their picture: turned as it is turned, resized and cropped as it is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from transformers import CLIPImageProcessorPil, ViTImageProcessorPil

from heedful.core.errors import HeedfulError
from heedful.modalities.image_files import ORIENTATION, Picture, read_picture
from heedful.modalities.image_masks import TruthBoxes, mask_of, read_boxes, turned
from heedful.models.image_reader import ImageReader, reader_of

RNG = np.random.default_rng(29)


def saved(path: Path, pixels: np.ndarray, orientation: int = 1) -> Path:
    image = Image.fromarray(pixels)
    exif = image.getexif()
    exif[ORIENTATION] = orientation
    image.save(path, exif=exif)
    return path


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_mask_is_turned_as_its_picture(tmp_path: Path, orientation: int) -> None:
    mask = RNG.random((12, 20)) < 0.3
    grey = np.repeat(255 * mask[..., None].astype(np.uint8), 3, axis=2)
    picture = read_picture(saved(tmp_path / "a.png", grey, orientation))
    assert picture.orientation == orientation
    upright = picture.pixels[..., 0] > 0  # as Pillow turns it
    np.testing.assert_array_equal(turned(mask, orientation), upright)
    np.testing.assert_array_equal(mask_of(mask, picture), upright)
    saved(tmp_path / "m.png", grey)
    np.testing.assert_array_equal(mask_of(tmp_path / "m.png", picture), upright)


def test_boxes_are_in_the_coordinates_of_the_file(tmp_path: Path) -> None:
    pixels = np.zeros((12, 20, 3), np.uint8)
    pixels[2:5, 15:20] = 255
    picture = read_picture(saved(tmp_path / "a.png", pixels, 6))
    np.testing.assert_array_equal(mask_of(TruthBoxes(((15, 2, 20, 5),)), picture), picture.pixels[..., 0] > 0)


def test_a_mask_of_the_upright_size_alone_is_upright_already(tmp_path: Path) -> None:
    picture = read_picture(saved(tmp_path / "a.png", np.zeros((12, 20, 3), np.uint8), 6))
    mask = RNG.random((20, 12)) < 0.5
    np.testing.assert_array_equal(mask_of(mask, picture), mask)


def test_a_mask_is_resized_and_cropped_as_the_picture() -> None:
    """A picture that shows its mask in white: after any processor both are at the same places."""
    clip = CLIPImageProcessorPil(
        size={"shortest_edge": 16}, crop_size={"height": 16, "width": 16}, do_convert_rgb=False
    )
    vit = ViTImageProcessorPil(size={"height": 16, "width": 16})
    for reader in (reader_of(clip), reader_of(vit), ImageReader((16, 16)), ImageReader()):
        mask = np.zeros((32, 64), bool)
        mask[8:24, 30:50] = True
        grey = np.repeat(255 * mask[..., None].astype(np.uint8), 3, axis=2)
        seen = reader.read(grey).pixels[..., 0] >= 128
        np.testing.assert_array_equal(reader.see_mask(mask), seen)
        assert seen.any()
    # by hand: the middle 32 columns of 64 stay, and both sides shrink by two
    expected = np.zeros((16, 16), bool)
    expected[4:12, 7:16] = True
    np.testing.assert_array_equal(reader_of(clip).see_mask(_box(32, 64, (30, 8, 48, 24))), expected)


def _box(height: int, width: int, box: tuple[int, int, int, int]) -> np.ndarray:
    return mask_of(TruthBoxes((box,)), Picture(np.zeros((height, width, 3), np.uint8)))


def test_values_above_half_of_the_largest_are_inside() -> None:
    picture = Picture(np.zeros((2, 3, 3), np.uint8))
    for largest in (1, 1.0, 200):
        mask = np.array([[0, largest, 0], [largest, 0.4 * largest, 0]])
        expected = [[False, True, False], [True, False, False]]
        assert mask_of(mask, picture).tolist() == expected
    assert not mask_of(np.zeros((2, 3)), picture).any()


def test_boxes_are_read_as_people_write_them() -> None:
    one = TruthBoxes(((1, 2, 3, 4),))
    for given in (
        "1 2 3 4",
        "1, 2, 3, 4",
        "[1, 2, 3, 4]",
        "[[1, 2, 3, 4]]",
        [1, 2, 3, 4],
        np.array([1, 2, 3, 4.0]),
    ):
        assert read_boxes(given) == one
    assert read_boxes("1 2 3 4; 5 6 7 8") == TruthBoxes(((1, 2, 3, 4), (5, 6, 7, 8)))
    assert read_boxes("") is None
    for bad in (
        "1 2 3",
        "a b c d",
        "[1, 2, null, 4]",
        {"left": 1},
        [[1, 2], [3, 4]],
        "[[" * 5000,
        "1.5 2 30 40",
        f"[{'9' * 400},0,5,5]",
    ):
        with pytest.raises(HeedfulError, match="boxes cannot be read"):
            read_boxes(bad)


def test_what_does_not_fit_is_refused_in_one_line(tmp_path: Path) -> None:
    picture = Picture(np.zeros((4, 6, 3), np.uint8))
    with pytest.raises(HeedfulError, match="the mask has 5 × 5 pixels: its picture has 6 × 4"):
        mask_of(np.ones((5, 5)), picture)
    with pytest.raises(HeedfulError, match="does not fit the picture"):
        mask_of(TruthBoxes(((0, 0, 7, 4),)), picture)
    Image.new("RGBA", (6, 4), (0, 0, 0, 0)).save(tmp_path / "clear.png")
    with pytest.raises(HeedfulError, match="transparent"):
        mask_of(tmp_path / "clear.png", picture)
    with pytest.raises(HeedfulError, match="there is no file"):
        mask_of(tmp_path / "none.png", picture)


def test_a_mask_of_sixteen_bits_may_have_small_numbers(tmp_path: Path) -> None:
    mask = np.array([[0, 1, 0], [1, 1, 0]], np.uint16)
    Image.fromarray(mask).save(tmp_path / "m.png")
    picture = Picture(np.zeros((2, 3, 3), np.uint8))
    for given in (tmp_path / "m.png", str(tmp_path / "m.png")):
        assert mask_of(given, picture).tolist() == mask.astype(bool).tolist()
