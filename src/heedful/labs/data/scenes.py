"""Scenes: things pasted on a piece of a photograph, each with the mask of where it is. The mask is the truth
that a map must find.

    picture = (1 - a) · background + a · colour    mask = a ≥ 0.3, where a (H, W) is how much is covered

Backgrounds are squares out of four photographs (CC0 and public domain, see zoo/write_pictures.py), with their
contrast lowered. Scenes for tests use the right third of each photograph, those for training the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np
import numpy.typing as npt

from heedful.core.arrays import Floats
from heedful.modalities.image_files import Pixels, read_picture

PHOTOGRAPHS = ("chelsea", "coffee", "gravel", "rocket")
CONTRAST = 0.6  # of a background
COVERED = 0.3  # from here on a pixel belongs to the thing
TEST_SHARE = 1 / 3  # of the width of a photograph


@dataclass(frozen=True, eq=False)
class Scene:
    """A picture, the names of the things in it, where each is, and a caption that is true of it."""

    picture: Pixels  # (H, W, 3)
    labels: tuple[str, ...]
    masks: npt.NDArray[np.bool_]  # (things, H, W)
    caption: str = ""


@dataclass(frozen=True)
class Area:
    """Where a thing may be: rows and columns from `top`, `left` up to `bottom`, `right`."""

    top: int
    left: int
    bottom: int
    right: int

    def place(self, rng: np.random.Generator, height: int, width: int) -> tuple[int, int]:
        """Row and column of the upper left corner of a thing that fits into it."""
        row = rng.integers(self.top, self.bottom - height + 1)
        return int(row), int(rng.integers(self.left, self.right - width + 1))


@cache
def photographs() -> tuple[Pixels, ...]:
    """The four photographs, (H, W, 3) each. Needs Pillow."""
    folder = files("heedful.labs.data")
    return tuple(read_picture(folder.joinpath(f"{name}.jpg").read_bytes()).pixels for name in PHOTOGRAPHS)


def background(rng: np.random.Generator, size: int, split: str) -> Floats:
    """(size, size, 3) colours from 0 to 1: a random square of a photograph."""
    from PIL import Image

    photograph = photographs()[rng.integers(len(PHOTOGRAPHS))]
    border = round(photograph.shape[1] * (1 - TEST_SHARE))
    part = photograph[:, border:] if split == "test" else photograph[:, :border]
    side = int(rng.integers(min(size, *part.shape[:2]), min(part.shape[:2]) + 1))
    row, column = (int(rng.integers(0, length - side + 1)) for length in part.shape[:2])
    square = Image.fromarray(part[row : row + side, column : column + side])
    colours = np.asarray(square.resize((size, size), Image.Resampling.BILINEAR)) / 255
    mean = colours.mean((0, 1))
    return np.asarray(mean + CONTRAST * (colours - mean))


def halves(rng: np.random.Generator, size: int) -> tuple[str, Area, Area]:
    """Two halves of a picture, and how the first lies to the second: "left of" or "above"."""
    middle = size // 2
    if rng.random() < 0.5:
        return "left of", Area(0, 0, size, middle), Area(0, middle, size, size)
    return "above", Area(0, 0, middle, size), Area(middle, 0, size, size)


def paste(
    colours: Floats, cover: Floats, colour: Floats, place: tuple[int, int]
) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """The colours with a thing on them, and the mask (H, W) of the thing."""
    row, column = place
    whole = np.zeros(colours.shape[:2])
    whole[row : row + cover.shape[0], column : column + cover.shape[1]] = cover
    return colours + whole[..., None] * (colour - colours), whole >= COVERED


def to_pixels(colours: Floats) -> Pixels:
    return np.asarray(np.round(255 * np.clip(colours, 0, 1)), dtype=np.uint8)
