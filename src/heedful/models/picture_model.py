"""What models of pictures share: reading a picture, and running it with units removed, in batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from heedful.core.arrays import Floats
from heedful.core.defaults import AUDIT_CONTROLS, DEFAULT_METHODS
from heedful.core.input import Input, Rectangle
from heedful.core.model import Masks, Model
from heedful.core.progress import Progress
from heedful.core.target import Target
from heedful.modalities.image import ImageInput, image_of
from heedful.modalities.image_files import read_picture
from heedful.modalities.image_masks import mask_of
from heedful.modalities.image_operators import COLOURING
from heedful.models import passes, targets
from heedful.models.image_reader import ImageReader
from heedful.models.image_rows import Composer, ImageRow, draws_of, image_rows

BATCH_PIXELS = 1 << 21  # of all pictures that run together on a GPU: fits a small one
MAX_ROWS = 64


class PictureModel(Model):
    """A model that reads pictures; a subclass says what it answers for rows."""

    modality = ImageInput.modality
    reader: ImageReader
    default_methods: tuple[str, ...] = (*DEFAULT_METHODS, "gradcam", *AUDIT_CONTROLS)
    baselines: tuple[str, ...] = ("mean", "black", "blur", "noise")
    operators: tuple[str, ...] = COLOURING
    batch_pixels: int = BATCH_PIXELS
    some_input: Any = np.full((8, 8, 3), 128, dtype=np.uint8)

    def encode(self, raw: Any, long: str = "error") -> ImageInput:
        return image_of(raw) if isinstance(raw, Input) else self.reader.read(raw)

    def truth_mask(self, raw: Any, given: Any) -> npt.NDArray[np.bool_]:
        picture = read_picture(raw.get("picture") if isinstance(raw, Mapping) else raw)
        return self.reader.see_mask(mask_of(given, picture)).ravel()

    def target(self, x: Input, spec: Any = None) -> Target:
        if isinstance(spec, Target):
            return spec
        predicted = int(self.scores_of(image_of(x)).argmax())
        return targets.for_classifier(spec, self.kind, self.labels, predicted)

    def scores_of(self, x: ImageInput) -> Floats:
        """(C,) of the picture as it is."""
        return np.asarray(self.score_rows(Composer(x), [ImageRow()])[0])

    def score_rows(self, compose: Composer, rows: Sequence[ImageRow]) -> Floats:
        """(n, C)"""
        raise NotImplementedError

    @property
    def rows_at_once(self) -> int:
        height, width = self.reader.size or (512, 512)
        return max(1, min(MAX_ROWS, self.batch_pixels // (height * width)))

    def rows(
        self, x: Input, target: Target, keep: Masks, operator: str | None = None, unit: str = ""
    ) -> list[Any]:
        return image_rows(image_of(x), keep, operator, unit, self.named_operators)

    def values(
        self,
        x: Input,
        target: Target,
        keep: Masks,
        operator: str | None = None,
        unit: str = "",
        progress: Progress | None = None,
        cache: Any = None,
    ) -> Floats:
        """The mean over the draws of the operator."""
        compose, rows = Composer(image_of(x)), self.rows(x, target, keep, operator, unit)

        def run(chunk: list[Any]) -> Floats:
            with self.meter.counted(unique=len(chunk), tokens=len(chunk) * len(x)):
                scores: Any = self.score_rows(compose, chunk)
                return np.asarray(target.score(scores), dtype=np.float64)

        values, _ = passes.evaluate(rows, run, memory=cache, most=self.rows_at_once, progress=progress)
        self.meter.forwards += len(rows)
        return np.asarray(values.reshape(-1, draws_of(operator, self.named_operators)).mean(1))

    def crop_values(self, x: Input, target: Target, boxes: Sequence[Rectangle]) -> Floats:
        x = image_of(x)
        compose, most = Composer(x), self.rows_at_once
        rows = [ImageRow(box=box) for box in boxes]
        with self.meter.counted(forwards=len(rows), unique=len(rows), tokens=len(rows) * len(x)):
            queue = [rows[at : at + most] for at in range(0, len(rows), most)]
            scores = [
                out for _, out in passes.run_with_oom_retry(queue, lambda c: self.score_rows(compose, c))
            ]
        every: Any = np.concatenate(scores)
        return np.asarray(target.score(every), dtype=np.float64)
