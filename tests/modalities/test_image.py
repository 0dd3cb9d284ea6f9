"""Units of a picture are partitions of its pixels, and operators remove them and nothing else."""

from __future__ import annotations

import pickle
import re
import tracemalloc
from typing import Any

import numpy as np
import pytest
from scipy import ndimage

from heedful.core.errors import HeedfulError
from heedful.modalities import image_operators
from heedful.modalities.image import ImageInput, picture_unit, pieces, read_regions
from heedful.modalities.image_files import Picture, read_picture
from heedful.modalities.image_operators import COLOURING, IMPUTED_NOISE, OPERATORS, imputed
from heedful.modalities.kinds import checked_unit
from heedful.models.image_rows import WHOLE, Composer, image_rows

RNG = np.random.default_rng(20261118)


def picture(height: int = 24, width: int = 36, grid: tuple[int, int] = (4, 6)) -> ImageInput:
    return ImageInput(RNG.integers(0, 256, (height, width, 3)).astype(np.uint8), grid)


@pytest.mark.parametrize("name", ["pixel", "patch", "grid:1", "grid:5", "superpixel", "region", ""])
def test_units_are_a_partition(name: str) -> None:
    x = picture()
    mask = np.zeros((24, 36), bool)
    mask[3:9, 4:20] = True
    x = ImageInput(x.pixels, x.grid, 1, read_regions({"a": mask, "b": (0, 0, 10, 10)}, Picture(x.pixels)))
    units = x.units(name)
    assert units.atoms == len(x) == 24 * 36
    assert set(units.owner.tolist()) == set(range(len(units)))
    assert len(units.labels) == len(units.regions) == len(units)
    scores = RNG.normal(size=len(x))
    np.testing.assert_allclose(units.sums(scores).sum(), scores.sum(), rtol=1e-9)
    values = RNG.normal(size=len(units))
    np.testing.assert_allclose(units.sums(units.spread(values)), values, rtol=1e-9)
    rows, columns = np.divmod(np.arange(len(x)), 36)
    for number, box in enumerate(units.regions):
        own = units.owner == number
        assert (box.left, box.top) == (columns[own].min(), rows[own].min())
        assert (box.right, box.bottom) == (columns[own].max() + 1, rows[own].max() + 1)


def test_cells_are_rectangles_of_like_size_row_by_row() -> None:
    units = picture(10, 11).units("grid:3")
    assert units.labels[0] == "row 1, column 1"
    assert units.labels[3] == "row 2, column 1"
    assert {len(atoms) for atoms in units} <= {9, 12, 16}
    for box, atoms in zip(units.regions, units, strict=True):
        assert (box.right - box.left) * (box.bottom - box.top) == len(atoms)


def test_where_regions_overlap_the_first_has_the_pixels() -> None:
    boxes = {"a": (0, 0, 8, 8), "b": (4, 4, 12, 12)}
    x = ImageInput(picture().pixels, regions=read_regions(boxes, Picture(picture().pixels)))
    units = x.units("region")
    assert units.labels == ("a", "b", "rest")
    assert np.bincount(units.owner).tolist() == [64, 64 - 16, 24 * 36 - 112]


def test_the_default_unit_follows_the_patches() -> None:
    big = np.zeros((224, 224, 3), np.uint8)
    assert ImageInput(big, (14, 14)).default_unit == "grid:7"
    assert ImageInput(big, (16, 16)).default_unit == "grid:8"
    assert ImageInput(big, (7, 7)).default_unit == "patch"
    assert ImageInput(big).default_unit == "grid:8"
    assert ImageInput(big[:1, :1]).default_unit == "grid:1"


def test_equal_pictures_have_equal_keys() -> None:
    x = picture()
    assert x == ImageInput(x.pixels.copy(), x.grid)
    assert x != ImageInput(x.pixels, (2, 2))
    changed = x.pixels.copy()
    changed[0, 0, 0] ^= 1
    assert x != ImageInput(changed, x.grid)


@pytest.mark.parametrize("name", ["word", "grid:", "grid:0", "grid:25", "grid:1e9", "grid:-1", "patch "])
def test_unknown_units_are_refused(name: str) -> None:
    with pytest.raises(HeedfulError, match="unknown unit"):
        picture().units(name)


