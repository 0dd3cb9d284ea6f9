"""How a unit of a picture is removed: the colours that take its place.

    mean      the mean colour of the picture
    blur      the picture, blurred until no detail is left (Gaussian, sigma a tenth of its side)
    noise     uniform random colours; several draws, whose values are averaged
    inpaint   each removed pixel is the weighted mean of its eight neighbours, plus a little noise
              (ROAD: one linear system; Rong et al. 2022)
    pad       its patches are hidden from attention: their colours stay, and nobody looks at them
              (vision transformers only, for units of whole patches; heedful.models.image_attention)

A removed unit never leaves the picture: its place stays, so the other units do not move. What is drawn is a
function of the picture and the number of the draw, so that every method sees the same removal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy import ndimage, sparse
from scipy.linalg import solveh_banded
from scipy.sparse.linalg import splu

from heedful.core.errors import HeedfulError
from heedful.modalities.image import ImageInput

Colours = npt.NDArray[np.float64]  # (H, W, 3), 0 to 1
Gone = npt.NDArray[np.bool_]  # (H, W)

BLUR_SHARE = 0.1  # of the smaller side
NOISE_DRAWS = 4
IMPUTED_NOISE = 0.01  # as in the paper, of the range of colours
EDGE, CORNER = 1 / 6, 1 / 12  # weights of the neighbours, as in the paper
WEIGHTS = np.array([CORNER, EDGE, CORNER, EDGE, 0.0, EDGE, CORNER, EDGE, CORNER])
MAX_BAND = 1 << 20  # numbers; systems with more are solved as sparse ones, which take less memory


@dataclass(frozen=True)
class ImageOperator:
    """A way to remove units of a picture."""

    name: str
    summary: str
    fill: Callable[[ImageInput, Gone, np.random.Generator], Colours]
    draws: int = 1
    # whether what it fills in depends on which other pixels are gone; if not, it is computed once per picture
    local: bool = False
    hides: bool = False  # from attention: colours stay


OPERATORS: dict[str, ImageOperator] = {}  # the first is the default


def image_operator(
    name: str, summary: str, *, draws: int = 1, local: bool = False, hides: bool = False
) -> Callable[[Callable[..., Colours]], Callable[..., Colours]]:
    """Register a way to remove units of a picture."""

    def register(function: Callable[..., Colours]) -> Callable[..., Colours]:
        OPERATORS[name] = ImageOperator(name, summary, function, draws, local, hides)
        return function

    return register


def colours(x: ImageInput) -> Colours:
    return x.pixels / 255.0


@image_operator("mean", "replaced by the mean colour of the picture")
def mean(x: ImageInput, gone: Gone, rng: np.random.Generator) -> Colours:
    return np.broadcast_to(colours(x).mean((0, 1)), x.pixels.shape)


@image_operator("blur", "replaced by the blurred picture")
def blur(x: ImageInput, gone: Gone, rng: np.random.Generator) -> Colours:
    sigma = BLUR_SHARE * min(x.height, x.width)
    return np.asarray(ndimage.gaussian_filter(colours(x), (sigma, sigma, 0), mode="nearest"))


@image_operator("noise", "replaced by random colours", draws=NOISE_DRAWS)
def noise(x: ImageInput, gone: Gone, rng: np.random.Generator) -> Colours:
    return rng.random(x.pixels.shape)


@image_operator("inpaint", "filled in from the pixels around it", local=True)
def inpaint(x: ImageInput, gone: Gone, rng: np.random.Generator) -> Colours:
    filled = imputed(colours(x), gone)
    return np.clip(filled + IMPUTED_NOISE * rng.standard_normal(filled.shape) * gone[..., None], 0, 1)


@image_operator("pad", "hidden from attention", hides=True)
def pad(x: ImageInput, gone: Gone, rng: np.random.Generator) -> Colours:
    return colours(x)


# those that every model of pictures offers
COLOURING = tuple(name for name, operator in OPERATORS.items() if not operator.hides)
HIDING = tuple(name for name, operator in OPERATORS.items() if operator.hides)


def imputed(picture: Colours, gone: Gone) -> Colours:
    """x_p = sum_q w_pq x_q over the eight neighbours of each removed pixel; one linear system for all three
    channels. With nothing left there is nothing to fill from: the mean colour then."""
    if gone.all():
        return np.broadcast_to(picture.mean((0, 1)), picture.shape).copy()
    if not gone.any():
        return picture.copy()
    places, outside = np.flatnonzero(gone), gone.size
    near = _neighbours(*gone.shape)[places]  # (m, 9)
    number = np.full(outside + 1, -1)
    number[places] = np.arange(len(places))
    column = number[near]  # (m, 9): which of the removed pixels, -1 where it is none
    weights = np.where(near < outside, WEIGHTS, 0.0)  # at the border: the sum of those inside is divided by
    colours_of = np.concatenate([picture.reshape(outside, -1), np.zeros((1, picture.shape[2]))])
    known = np.einsum("pk,pkc->pc", np.where(column < 0, weights, 0.0), colours_of[near])
    result = picture.copy()
    result[gone] = _solved(column, weights, known)
    return result


@lru_cache(maxsize=8)
def _neighbours(height: int, width: int) -> npt.NDArray[np.intp]:
    """(H W, 9): the pixels around each pixel and itself, row by row; H W where the picture ends."""
    number = np.full((height + 2, width + 2), height * width)
    number[1:-1, 1:-1] = np.arange(height * width).reshape(height, width)
    shifts = [(down, along) for down in range(3) for along in range(3)]
    return np.stack([number[d : d + height, a : a + width].ravel() for d, a in shifts], axis=1)


def _solved(column: npt.NDArray[np.intp], weights: Colours, known: Colours) -> Colours:
    """(m, 3): total_p x_p - sum of w_pq x_q over removed neighbours = known_p. The matrix is symmetric and
    positive definite; in a small picture few places lie between neighbours, so a band holds it."""
    m, total = len(column), weights.sum(1)
    row, k = np.nonzero(column[:, 5:] >= 0)  # the lower triangle: neighbours that come later
    away = column[row, k + 5] - row
    wide = int(away.max(initial=0)) + 1
    if wide * m <= MAX_BAND:
        band = np.zeros((wide, m))
        band[0] = total
        band[away, row] = -WEIGHTS[k + 5]
        return np.asarray(solveh_banded(band, known, lower=True, check_finite=False))
    there, data = column >= 0, -weights
    data[:, 4] = total
    ends = np.concatenate([[0], there.sum(1).cumsum()])
    return np.asarray(splu(sparse.csc_matrix((data[there], column[there], ends), shape=(m, m))).solve(known))


def checked_image_operator(name: str | None, offered: tuple[str, ...]) -> ImageOperator:
    name = name or offered[0]
    if name not in offered:
        known = "this model does not offer it" if name in OPERATORS else "there is no such operator"
        raise HeedfulError(
            f"parts of a picture cannot be removed by {name!r}", known, f"Use one of: {', '.join(offered)}"
        )
    return OPERATORS[name]
