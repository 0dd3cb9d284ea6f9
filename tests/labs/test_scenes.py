"""Digits and scenes that come with the package: drawn by seed, with masks that say where the things are."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from heedful.core.errors import HeedfulError
from heedful.labs.data.digit_scenes import digit_scene, digit_scenes
from heedful.labs.data.digits import digits
from heedful.labs.data.scenes import Area, halves, paste, photographs
from heedful.labs.data.shape_scenes import (
    COLOURS,
    DIGIT_NAMES,
    SHAPES,
    THINGS,
    Thing,
    Wording,
    holds,
    shape_cover,
    shape_scene,
    shape_scenes,
)


def test_digits_are_whole_and_no_digit_is_in_both_parts() -> None:
    hashes = {}
    for split, each in (("train", 400), ("test", 100)):
        images, labels = digits(split)
        assert images.shape == (10 * each, 28, 28)
        assert images.dtype == np.uint8
        assert np.bincount(labels).tolist() == [each] * 10
        hashes[split] = {hashlib.sha256(image.tobytes()).hexdigest() for image in images}
        assert len(hashes[split]) == 10 * each
    assert not hashes["train"] & hashes["test"]
    with pytest.raises(HeedfulError, match="train or test"):
        digits("held")


def test_nearest_neighbours_read_the_digits() -> None:
    """Labels belong to their pictures: 1-NN reads 300 held-out digits as it does on MNIST (about 95 %)."""
    (known, names), (asked, truth) = digits("train"), digits("test")
    a, b = (x.reshape(len(x), -1).astype(np.float32) for x in (asked[:300], known))
    nearest = (np.square(b).sum(1) - 2 * a @ b.T).argmin(1)
    assert np.mean(names[nearest] == truth[:300]) > 0.9


@pytest.mark.parametrize("make", [digit_scenes, shape_scenes])
@pytest.mark.parametrize("count", [1, 2])
def test_scenes_depend_on_the_seed_alone(make, count) -> None:  # type: ignore[no-untyped-def]
    first, again, other = (make(4, count=count, seed=seed) for seed in (5, 5, 6))
    for a, b in zip(first, again, strict=True):
        assert np.array_equal(a.picture, b.picture)
        assert np.array_equal(a.masks, b.masks)
        assert (a.labels, a.caption) == (b.labels, b.caption)
    assert not np.array_equal(first[0].picture, other[0].picture)


@pytest.mark.parametrize("make", [digit_scenes, shape_scenes])
def test_masks_of_two_things_are_apart_and_as_the_caption_says(make) -> None:  # type: ignore[no-untyped-def]
    for scene in make(30, count=2, seed=0):
        first, second = scene.masks
        assert scene.masks.shape == (2, 48, 48)
        assert not (first & second).any()
        axis = 1 if " left of " in scene.caption else 0
        assert " left of " in scene.caption or " above " in scene.caption
        assert np.argwhere(first)[:, axis].max() < np.argwhere(second)[:, axis].min()
        assert len(set(scene.labels)) == 2


def test_the_mask_of_a_shape_holds_its_colour() -> None:
    """Well inside the mask the colour is the one that is named, up to its jitter; JPEG noise is outside."""
    for scene in shape_scenes(40, seed=0):
        colour, _ = scene.labels[0].split()
        inside = scene.picture[scene.masks[0]] / 255
        distances = {name: np.abs(np.median(inside, 0) - value).max() for name, value in COLOURS.items()}
        assert distances[colour] < 0.3, scene.labels
        assert min(distances, key=lambda name: distances[name]) == colour


def test_paste_by_hand() -> None:
    colours, mask = paste(np.zeros((3, 4, 3)), np.array([[0.25, 1.0]]), np.array([1.0, 0.5, 0.0]), (1, 2))
    assert colours[1, 2].tolist() == [0.25, 0.125, 0.0]
    assert colours[1, 3].tolist() == [1.0, 0.5, 0.0]
    assert np.argwhere(mask).tolist() == [[1, 3]]
    assert colours.sum() == pytest.approx(0.375 + 1.5)


def test_a_thing_fits_into_its_area() -> None:
    rng = np.random.default_rng(0)
    places = {Area(1, 2, 5, 4).place(rng, 3, 2) for _ in range(50)}
    assert places == {(1, 2), (2, 2)}
    for _ in range(10):
        relation, a, b = halves(rng, 48)
        assert (a.right == b.left) if relation == "left of" else (a.bottom == b.top)


@pytest.mark.parametrize(
    ("name", "area"),  # of the square from -1 to 1, by geometry
    [
        ("circle", np.pi / 4),
        ("ring", np.pi / 4 * 0.7),
        ("square", 0.81),
        ("diamond", 0.375),
        ("triangle", 0.475),
        ("cross", 1 - 0.49),
        ("arrow", (1.1 * 0.7 + 0.9 * 1.8 / 2) / 4),
        ("star", 10 * 0.42 * np.sin(np.pi / 5) / 2 / 4),
    ],
)
def test_areas_of_shapes(name: str, area: float) -> None:
    assert shape_cover(name, 64).mean() == pytest.approx(area, abs=6e-3)  # a column of points: 1/256


def test_shapes_differ_and_there_are_no_unknown_names() -> None:
    covers = [shape_cover(name, 32) for name in SHAPES]
    for i, a in enumerate(covers):
        assert all(np.abs(a - b).mean() > 0.03 for b in covers[:i])
    assert len(SHAPES) == 10
    assert (*SHAPES, *DIGIT_NAMES) == THINGS


def test_captions_and_when_they_hold() -> None:
    red, star = Thing("red", "circle"), Thing("orange", "star")
    there = Wording((red, star), "left of")
    assert there.caption() == "a red circle left of an orange star"
    assert there.turned().caption() == "an orange star right of a red circle"
    true = [there, there.turned(), Wording((star, red), "and"), Wording((Thing("red"),)), Wording((star,))]
    false = [
        Wording((red, star), "right of"),
        Wording((red, star), "above"),
        Wording((star, red), "left of"),
        Wording((Thing("orange", "circle"), Thing("red", "star")), "left of"),
        Wording((Thing("orange", "circle"),)),
    ]
    assert all(holds(said, there) for said in true)
    assert not any(holds(said, there) for said in false)
    assert not holds(Wording((red, star), "and"), Wording((red,)))
    assert Wording((Thing("red"), Thing(shape="star")), "above").caption() == "a red thing above a star"


def test_a_scene_is_what_its_wording_says() -> None:
    scene, there = shape_scene(np.random.default_rng(3), "train", 2)
    assert scene.caption == there.caption()
    assert scene.labels == tuple(f"{t.colour} {t.shape}" for t in there.things)


def test_scenes_of_other_sizes() -> None:
    scene = digit_scene(np.random.default_rng(0), "test", 2, size=96)
    assert scene.picture.shape == (96, 96, 3)
    assert scene.masks.shape == (2, 96, 96)


def test_photographs_are_small_and_colourful() -> None:
    assert [p.shape[2] for p in photographs()] == [3, 3, 3, 3]
    assert max(max(p.shape) for p in photographs()) == 240