def test_a_grid_is_a_short_number() -> None:
    for digits in ("9" * 5000, "²", "٣", " 8", "8\n"):
        with pytest.raises(HeedfulError, match="unit"):
            picture_unit(f"grid:{digits}")
        with pytest.raises(HeedfulError, match="unknown unit"):
            picture().units(f"grid:{digits}")


def test_regions_of_another_size_are_refused() -> None:
    for bad in (np.ones((3, 3)), (0, 0, 99, 9), (5, 5, 5, 9), "box"):
        with pytest.raises(HeedfulError):
            read_regions({"a": bad}, Picture(picture().pixels))


@pytest.mark.parametrize(
    ("regions", "words"),
    [
        ({"a": np.full((24, 36), np.nan)}, "values that are no numbers"),
        ({"a": (0.5, 0.5, 10.9, 10.9)}, "boxes cannot be read"),
        ({"a": (0, 0, np.inf, 9)}, "boxes cannot be read"),
        ({"a": [[1], [1, 2]]}, "region 'a' cannot be used"),
        ({"a": None}, "region 'a' cannot be used"),
        ({"rest": (0, 0, 9, 9)}, "cannot be called 'rest'"),
        ({"1": (0, 0, 9, 9), 1: (9, 9, 12, 12)}, "two regions are called '1'"),
    ],
)
def test_regions_that_would_be_misread_are_refused(regions: dict[Any, Any], words: str) -> None:
    with pytest.raises(HeedfulError, match=words):
        read_regions(regions, Picture(picture().pixels))
    whole = read_regions({"a": (0.0, 0.0, 9.0, 9.0)}, Picture(picture().pixels))[0][1]
    assert whole.sum() == 81


@pytest.mark.parametrize("name", COLOURING)
def test_an_operator_changes_what_is_removed_and_nothing_else(name: str) -> None:
    x = picture()
    keep = np.ones((1, 24), bool)
    keep[0, [0, 7, 23]] = False
    compose = Composer(x)
    for row in image_rows(x, keep, name, "patch", tuple(OPERATORS)):
        made, gone = compose(row), compose.gone(row)
        assert gone.sum() == 3 * 36
        np.testing.assert_array_equal(made[~gone], compose.whole[~gone])
        assert np.abs(made[gone] - compose.whole[gone]).mean() > 0.01
        assert made.min() >= 0
        assert made.max() <= 1
        np.testing.assert_array_equal(made, Composer(x)(row))  # the same again


def test_nothing_removed_is_the_picture_itself_and_one_row() -> None:
    x = picture()
    for name in OPERATORS:
        rows = image_rows(x, np.ones((2, 24), bool), name, "patch", tuple(OPERATORS))
        assert set(rows) == {WHOLE}


def test_draws_of_noise_differ() -> None:
    x, keep = picture(), np.zeros((1, 24), bool)
    rows = image_rows(x, keep, "noise", "patch", tuple(OPERATORS))
    assert len(rows) == OPERATORS["noise"].draws > 1
    first, second = (Composer(x)(row) for row in rows[:2])
    assert np.abs(first - second).mean() > 0.1
    assert abs(float(first.mean()) - 0.5) < 0.02


def test_one_removed_pixel_is_the_weighted_mean_of_its_neighbours() -> None:
    colours = RNG.random((5, 6, 3))
    gone = np.zeros((5, 6), bool)
    gone[2, 3] = True
    weights = np.array([[1, 2, 1], [2, 0, 2], [1, 2, 1]]) / 12
    expected = np.einsum("rc,rck->k", weights, colours[1:4, 2:5])
    np.testing.assert_allclose(imputed(colours, gone)[2, 3], expected, atol=1e-12)
    corner = np.zeros((5, 6), bool)
    corner[0, 0] = True  # weights of the neighbours that are there sum to one
    expected = (2 * colours[0, 1] + 2 * colours[1, 0] + colours[1, 1]) / 5
    np.testing.assert_allclose(imputed(colours, corner)[0, 0], expected, atol=1e-12)


def test_all_removed_but_one_pixel_is_a_constant_picture() -> None:
    colours = RNG.random((6, 7, 3))
    gone = np.ones((6, 7), bool)
    gone[4, 2] = False
    np.testing.assert_allclose(imputed(colours, gone), np.broadcast_to(colours[4, 2], (6, 7, 3)), atol=1e-9)


