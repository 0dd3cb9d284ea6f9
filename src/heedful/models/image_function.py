"""A plain function of pictures as a model: the black box. It gets a list of (H, W, 3) uint8 arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from heedful.core.arrays import Floats
from heedful.core.cost import Meter
from heedful.core.input import Input
from heedful.modalities.image import image_of
from heedful.modalities.image_files import Pixels
from heedful.models.function import checked_scores
from heedful.models.image_reader import ImageReader
from heedful.models.image_rows import Composer, ImageRow
from heedful.models.picture_model import PictureModel

PictureScores = Callable[[list[Pixels]], Any]


class ImageFunction(PictureModel):
    """Scores are (n,) or (n, C) numbers; with C > 1 each column is a label."""

    kind = "function"
    capabilities = frozenset({"values", "picture", "crops"})

    def __init__(
        self,
        function: PictureScores,
        reader: ImageReader,
        labels: Sequence[str] | None = None,
        name: str = "",
    ) -> None:
        self.function, self.reader, self.meter = function, reader, Meter()
        self.name = name or getattr(function, "__name__", type(function).__name__)
        self._labels = None if labels is None else tuple(labels)

    @property
    def labels(self) -> tuple[str, ...]:
        if self._labels is None:
            grey = np.full((*(self.reader.size or (32, 32)), 3), 128, dtype=np.uint8)
            self._labels = tuple(f"score {i}" for i in range(self._scores([grey]).shape[1]))
        return self._labels

    def facts(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "kind": self.kind,
            "modality": "image",
            "labels": list(self.labels),
            "window": None,
            "class": "function",
        }

    def predict(self, x: Input, k: int = 5, given: Sequence[int] = ()) -> list[tuple[str, float]]:
        scores = self.scores_of(image_of(x))
        return [(self.labels[i], float(scores[i])) for i in np.argsort(-scores, kind="stable")[:k]]

    def score_rows(self, compose: Composer, rows: Sequence[ImageRow]) -> Floats:
        return self._scores([np.round(255 * compose(row)).astype(np.uint8) for row in rows])

    def _scores(self, pictures: list[Pixels]) -> Floats:
        return checked_scores(self.function(pictures), len(pictures), self.name, self._labels, "picture")
