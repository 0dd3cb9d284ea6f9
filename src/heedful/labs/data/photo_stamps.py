"""Photographs of single things with masks, pasted on gravel: where each thing is, is known.

    picture = (1 - a) · background + a · colours    mask = a > 0.5, where a (h, w) is the alpha of the stamp

The dog is a dingo out of the stamps of Tux Paint (GPL-2: read from the machine, never part of this package).
The cat is the face of Chelsea (scikit-image, CC0), all of it opaque. Needs Pillow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import numpy as np
import numpy.typing as npt

from heedful.core.arrays import Floats
from heedful.modalities.image_files import Pixels, read_picture
from heedful.models.zoo.cache import cache_dir

PACKAGE = "tuxpaint-stamps-default"  # of Debian and Ubuntu
FOLDER = "usr/share/tuxpaint/stamps"
DINGO = "animals/mammals/dogs/dingo.png"
CATS = ("tabby", "tiger cat", "Persian cat", "Siamese cat", "Egyptian cat")
SIZE, SIDE = 224, 112  # of a picture, and of one of the two things
OPAQUE = 0.9  # alpha from which a place belongs to the thing


@dataclass(frozen=True, eq=False)
class Stamp:
    """A thing on nothing."""

    name: str
    caption: str
    colours: Pixels  # (h, w, 3)
    alpha: Floats  # (h, w) from 0 to 1
    classes: tuple[int, ...]  # of ImageNet, that its caption may mean


def stamp_folder() -> Path | None:
    """Where the stamps are, if they are on this machine: installed, or unpacked into the cache."""
    places = (Path("/") / FOLDER, cache_dir() / "carriers" / "stamps" / FOLDER)
    return next((place for place in places if (place / DINGO).is_file()), None)


def read_stamp(path: Path, name: str, caption: str, classes: tuple[int, ...]) -> Stamp | None:
    """Cut to its opaque part; None if it has no mask, or is nearly all mask."""
    from PIL import Image

    with Image.open(path) as picture:
        if "A" not in picture.getbands() and "transparency" not in picture.info:
            return None
        whole = np.asarray(picture.convert("RGBA"))
    alpha = whole[..., 3] / 255
    rows, columns = np.flatnonzero((alpha > OPAQUE).any(1)), np.flatnonzero((alpha > OPAQUE).any(0))
    if not 0.01 < (alpha > OPAQUE).mean() < 0.95:
        return None
    box = np.s_[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    return Stamp(name, caption, whole[box][..., :3], alpha[box], classes)


def called(names: Sequence[str], labels: Sequence[str]) -> tuple[int, ...]:
    """The classes of which one of these is the first name."""
    return tuple(index for index, label in enumerate(labels) if label.split(",")[0] in names)


def dog(folder: Path, labels: Sequence[str]) -> Stamp:
    stamp = read_stamp(folder / DINGO, DINGO, "A dingo", called(("dingo",), labels))
    assert stamp is not None  # it is a photograph with a mask
    return stamp


def cat(labels: Sequence[str]) -> Stamp:
    whole = _photograph("chelsea")
    side = min(whole.shape[:2])
    left = (whole.shape[1] - side) // 2
    return Stamp(
        "chelsea", "A cat", whole[:side, left : left + side], np.ones((side, side)), called(CATS, labels)
    )


def gravel(rng: np.random.Generator, size: int = SIZE) -> Pixels:
    """A square of the photograph."""
    from PIL import Image

    whole = _photograph("gravel")
    side = min(whole.shape[:2])
    top, left = (int(rng.integers(0, length - side + 1)) for length in whole.shape[:2])
    return np.asarray(Image.fromarray(whole[top : top + side, left : left + side]).resize((size, size)))


def paste(
    background: Pixels, stamp: Stamp, side: int, rng: np.random.Generator, columns: range
) -> tuple[Pixels, npt.NDArray[np.bool_]]:
    """(picture, mask): the stamp with its longer side scaled to `side`, at a random place within columns."""
    from PIL import Image

    height, width = stamp.alpha.shape
    scale = side / max(height, width)
    size = max(1, round(width * scale)), max(1, round(height * scale))
    colours = np.asarray(Image.fromarray(stamp.colours).resize(size, Image.Resampling.LANCZOS))
    cover = np.asarray(Image.fromarray((255 * stamp.alpha).astype(np.uint8)).resize(size)) / 255
    top = int(rng.integers(0, background.shape[0] - size[1] + 1))
    left = int(rng.integers(columns.start, columns.stop - size[0] + 1))
    picture, mask = background.copy(), np.zeros(background.shape[:2], dtype=bool)
    place = np.s_[top : top + size[1], left : left + size[0]]
    mixed = cover[..., None] * colours + (1 - cover[..., None]) * picture[place]
    picture[place], mask[place] = np.round(mixed).astype(np.uint8), cover > 0.5
    return picture, mask


def side_by_side(
    first: Stamp, second: Stamp, rng: np.random.Generator, swapped: bool = False
) -> tuple[Pixels, npt.NDArray[np.bool_]]:
    """A picture with one thing in each half, and the mask of each, (2, H, W); swapped: the second is left."""
    halves = range(SIZE // 2), range(SIZE // 2, SIZE)
    picture, one = paste(gravel(rng), first, SIDE, rng, halves[swapped])
    picture, other = paste(picture, second, SIDE, rng, halves[not swapped])
    return picture, np.stack([one, other])


def likeliest(scores: Floats, stamp: Stamp) -> int:
    """The class with the highest score of those that the caption may mean."""
    return max(stamp.classes, key=lambda index: scores[index])


def _photograph(name: str) -> Pixels:
    return read_picture(files("heedful.labs.data").joinpath(f"{name}.jpg").read_bytes()).pixels