@pytest.mark.parametrize("most", [image_operators.MAX_BAND, 0])
def test_imputed_pixels_solve_the_equations(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a band, and as a sparse system."""
    monkeypatch.setattr(image_operators, "MAX_BAND", most)
    colours, gone = RNG.random((12, 13, 3)), RNG.random((12, 13)) < 0.6
    made = imputed(colours, gone)
    kernel = np.array([[1, 2, 1], [2, 0, 2], [1, 2, 1]]) / 12
    for channel in range(3):
        sums = ndimage.convolve(made[..., channel], kernel, mode="constant")
        share = ndimage.convolve(np.ones((12, 13)), kernel, mode="constant")
        np.testing.assert_allclose(made[..., channel][gone], (sums / share)[gone], atol=1e-9)
    np.testing.assert_array_equal(made[~gone], colours[~gone])


def test_the_noise_of_inpainting_is_small_and_only_where_something_is_gone() -> None:
    x = picture()
    gone = np.zeros((24, 36), bool)
    gone[4:20, 4:30] = True
    made = OPERATORS["inpaint"].fill(x, gone, np.random.default_rng(0))
    rest = made - imputed(x.pixels / 255.0, gone)
    assert np.abs(rest[~gone]).max() == 0
    assert abs(rest[gone].std() / IMPUTED_NOISE - 1) < 0.1


def test_pieces_say_where_they_are() -> None:
    labels = np.arange(9).reshape(3, 3).repeat(4, 0).repeat(5, 1)
    assert pieces("superpixel", labels).labels == (
        "piece 1, top left",
        "piece 2, top centre",
        "piece 3, top right",
        "piece 4, middle left",
        "piece 5, centre",
        "piece 6, middle right",
        "piece 7, bottom left",
        "piece 8, bottom centre",
        "piece 9, bottom right",
    )
    assert pieces("superpixel", np.zeros((1, 1), np.intp)).labels == ("piece 1, centre",)


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_channels_first_names_the_way_out(channels: int) -> None:
    array = np.zeros((channels, 6, 7), np.uint8)
    with pytest.raises(
        HeedfulError, match=r"its channels are first. Put them last: array.transpose\(1, 2, 0"
    ):
        read_picture(array)
    assert read_picture(array.transpose(1, 2, 0)).pixels.shape == (6, 7, 3)


@pytest.mark.parametrize("kind", [np.int64, np.int16, np.uint32])
def test_whole_numbers_of_another_type_name_the_way_out(kind: type) -> None:
    array = np.full((6, 7, 3), 200, kind)
    with pytest.raises(HeedfulError, match=r"If 255 is white: array.astype\(numpy.uint8\)"):
        read_picture(array)
    assert read_picture(array.astype(np.uint8)).pixels.max() == 200
    with pytest.raises(HeedfulError, match="the values of the picture are 200 to 300"):
        read_picture(np.where(np.arange(7)[:, None] > 3, 300, array))


@pytest.mark.parametrize("name", ["", "word", "grid:4", "grid:8+token", "sentence+patch", "region"])
def test_units_of_pairs(name: str) -> None:
    assert checked_unit("image+text", name) == name


@pytest.mark.parametrize("name", ["paragraph", "grid:x+word", "word+token", "patch+pixel"])
def test_units_that_no_pair_has(name: str) -> None:
    with pytest.raises(HeedfulError, match=f"unit cannot be '{re.escape(name)}'. Use one of each"):
        checked_unit("image+text", name)


def test_the_units_of_pixels_are_computed_when_they_are_asked_for() -> None:
    """A large picture has hundreds of thousands: made one by one they take seconds and 100 MB."""
    tracemalloc.start()
    units = ImageInput(np.zeros((701, 900, 3), np.uint8)).units("pixel")
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 4 * units.owner.nbytes
    assert len(units) == 701 * 900
    assert units.labels[-1] == "899, 700"
    assert units.regions[900] == (0, 1, 1, 2)
    with pytest.raises(IndexError):
        units.labels[701 * 900]


def test_the_units_of_pixels_are_those_that_are_written_out() -> None:
    units = ImageInput(np.zeros((2, 3, 3), np.uint8)).units("pixel")
    assert units.labels == ("0, 0", "1, 0", "2, 0", "0, 1", "1, 1", "2, 1")
    assert list(units.regions)[1:5:3] == [(1, 0, 2, 1), (1, 1, 2, 2)]
    assert units.labels[1:3] == ("1, 0", "2, 0")
    again = pickle.loads(pickle.dumps(units))
    assert (again.labels, again.regions) == (units.labels, units.regions)
