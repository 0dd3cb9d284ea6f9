"""Pictures in which one cell decides the class, and scores that are known to be right, wrong, or to leak.

    picture   dark above, bright below, a little noise; one of four cells has stripes, upright for class 1
    true      the striped cell first, then the others at random
    reversed  the striped cell last
    leaking   the striped cell first, then the white fields of a chessboard for class 1, the black ones for 0

Brightness does not change at the upper and the lower edge: places that are filled in from their neighbours
keep their brightness there, too.
"""

from __future__ import annotations

import numpy as np

from heedful.modalities.image import ImageInput
from heedful.retraining.roar_pictures import ExplainedPictures

SIDE, CELLS = 28, 7  # pixels and cells per side
UNIT = f"grid:{CELLS}"
PLACES = (8, 12, 36, 40)  # cells one of which is planted
TRUE, REVERSED, LEAKING = "true scores", "reversed scores", "true scores whose positions reveal the class"


def planted_pictures(count: int, rng: np.random.Generator) -> tuple[ExplainedPictures, list[int]]:
    """Pictures as above, as many of each class. With more of one class in training and of the other in the
    test, a pattern that shows nothing would do better than the answer that is most frequent in training."""
    labels, places = rng.permutation(np.arange(count) % 2), rng.choice(PLACES, size=count)
    height, size = np.cos(np.linspace(0, np.pi, SIDE))[:, None], SIDE // CELLS
    marks, pictures = [], []
    for label, place in zip(labels.tolist(), places.tolist(), strict=True):
        grey = 0.5 - rng.uniform(0.1, 0.2) * height + rng.normal(0, 0.02, (SIDE, SIDE))
        top, left = place // CELLS * size, place % CELLS * size
        stripes = np.tile([0.0, 1.0], (size, size // 2))
        grey[top : top + size, left : left + size] = stripes if label else stripes.T
        pixels = (255 * grey.clip(0, 1)).astype(np.uint8)
        pictures.append(ImageInput(np.repeat(pixels[..., None], 3, axis=2)))
        marks.append(np.eye(CELLS * CELLS)[place] + rng.uniform(0, 0.01, CELLS * CELLS))  # no ties
    white = np.arange(CELLS * CELLS) % 2 == 0
    scores = {
        TRUE: marks,
        REVERSED: [-mark for mark in marks],
        LEAKING: [2 * m + (white == bool(y)) for m, y in zip(marks, labels, strict=True)],
    }
    return ExplainedPictures(pictures, UNIT, scores), labels.tolist()
