"""Controls for maps of pictures: what a map looks like that knows the picture but not the model.

    edges           strength of the edges (Sobel): many gradient maps are little more than this (Adebayo 2018)
    smooth-random   random noise, blurred: smooth maps look plausible and beat rough ones without knowing more
    centre          a bump in the middle: photographs have their thing there (Judd et al. 2009)

A map that is not shown better than these is not shown to explain anything.
Cost: one forward for the output. Needs: a picture.
"""

from __future__ import annotations

import numpy as np
from scipy import ndimage

from heedful.core.attribution import Attribution
from heedful.core.registry import explainer
from heedful.engine.question import Question
from heedful.modalities.joint import over_atoms, picture_of, words_left_out

GREY = (0.299, 0.587, 0.114)  # how bright red, green and blue look
SMOOTH_SHARE = 0.06  # of the smaller side: about half a cell of the default grid
BUMP_WIDTH = 0.5  # standard deviation of the centre bump, in half sides


def edge_strength(pixels: np.ndarray) -> np.ndarray:
    """(H, W) length of the Sobel gradient of the brightness."""
    bright = pixels.astype(np.float64) @ np.array(GREY)
    return np.asarray(np.hypot(ndimage.sobel(bright, 0), ndimage.sobel(bright, 1)))


def _output(q: Question) -> float:
    return float(q.values(np.ones((1, len(q.units)), dtype=bool))[0])


def _answer(q: Question, scores: np.ndarray) -> Attribution:
    """Scores (H, W) of the picture."""
    every, notes = over_atoms(q.x, scores.ravel()), words_left_out(q.x)
    return q.answer(every, over=q.x.atom, output=_output(q), notes=notes)


@explainer("edges", needs={"picture", "values"}, cite="Sobel 1968; Adebayo et al. 2018", signed=False)
def edges(q: Question) -> Attribution:
    """Control: the edges of the picture. The model is not used.

    Limitations: This is a control. A map that is not better than edges is not shown to explain the model.
    """
    x = picture_of(q.x)
    return _answer(q, edge_strength(x.pixels))


@explainer(
    "smooth-random", needs={"picture", "values"}, takes=("seed",), cite="Song et al. 2023", signed=False
)
def smooth_random(q: Question) -> Attribution:
    """Control: random noise, blurred. The model is not used.

    Limitations: This is a control. Smooth maps often do better than rough maps without any information.
    """
    x = picture_of(q.x)
    rng = np.random.default_rng(q.seed)
    noise = rng.standard_normal((x.height, x.width))
    smooth = ndimage.gaussian_filter(noise, SMOOTH_SHARE * min(x.height, x.width), mode="wrap")
    return _answer(q, smooth - smooth.min())


@explainer("centre", needs={"picture", "values"}, cite="Judd et al. 2009", signed=False)
def centre(q: Question) -> Attribution:
    """Control: a bump in the middle of the picture. The model is not used.

    Limitations: This is a control. Things are often in the middle of a photograph, so a map can point at
    them without any information.
    """
    x = picture_of(q.x)
    return _answer(q, centre_bump(x.height, x.width))


def centre_bump(height: int, width: int) -> np.ndarray:
    """(H, W) exp(-r^2 / 2 s^2), r the distance from the middle in half sides."""
    down, along = (np.linspace(-1, 1, size) if size > 1 else np.zeros(1) for size in (height, width))
    return np.asarray(np.exp(-(down[:, None] ** 2 + along**2) / (2 * BUMP_WIDTH**2)))
