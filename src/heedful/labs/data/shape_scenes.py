"""Scenes with captions: one or two coloured shapes or digits on photographs.

    "a red circle"      "a green triangle above a white seven"      "an orange ring and a blue star"

`Wording` is what a caption claims; `holds` says whether it is true of a scene. So wrong captions can be told
from captions that are true by chance. zoo:tiny-clip learnt from scenes of "train".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from heedful.core.arrays import Floats
from heedful.labs.data.digit_scenes import SIZE, cut_out
from heedful.labs.data.digits import digits
from heedful.labs.data.scenes import Area, Scene, background, halves, paste, to_pixels

COLOURS = {
    "red": (0.85, 0.08, 0.08),
    "green": (0.10, 0.62, 0.15),
    "blue": (0.10, 0.20, 0.90),
    "yellow": (0.97, 0.92, 0.10),
    "orange": (1.00, 0.52, 0.03),
    "purple": (0.55, 0.10, 0.65),
    "white": (0.98, 0.98, 0.98),
    "black": (0.03, 0.03, 0.03),
}
DIGIT_NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
INVERSE = {"left of": "right of", "right of": "left of", "above": "below", "below": "above", "and": "and"}
NEAREST = 0.35  # least distance between a colour and what is behind it
JITTER = 0.06  # of a colour
SIDES = {1: (0.3, 0.62), 2: (0.28, 0.46)}  # of a thing, as a share of the picture, by the number of things
FINE = 4  # a shape is drawn so many times larger and averaged
DIGIT_SHARE = 0.3  # of all things
POINT = "thing"  # in a caption that does not say what it is

Grid = npt.NDArray[np.float64]
Inside = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Thing:
    """What a caption says of a thing; "" where it does not say."""

    colour: str = ""
    shape: str = ""

    def words(self) -> str:
        """With its article: "an orange ring"."""
        named = f"{self.colour} {self.shape or POINT}".strip()
        return f"{'an' if named[0] in 'aeiou' else 'a'} {named}"

    def fits(self, other: Thing) -> bool:
        """Nothing that is said differs from `other`."""
        return self.colour in ("", other.colour) and self.shape in ("", other.shape)


@dataclass(frozen=True)
class Wording:
    """What a caption claims: its things and how the first lies to the second."""

    things: tuple[Thing, ...]
    relation: str = ""

    def caption(self) -> str:
        return f" {self.relation} ".join(thing.words() for thing in self.things)

    def turned(self) -> Wording:
        """The same said from the other side: "a right of b" for "b left of a"."""
        return Wording(self.things[::-1], INVERSE[self.relation])


def holds(said: Wording, there: Wording) -> bool:
    """Whether a caption is true of a scene that `there` describes completely."""
    if len(said.things) == 1:
        return any(said.things[0].fits(thing) for thing in there.things)
    if len(there.things) == 1:
        return False
    sides = (there, there.turned())
    return any(
        said.relation in ("and", side.relation)
        and all(a.fits(b) for a, b in zip(said.things, side.things, strict=True))
        for side in sides
    )


def shape_scenes(n: int, *, split: str = "test", count: int = 1, size: int = SIZE, seed: int) -> list[Scene]:
    """`n` scenes with `count` (1 or 2) things each; labels such as "red circle"."""
    rng = np.random.default_rng(seed)
    return [shape_scene(rng, split, count, size)[0] for _ in range(n)]


def shape_scene(
    rng: np.random.Generator, split: str, count: int = 1, size: int = SIZE
) -> tuple[Scene, Wording]:
    """One scene, and all that can be said of it."""
    colours = background(rng, size, split)
    relation, *areas = halves(rng, size) if count == 2 else ("", Area(0, 0, size, size))
    things: list[Thing] = []
    masks = []
    for area in areas:
        low, high = SIDES[count]
        shape, cover = draw_shape(rng, split, round(size * rng.uniform(low, high)))
        place = area.place(rng, *cover.shape)
        row, column = place
        behind = colours[row : row + cover.shape[0], column : column + cover.shape[1]].mean((0, 1))
        colour = far_colour(rng, behind, {t.colour for t in things if t.shape == shape})
        value = np.clip(COLOURS[colour] + JITTER * rng.standard_normal(3), 0, 1)
        colours, mask = paste(colours, cover, value, place)
        things.append(Thing(colour, shape))
        masks.append(mask)
    there = Wording(tuple(things), relation)
    labels = tuple(f"{thing.colour} {thing.shape}" for thing in things)
    return Scene(to_pixels(colours), labels, np.stack(masks), there.caption()), there


def far_colour(rng: np.random.Generator, behind: Floats, taken: set[str]) -> str:
    """A random colour that differs from what is behind; the farthest if none does."""
    free = [name for name in COLOURS if name not in taken]
    distances = np.array([np.linalg.norm(behind - COLOURS[name]) for name in free])
    far = np.flatnonzero(distances >= NEAREST)
    return free[int(rng.choice(far))] if len(far) else free[int(distances.argmax())]


def draw_shape(rng: np.random.Generator, split: str, side: int) -> tuple[str, Floats]:
    """A name, and how much it covers, from 0 to 1."""
    if rng.random() >= DIGIT_SHARE:
        name = str(rng.choice(list(SHAPES)))
        return name, shape_cover(name, side)
    images, labels = digits(split)
    at = int(rng.integers(len(labels)))
    return DIGIT_NAMES[labels[at]], cut_out(images[at], side, side)


# --- shapes: inside or outside, for x to the right and y down, both from -1 to 1 ---


@cache
def shape_cover(name: str, side: int) -> Floats:
    """(side, side), averaged over FINE x FINE points per pixel."""
    ticks = (np.arange(side * FINE) + 0.5) / (side * FINE) * 2 - 1
    inside = SHAPES[name](*np.meshgrid(ticks, ticks))
    return np.asarray(inside.reshape(side, FINE, side, FINE).mean((1, 3)))


def polygon(*corners: tuple[float, float]) -> Callable[[Grid, Grid], Inside]:
    """Even-odd rule: a ray to the right crosses the border an odd number of times."""

    def inside(x: Grid, y: Grid) -> Inside:
        odd = np.zeros(x.shape, dtype=bool)
        for (x0, y0), (x1, y1) in zip(corners, corners[1:] + corners[:1], strict=True):
            if y0 != y1:
                crosses = (y0 > y) != (y1 > y)
                odd ^= crosses & (x < x0 + (y - y0) * (x1 - x0) / (y1 - y0))
        return odd

    return inside


def star_corners() -> list[tuple[float, float]]:
    angles = np.arange(10) * np.pi / 5
    radii = np.where(np.arange(10) % 2, 0.42, 1.0)
    return [(float(r * np.sin(a)), float(-r * np.cos(a))) for r, a in zip(radii, angles, strict=True)]


def heart(x: Grid, y: Grid) -> Inside:
    """(x² + y² - 1)³ ≤ x² y³, with y up, moved and scaled to fill the square."""
    x, y = 1.15 * x, 0.1 - 1.15 * y
    return np.asarray((x**2 + y**2 - 1) ** 3 <= x**2 * y**3)


SHAPES: dict[str, Callable[[Grid, Grid], Inside]] = {
    "circle": lambda x, y: x**2 + y**2 <= 1,
    "ring": lambda x, y: (x**2 + y**2 <= 1) & (x**2 + y**2 >= 0.3),
    "square": lambda x, y: np.maximum(abs(x), abs(y)) <= 0.9,
    "cross": lambda x, y: np.minimum(abs(x), abs(y)) <= 0.3,
    "moon": lambda x, y: (x**2 + y**2 <= 1) & ((x - 0.5) ** 2 + y**2 >= 0.64),
    "diamond": polygon((0, -1), (0.75, 0), (0, 1), (-0.75, 0)),
    "triangle": polygon((0, -1), (1, 0.9), (-1, 0.9)),
    "arrow": polygon((1, 0), (0.1, -0.9), (0.1, -0.35), (-1, -0.35), (-1, 0.35), (0.1, 0.35), (0.1, 0.9)),
    "star": polygon(*star_corners()),
    "heart": heart,
}
THINGS = (*SHAPES, *DIGIT_NAMES)
