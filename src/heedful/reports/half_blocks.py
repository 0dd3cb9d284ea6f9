"""The map of a picture in the terminal: two rows of cells per line, by half blocks.

With colours: blue for the target, orange against it (or blue for size), stronger where the score is larger.
Without: + and - for the strongest fifth, a dot for the rest.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from rich.text import Text

from heedful.core.document import PictureMap

COLUMNS = 28  # cells per row of the map
MARKED = 0.2  # share of the cells that are marked where there is no colour
BLUE, ORANGE = np.array([20, 90, 160]), np.array([200, 100, 10])
PAPER = np.array([235, 235, 235])


def cells(node: PictureMap) -> np.ndarray:
    """(rows, COLUMNS) share of the part at each cell's middle."""
    width, height = node.size
    rows = max(2, round(COLUMNS * height / width))
    shares = np.zeros((rows, COLUMNS))
    for part in node.parts:
        left, top, right, bottom = part.box
        down = (np.arange(rows) + 0.5) * height / rows
        along = (np.arange(COLUMNS) + 0.5) * width / COLUMNS
        inside = ((down >= top) & (down < bottom))[:, None] & ((along >= left) & (along < right))
        shares[inside] = part.share
    return shares


def half_blocks(node: PictureMap, plain: bool = False) -> Iterator[Text]:
    shares = cells(node)
    if plain:
        yield from _marks(shares, node.signed)
        return
    if len(shares) % 2:
        shares = np.vstack([shares, np.zeros((1, COLUMNS))])
    for upper, lower in zip(shares[::2], shares[1::2], strict=True):
        line = Text()
        for above, below in zip(upper, lower, strict=True):
            line.append("▀", f"{_colour(above, node.signed)} on {_colour(below, node.signed)}")
        yield line


def _marks(shares: np.ndarray, signed: bool) -> Iterator[Text]:
    level = max(np.quantile(np.abs(shares), 1 - MARKED), 1e-9)
    for row in shares[::2]:
        signs = ["·" if abs(s) < level else "-" if signed and s < 0 else "+" for s in row]
        yield Text("".join(signs))


def _colour(share: float, signed: bool) -> str:
    full = ORANGE if signed and share < 0 else BLUE
    red, green, blue = np.round(PAPER + (full - PAPER) * min(1.0, abs(share))).astype(int)
    return f"rgb({red},{green},{blue})"
