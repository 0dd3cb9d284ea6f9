"""How far two pictures of a page differ: the share of what is drawn, not of the paper, that is not the same.

A picture is read in cells of 8 pixels. A cell has ink where it is not the background (the commonest colour).
A cell with ink is the same where the other picture has one like it at that place or one cell away, so that a
font a little wider passes and a panel that is gone does not. Told is the share over the whole picture and in
the worst of its horizontal bands, which is where one small panel shows. Boxes of the pictures' own "masks",
which hold what changes from run to run (seconds), are left out.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from PIL import Image

CELL = 8  # pixels
INK = 5  # of 255: a cell that is not the background
FAR = 25  # of 255: a cell that looks different
BANDS, FEW = 10, 40  # bands of a picture; one with fewer inked cells than this says little
WHOLE, BAND = 0.06, 0.35  # shares that may differ


def differ(one: Path, other: Path) -> tuple[float, float]:
    """(share of inked cells that differ, the same in the worst band)."""
    a, b = _cells(one), _cells(other)
    if a.shape != b.shape:
        return 1.0, 1.0
    open_ = ~(_masked(one, a.shape[:2]) | _masked(other, a.shape[:2]))
    ink_a, ink_b = _ink(a) & open_, _ink(b) & open_
    bad = (ink_a & (_apart(a, b) > FAR)) | (ink_b & (_apart(b, a) > FAR))
    # pale ink may vanish within FAR: what has ink here and none near it there differs too
    bad |= (ink_a & ~_near(_ink(b))) | (ink_b & ~_near(_ink(a)))
    ink = ink_a | ink_b
    worst = 0.0
    for rows in np.array_split(np.arange(len(ink)), BANDS):
        if ink[rows].sum() >= FEW:
            worst = max(worst, float(bad[rows].sum() / ink[rows].sum()))
    return float(bad.sum() / max(1, ink.sum())), worst


def alike(one: Path, other: Path) -> bool:
    whole, band = differ(one, other)
    return whole <= WHOLE and band <= BAND


def _cells(path: Path) -> np.ndarray:  # (h, w, 3): the mean colour of each
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB").reduce(CELL), dtype=float)


def _ink(cells: np.ndarray) -> np.ndarray:  # (h, w): True where something is drawn
    packed = cells.round().astype(int) @ (1 << 16, 1 << 8, 1)
    _, first, counts = np.unique(packed, return_index=True, return_counts=True)
    common = cells.round().reshape(-1, 3)[first[counts.argmax()]]
    return np.abs(cells - common).max(-1) > INK


def _apart(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """How far each cell of a is from the nearest in colour of b, at its place or beside it."""
    edge = np.pad(b, ((1, 1), (1, 1), (0, 0)), mode="edge")
    high, wide = a.shape[:2]
    shifts = [edge[i : i + high, j : j + wide] for i in range(3) for j in range(3)]
    return np.min([np.abs(a - shift).max(-1) for shift in shifts], axis=0)


def _near(ink: np.ndarray) -> np.ndarray:
    edge = np.pad(ink, 1)
    high, wide = ink.shape
    return np.any([edge[i : i + high, j : j + wide] for i in range(3) for j in range(3)], axis=0)


def _masked(path: Path, shape: tuple[int, ...]) -> np.ndarray:
    found = np.zeros(shape, dtype=bool)
    with Image.open(path) as image:
        masks = json.loads(image.info.get("masks", "[]"))
    for left, top, right, bottom in masks:
        found[int(top) // CELL : int(bottom) // CELL + 1, int(left) // CELL : int(right) // CELL + 1] = True
    return found
