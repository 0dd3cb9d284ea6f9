"""A picture as the model reads it: colours after resizing and cropping, and the units one can point at.

    pixel        each pixel: where gradients live
    patch        the model's own patches: where its attention lives
    grid:N       N × N cells, row by row
    superpixel   connected pieces of like colour (SLIC; needs scikit-image)
    region       masks or boxes that the user gave; all that is in none of them is one more unit

All of them are partitions of the pixels that the model sees, so scores can be pooled from one to another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import combinations, islice
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from heedful.core.computed import Computed
from heedful.core.errors import HeedfulError
from heedful.core.input import NEVER, Input, Rectangle, Units
from heedful.core.whole_numbers import whole_number
from heedful.modalities.image_files import Picture, Pixels
from heedful.modalities.image_masks import Mask, mask_of

Labels = npt.NDArray[np.intp]  # (H, W): the unit of each pixel
Regions = tuple[tuple[str, Mask], ...]  # by name
UNITS = ("patch", "grid:N", "superpixel", "region", "pixel")
CELLS = 8  # per side of the default grid
MAX_CELLS = 64  # per side
SUPERPIXELS = 50  # about
MAX_REGIONS, MAX_OVERLAPS = 256, 5  # overlaps that are named
NOUNS = {"grid": "cell", "superpixel": "piece"}  # what a person calls a unit, where its name is another
REST = "rest"  # what is in no region
PATCH_PIXELS = 256  # of a usual patch, 16 x 16


@dataclass(frozen=True, eq=False)
class ImageInput(Input):
    """A picture as the model reads it.

    Parameters
    ----------
    pixels
        Colours after resizing and cropping, (H, W, 3), 8 bits.
    grid
        Rows and columns of the model's own patches. (0, 0) if it has none.
    special
        Positions in front of the patches in the model's sequence, such as the class token.
    regions
        Masks (H, W) by name, for the unit "region".
    source
        The file it came from, or "picture".
    notes
        Remarks, such as cropping.
    window
        The part of the file that the model sees: left, top, right and bottom as shares of its size.
    """

    modality: ClassVar[str] = "image"
    noun: ClassVar[str] = "picture"
    atom: ClassVar[str] = "pixel"
    scored_by_atom: ClassVar[bool] = False

    pixels: Pixels
    grid: tuple[int, int] = (0, 0)
    special: int = 1
    regions: Regions = ()
    source: str = "picture"
    notes: tuple[str, ...] = ()
    window: tuple[float, ...] = (0.0, 0.0, 1.0, 1.0)
    kept: tuple[str, str] = ("", "")  # path and SHA-256, of a picture that was stored by them

    def __len__(self) -> int:
        return self.height * self.width

    @property
    def height(self) -> int:
        return int(self.pixels.shape[0])

    @property
    def width(self) -> int:
        return int(self.pixels.shape[1])

    @property
    def raw(self) -> Pixels:
        """The picture as the model sees it."""
        return self.pixels

    @property
    def title(self) -> str:
        """The file it came from."""
        return self.source

    @property
    def default_unit(self) -> str:
        """Regions, if there are some. Else cells of whole patches where the grid allows, of about eight by
        eight."""
        if self.regions:
            return "region"
        rows, columns = self.grid
        fit = next((n for n in range(CELLS, 3, -1) if rows and rows % n == 0 and columns % n == 0), CELLS)
        small = min(self.height, self.width)
        return "patch" if self.grid == (fit, fit) else f"grid:{min(fit, small)}"

    def content(self) -> bytes:
        shapes = f"{self.pixels.shape} {self.grid} {self.special}".encode()
        masks = b"".join(name.encode() + b"\0" + np.packbits(mask).tobytes() for name, mask in self.regions)
        return shapes + self.pixels.tobytes() + masks

    @property
    def map_shape(self) -> tuple[int, int]:
        return self.height, self.width

    @property
    def read_length(self) -> int:
        return max(1, len(self) // PATCH_PIXELS)

    @property
    def positions(self) -> Units:
        """Where attention lives: the patches, behind the special positions."""
        patches = self.units("patch")
        owner = np.concatenate([np.full(self.special, NEVER), np.arange(len(patches))])
        return Units(patches.name, patches.labels, patches.regions, owner)

    def units(self, name: str = "") -> Units:
        """The pixels, grouped."""
        name = name or self.default_unit
        if name not in self._partitions:
            self._partitions[name] = _partition(self, name)
        return self._partitions[name]

    def unit_noun(self, name: str = "") -> str:
        return picture_unit_noun(name or self.default_unit)

    def known_units(self, name: str) -> Units | None:
        """Units that were asked for before."""
        return self._partitions.get(name)

    def know(self, units: Units) -> None:
        """Units that were found before, on another machine."""
        self._partitions[units.name] = units

    @cached_property
    def _partitions(self) -> dict[str, Units]:
        return {}  # filled as they are asked for


def picture_unit(name: str) -> str:
    """Refuses a name that no picture has a unit of; "" stays, since pictures differ."""
    if name and name not in UNITS and _cells_named(name) is None:
        raise HeedfulError(f"unit cannot be {name!r}", fix=f"Use one of: {', '.join(UNITS)}")
    return name


def picture_unit_noun(name: str) -> str:
    """What a person calls one unit of this name."""
    kind = name.partition(":")[0]
    return NOUNS.get(kind, kind)


def _partition(x: ImageInput, name: str) -> Units:
    if name == "pixel":
        count = len(x)
        labels = Computed(count, partial(_pixel_label, x.width))
        return Units(name, labels, Computed(count, partial(_pixel_box, x.width)), np.arange(count))
    if name == "patch":
        if not all(x.grid):
            raise HeedfulError("this model has no patches", fix="Use the unit grid:8 instead")
        return _cells(x, *x.grid, name)
    if name.startswith("grid:"):
        return _cells(x, *(2 * (_cell_count(x, name),)), name)
    if name == "superpixel":
        return pieces(name, _superpixels(x))
    if name == "region":
        return _given(x)
    raise HeedfulError(f"unknown unit {name!r}", fix=f"Use one of: {', '.join(UNITS)}")


def _pixel_label(width: int, atom: int) -> str:
    row, column = divmod(atom, width)
    return f"{column}, {row}"


def _pixel_box(width: int, atom: int) -> Rectangle:
    row, column = divmod(atom, width)
    return Rectangle(column, row, column + 1, row + 1)


def _cells_named(name: str) -> int | None:
    """N of grid:N; None for any other name."""
    text = name.removeprefix("grid:")
    return whole_number(text) if text != name and text == text.strip() else None


def _cell_count(x: ImageInput, name: str) -> int:
    cells, most = _cells_named(name), min(MAX_CELLS, x.height, x.width)
    if cells is None or not 1 <= cells <= most:
        raise HeedfulError(f"unknown unit {name!r}", fix=f"Use grid:N with N from 1 to {most}")
    return cells


def _cells(x: ImageInput, rows: int, columns: int, name: str) -> Units:
    """Cells of equal size, as far as pixels allow, row by row."""
    down = np.arange(x.height) * rows // x.height
    along = np.arange(x.width) * columns // x.width
    labels = tuple(f"row {r + 1}, column {c + 1}" for r in range(rows) for c in range(columns))
    tops, lefts = np.searchsorted(down, range(rows + 1)), np.searchsorted(along, range(columns + 1))
    boxes = tuple(
        Rectangle(int(lefts[c]), int(tops[r]), int(lefts[c + 1]), int(tops[r + 1]))
        for r in range(rows)
        for c in range(columns)
    )
    return Units(name, labels, boxes, (down[:, None] * columns + along).ravel())


def _superpixels(x: ImageInput) -> Labels:
    try:
        from skimage.segmentation import slic
    except ImportError:
        raise HeedfulError(
            "superpixels need scikit-image", "it is not installed", "pip install 'heedful[images]'"
        ) from None
    count = min(SUPERPIXELS, len(x))
    return np.asarray(slic(x.pixels, n_segments=count, compactness=10, start_label=0), dtype=np.intp)


def pieces(name: str, labels: Labels) -> Units:
    """Units of any shape; numbers are made consecutive, in reading order of their first pixel."""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    rank = np.argsort(np.argsort(first))
    owner = rank[inverse.ravel()]
    boxes = tuple(_bounds(owner.reshape(labels.shape) == unit) for unit in range(len(first)))
    names = tuple(f"piece {unit + 1}, {_place(owner == unit, labels.shape)}" for unit in range(len(first)))
    return Units(name, names, boxes, owner)


def _place(inside: npt.NDArray[np.bool_], shape: tuple[int, ...]) -> str:
    """Where the middle of the pixels (H * W,) is, in thirds of the picture: top left, centre, lower right."""
    down, along = (float(axis.mean()) for axis in np.divmod(np.flatnonzero(inside), shape[1]))
    row = ("top", "middle", "bottom")[int(3 * (down + 0.5) / shape[0])]
    column = ("left", "centre", "right")[int(3 * (along + 0.5) / shape[1])]
    return "centre" if (row, column) == ("middle", "centre") else f"{row} {column}"


def _given(x: ImageInput) -> Units:
    if not x.regions:
        raise HeedfulError(
            "no regions were given", fix='Give them: {"picture": ..., "regions": {"dog": mask}}'
        )
    owner = np.full((x.height, x.width), len(x.regions))
    for number, (_, mask) in reversed(list(enumerate(x.regions))):  # where two overlap, the first has it
        owner[mask] = number
    names = [name for name, _ in x.regions] + [REST]
    kept = [number for number in range(len(names)) if (owner == number).any()]
    new = np.full(len(names), NEVER)
    new[kept] = range(len(kept))
    boxes = tuple(_bounds(owner == number) for number in kept)
    return Units("region", tuple(names[number] for number in kept), boxes, new[owner].ravel())


def _bounds(mask: npt.NDArray[np.bool_]) -> Rectangle:
    rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    return Rectangle(int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1)


def image_of(x: Input) -> ImageInput:
    """The input as an `ImageInput`. An input that is no picture gives an error."""
    if not isinstance(x, ImageInput):
        raise HeedfulError(f"this model reads pictures, and the input is of the kind {x.modality!r}")
    return x


def read_regions(regions: Any, picture: Picture) -> Regions:
    """Masks or boxes (left, top, right, bottom) by name, in pixels of the picture that was given; as masks
    (H, W) of the upright picture."""
    if not isinstance(regions, Mapping):
        raise HeedfulError("regions are masks or boxes by name", fix='Give {"dog": mask} or {"dog": box}')
    names = [str(name) for name in regions]
    if len(names) > MAX_REGIONS:
        raise HeedfulError(f"{len(names)} regions are too many", f"at most {MAX_REGIONS} are possible")
    if REST in names:
        why = "this is the name of what is in no region"
        raise HeedfulError(f"a region cannot be called {REST!r}", why, "Give it another name")
    if twice := [name for name in names if names.count(name) > 1]:
        raise HeedfulError(f"two regions are called {twice[0]!r}", fix="Give each another name")
    return tuple((str(name), _region(str(name), given, picture)) for name, given in regions.items())


def _region(name: str, given: Any, picture: Picture) -> Mask:
    try:
        return mask_of(given, picture)
    except HeedfulError as error:
        why = ": ".join(filter(None, (error.what, error.why)))
        raise HeedfulError(f"the region {name!r} cannot be used", why, error.fix) from None


def refuse_hidden(masks: Regions) -> None:
    """Regions that the model does not see, or that are covered by those before them."""
    taken: Any = False
    for name, mask in masks:
        if not mask.any():
            seen = f"the {mask.shape[1]} × {mask.shape[0]} pixels that the model sees"
            raise HeedfulError(f"the region {name!r} is empty", f"nothing of it is in {seen}")
        if not (mask & ~taken).any():
            raise HeedfulError(
                f"the region {name!r} has no place of its own", "the regions before it cover all of it"
            )
        taken = taken | mask


def overlap_notes(masks: Regions) -> tuple[str, ...]:
    """Which regions share a part, which then belongs to the first of the two."""
    if not masks or np.sum([mask for _, mask in masks], axis=0).max() < 2:
        return ()
    pairs = ((a, b) for (a, one), (b, other) in combinations(masks, 2) if (one & other).any())
    first = islice(pairs, MAX_OVERLAPS)
    return tuple(f"Regions {a!r} and {b!r} overlap: {a!r} has the shared part" for a, b in first)
