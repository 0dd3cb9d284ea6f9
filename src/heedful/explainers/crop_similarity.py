"""Crop similarity: which parts of the picture, cut out and enlarged, fit the target.

    s(crop)  = f(crop) - f_neutral(crop)             for a text: cos(crop, text) - cos(crop, "a photo")
    map(p)   = mean of s over the crops that contain p, minus the mean over all crops

Crops are windows of a half, a third and a quarter of the sides, which overlap by half: 83 of them. The
neutral text takes away what every text has in common; "" switches it off, and a class or "A rather than B"
needs none. Words are not cut out: they score zero.

Cost: one forward per crop. Needs: crops. As in demonstrations of CLIP; a masked version is RISE.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from heedful.core.attribution import Attribution
from heedful.core.input import Input, Rectangle
from heedful.core.registry import explainer
from heedful.core.target import Target
from heedful.engine.question import Question
from heedful.modalities.joint import JointInput, over_atoms, picture_of, words_left_out

SHARES = (2, 3, 4)  # a side is one of these parts of the picture's side
OVERLAP = 2  # a window moves by its side divided by this


def crops(height: int, width: int) -> list[Rectangle]:
    """Windows of several sizes, row by row; together they cover the picture."""
    boxes: dict[Rectangle, None] = {}
    for share in SHARES:
        tall, wide = max(1, height // share), max(1, width // share)
        for top in _starts(height, tall, share):
            for left in _starts(width, wide, share):
                boxes[Rectangle(left, top, left + wide, top + tall)] = None
    return list(boxes)


def _starts(length: int, side: int, share: int) -> list[int]:
    """Where windows begin: evenly, the last one at the end."""
    count = OVERLAP * (share - 1) + 1
    return sorted({round(at * (length - side) / (count - 1)) for at in range(count)})


def _rows(x: Input) -> int:
    picture = picture_of(x)
    return len(crops(picture.height, picture.width))


def _contrasted(q: Question, neutral: str) -> Target:
    """The similarity with the text less that with the neutral text."""
    if not isinstance(q.x, JointInput) or q.target.contrasted or not neutral or neutral == q.x.text.text:
        return q.target
    return replace(q.target, contrast=1, contrast_label=neutral)


@explainer(
    "crop-similarity",
    needs={"picture", "values", "crops"},
    cite="CLIP demonstrations",
    rows=lambda x, target, p: _rows(x) + 1,
)
def crop_similarity(q: Question, *, neutral: str = "a photo") -> Attribution:
    """Mean target value of the crops that contain a place, minus the mean of all crops.

    Limitations: A crop shows a part without what is around it, enlarged, which the model may read
    differently. The map is as coarse as the windows. Words are not scored.
    """
    x = picture_of(q.x)
    boxes = crops(x.height, x.width)
    with q.spend(len(boxes)):
        values = q.model.crop_values(q.x, _contrasted(q, neutral), boxes)
    total, count = np.zeros((x.height, x.width)), np.zeros((x.height, x.width))
    for value, (left, top, right, bottom) in zip(values, boxes, strict=True):
        total[top:bottom, left:right] += value
        count[top:bottom, left:right] += 1
    scores = over_atoms(q.x, (total / count - values.mean()).ravel())
    output = float(q.values(np.ones((1, len(q.units)), dtype=bool))[0])
    return q.answer(scores, over=q.x.atom, output=output, notes=words_left_out(q.x))
