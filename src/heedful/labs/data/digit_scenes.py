"""Scenes of handwritten digits on photographs: one digit anywhere, or two different ones in two halves.

Colours are drawn until they differ from the background's brightness by 0.4 or more, so that a person can read
every digit. zoo:digits-vit learnt from scenes of "train".
"""

from __future__ import annotations

import numpy as np

from heedful.core.arrays import Floats
from heedful.labs.data.digits import digits
from heedful.labs.data.scenes import Area, Scene, background, halves, paste, to_pixels

SIZE = 48
CONTRAST = 0.4  # least difference in brightness
BRIGHTNESS = np.array([0.299, 0.587, 0.114])  # of red, green and blue (ITU-R BT.601)
HEIGHTS = {1: (0.4, 0.75), 2: (0.33, 0.45)}  # of a digit, as a share of the picture, by the number of digits


def digit_scenes(n: int, *, split: str = "test", count: int = 1, size: int = SIZE, seed: int) -> list[Scene]:
    """`n` scenes with `count` (1 or 2) digits each; labels "0" to "9"."""
    rng = np.random.default_rng(seed)
    return [digit_scene(rng, split, count, size) for _ in range(n)]


def digit_scene(rng: np.random.Generator, split: str, count: int = 1, size: int = SIZE) -> Scene:
    """One scene. The next draw of `rng` gives another."""
    colours = background(rng, size, split)
    relation, *areas = halves(rng, size) if count == 2 else ("", Area(0, 0, size, size))
    images, labels = digits(split)
    names: list[str] = []
    masks = []
    for area in areas:
        at = int(rng.integers(len(labels)))
        while str(labels[at]) in names:
            at = int(rng.integers(len(labels)))
        low, high = HEIGHTS[count]
        cover = cut_out(images[at], round(size * rng.uniform(low, high)), area.right - area.left)
        place = area.place(rng, *cover.shape)
        colours, mask = paste(colours, cover, readable(rng, colours, cover, place), place)
        names.append(str(labels[at]))
        masks.append(mask)
    caption = f" {relation} ".join(names)
    return Scene(to_pixels(colours), tuple(names), np.stack(masks), caption)


def cut_out(image: np.ndarray, height: int, widest: int) -> Floats:
    """How much a digit covers, (height, width) from 0 to 1, without the empty border of its file."""
    from PIL import Image

    rows, columns = np.flatnonzero(image.any(1)), np.flatnonzero(image.any(0))
    tight = image[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    width = max(1, min(widest, round(tight.shape[1] * height / tight.shape[0])))
    return np.asarray(Image.fromarray(tight).resize((width, height), Image.Resampling.BILINEAR)) / 255


def readable(
    rng: np.random.Generator, colours: Floats, cover: Floats, place: tuple[int, int], tries: int = 20
) -> Floats:
    """A random colour that stands out from what is behind a digit."""
    row, column = place
    behind = colours[row : row + cover.shape[0], column : column + cover.shape[1]].mean((0, 1)) @ BRIGHTNESS
    for _ in range(tries):
        colour = rng.random(3)
        if abs(colour @ BRIGHTNESS - behind) >= CONTRAST:
            return colour
    return np.full(3, float(behind < 0.5))
