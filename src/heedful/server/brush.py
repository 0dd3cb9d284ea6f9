"""Try it on a picture: remove a region, and see what the methods claimed beside what the model does.

    claimed     minus the sum of the scores of the cells that went
    share       sizes of the scores inside the region / sizes of all scores: what a method without a sign says
    actual      f(picture without the region) - f(picture), of the explained number
    elsewhere   the same for the region's shape at other places, drawn at random (rows and columns go round):
                the control, which shows what any region of this size does

Cost: the picture, one row per place and draw of the operator, and the prediction: at most
2 + (1 + PLACES) x 4 model inputs.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from heedful.comparisons.result import Comparison
from heedful.core.attribution import Attribution
from heedful.core.errors import HeedfulError
from heedful.core.input import Input
from heedful.core.model import Model
from heedful.modalities.image import ImageInput
from heedful.modalities.image_operators import OPERATORS
from heedful.modalities.image_png import png
from heedful.modalities.joint import JointInput
from heedful.models.image_rows import Composer, image_rows
from heedful.server.explanation_cache import ExplanationCache
from heedful.server.live_explain import claims_about, predicted
from heedful.server.picture_cells import cells_of, pictured
from heedful.server.schemas import requests, responses
from heedful.server.what_if import claim_of, is_wanted, usual_operator

PLACES = 8  # of the control
Region = npt.NDArray[np.bool_]  # (cells,)


def remove_region(
    model: Model, ask: requests.BrushRequest, memory: ExplanationCache, waiting: int = 0
) -> responses.RemovedRegion:
    have = claims_about(model, ask, memory, waiting)
    first = next(iter(have.values()))
    x, target = first.x, first.target
    picture, cell = pictured(x, ask.unit or x.default_unit)
    unit = f"{cell}+{x.parts_of(ask.unit)[1]}" if isinstance(x, JointInput) else cell
    region = _region(ask.cells, len(picture.units(cell)))
    operator = ask.operator or usual_operator(model, have)
    cells = cells_of(picture, cell)
    others = shifted(region, len(cells.rows) - 1, len(cells.columns) - 1, ask.seed)
    keep = np.ones((2 + len(others), len(x.units(unit))), dtype=bool)  # words behind the cells stay
    for row, gone in zip(keep[1:], (region, *others), strict=True):
        row[: len(gone)] = ~gone
    values = model.values(x, target, keep, operator, unit)
    seen = _seen(model, picture, region, operator, cell)
    wanted = [item for item in have.values() if is_wanted(item, ask.methods)]
    return responses.RemovedRegion(
        before=values[0],
        after=values[1],
        elsewhere=(values[2:] - values[0]).tolist(),
        area=float(np.isin(picture.units(cell).owner, np.flatnonzero(region)).mean()),
        picture="" if seen is None else base64.b64encode(png(seen.pixels)).decode(),
        prediction=[] if seen is None else _prediction(model, x, seen),
        claims=[_claim(item, unit, region) for item in wanted],
        target=target.name,
        operators=[operator],
        notes=_notes(region),
    )


def _region(cells: Sequence[int], count: int) -> Region:
    if max(cells) >= count:
        raise HeedfulError(f"there is no cell {max(cells)}", f"the picture has {count}")
    region = np.zeros(count, dtype=bool)
    region[list(cells)] = True
    return region


def shifted(region: Region, rows: int, columns: int, seed: int) -> list[Region]:
    """The same shape at other places; fewer where there are not so many."""
    shape = region.reshape(rows, columns)
    places = np.random.default_rng(seed).permutation(rows * columns)
    found: list[Region] = []
    for down, along in (divmod(int(place), columns) for place in places):
        moved = np.roll(shape, (down, along), axis=(0, 1)).ravel()
        if not any(np.array_equal(moved, other) for other in (region, *found)):
            found.append(moved)
        if len(found) == PLACES:
            break
    return found


def _seen(model: Model, x: ImageInput, region: Region, operator: str, unit: str) -> ImageInput | None:
    """The picture without the region, in 8 bits, by the first draw; None where the operator leaves the
    colours as they are."""
    if operator not in OPERATORS or OPERATORS[operator].hides:
        return None
    row = image_rows(x, ~region[None], operator, unit, model.operators)[0]
    return replace(x, pixels=np.round(255 * Composer(x)(row)).astype(np.uint8))


def _prediction(model: Model, x: Input, seen: ImageInput) -> list[responses.Prediction]:
    given = replace(x, picture=seen) if isinstance(x, JointInput) else seen
    shares = [list(pair) for pair in model.predict(given)]
    return predicted(Comparison((), model={"kind": model.kind, "prediction": shares}))


def _claim(item: Attribution, unit: str, region: Region) -> responses.RegionClaim:
    sizes = np.abs(item.unit_scores(unit))
    total = float(sizes.sum())
    share = float(sizes[: len(region)][region].sum()) / total if total and math.isfinite(total) else None
    claim = claim_of(item, item.units(unit), np.flatnonzero(region).tolist())
    return responses.RegionClaim(**claim.model_dump(), share=share)


def _notes(region: Region) -> list[str]:
    if region.sum() < 2:
        return []
    return ["The claims of all cells are added. What cells do together is not in them."]
