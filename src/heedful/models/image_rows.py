"""Pictures with units removed, as a model reads them: which units are gone, by which operator, which draw.

A row is small (bits of what is gone); its colours are made when it is run, so a thousand rows take no memory.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from heedful.core.errors import HeedfulError
from heedful.core.input import Units
from heedful.core.model import Masks
from heedful.core.removal_record import record
from heedful.modalities.image import ImageInput
from heedful.modalities.image_files import resized
from heedful.modalities.image_operators import OPERATORS, checked_image_operator, colours

Colours32 = npt.NDArray[np.float32]  # (H, W, 3), 0 to 1


@dataclass(frozen=True)
class ImageRow:
    """One model input."""

    gone: bytes = b""  # a bit per unit, set where the unit is removed; empty: the picture as it is
    unit: str = ""
    operator: str = ""
    draw: int = 0
    box: tuple[int, ...] = ()  # a part that is cut out and enlarged: left, top, right, bottom

    def __len__(self) -> int:
        return 1  # all pictures of a model have one size: nothing is padded


WHOLE = ImageRow()


def image_rows(
    x: ImageInput, keep: npt.ArrayLike, operator: str | None, unit: str, offered: tuple[str, ...]
) -> list[ImageRow]:
    """The rows of each mask of `keep` (n, d), all draws of a mask next to each other: n × draws of them."""
    units, chosen = x.units(unit), checked_image_operator(operator, offered)
    masks: Masks = np.asarray(keep, dtype=bool)
    if masks.ndim != 2 or masks.shape[1] != len(units):
        raise HeedfulError(f"keep has shape {masks.shape}, but the picture has {len(units)} units")
    if chosen.hides:
        whole_patches(x, units)
    if not masks.all():  # the picture as it is shows no operator
        record(chosen.name)
    bits = np.packbits(~masks, axis=1)
    return [
        WHOLE if mask.all() else ImageRow(line.tobytes(), units.name, chosen.name, draw)
        for mask, line in zip(masks, bits, strict=True)
        for draw in range(chosen.draws)
    ]


def whole_patches(x: ImageInput, units: Units) -> npt.NDArray[np.intp]:
    """(P,) the unit of each patch. Units that cut patches cannot be hidden."""
    patches = x.units("patch")
    owners = [np.unique(units.owner[atoms]) for atoms in patches]
    if any(len(owner) > 1 for owner in owners):
        raise HeedfulError(
            f"the unit {units.name} cannot be hidden from attention",
            "its borders cut patches of the model",
            "Use the unit patch, or another operator: mean, blur",
        )
    return np.array([owner[0] for owner in owners])


def draws_of(operator: str | None, offered: tuple[str, ...]) -> int:
    return checked_image_operator(operator, offered).draws


class Composer:
    """Makes the colours of rows of one picture; what an operator fills in is remembered where it can be."""

    def __init__(self, x: ImageInput) -> None:
        self.x = x
        self.whole = colours(x).astype(np.float32)
        self._fills: dict[tuple[str, int], Colours32] = {}

    def __call__(self, row: ImageRow) -> Colours32:
        if row.box:
            left, top, right, bottom = row.box
            part = resized(self.x.pixels[top:bottom, left:right], self.whole.shape[:2])
            return np.asarray(part / 255.0, dtype=np.float32)
        if not row.gone:
            return self.whole
        gone = self.gone(row)
        return np.where(gone[..., None], self._fill(row, gone), self.whole)

    def gone(self, row: ImageRow) -> npt.NDArray[np.bool_]:
        """(H, W): which pixels are removed."""
        units = self.x.units(row.unit)
        bits = np.unpackbits(np.frombuffer(row.gone, dtype=np.uint8), count=len(units)).astype(bool)
        return np.append(bits, False)[units.owner].reshape(self.x.height, self.x.width)  # -1: never removed

    def hidden(self, row: ImageRow) -> npt.NDArray[np.bool_]:
        """(P,): which patches are hidden from attention."""
        gone = self.gone(row).ravel() if row.gone else np.zeros(len(self.x), dtype=bool)
        first = [atoms[0] for atoms in self.x.units("patch")]
        return gone[first] & OPERATORS[row.operator].hides if row.gone else gone[first]

    def _fill(self, row: ImageRow, gone: npt.NDArray[np.bool_]) -> Colours32:
        operator = OPERATORS[row.operator]
        if operator.local:
            return operator.fill(self.x, gone, self._rng(row)).astype(np.float32)
        key = (row.operator, row.draw)
        if key not in self._fills:
            self._fills[key] = operator.fill(self.x, gone, self._rng(row)).astype(np.float32)
        return self._fills[key]

    def _rng(self, row: ImageRow) -> np.random.Generator:
        """A function of the picture, the operator and the draw: all methods see the same removal."""
        name = f"{self.x.key} {row.operator} {row.draw}".encode()
        return np.random.default_rng(int.from_bytes(hashlib.sha256(name).digest()[:8], "big"))
