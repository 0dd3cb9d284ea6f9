"""The map of a picture in the terminal: two rows of cells per line, by half blocks.

With colours: blue for the target, orange against it, violet for sizes without a sign; stronger where the
score is larger. Without: + and - for the strongest fifth, a dot for the rest. Units that a sentence names
have their number in the middle.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from rich.text import Text

from heedful.core.document import PictureMap
from heedful.reports.shading import COLOUR_NAMES, TOO_WEAK, hue, level

COLUMNS = 28  # cells per row of the map, where the terminal has room
MARKED = 0.2  # share of the cells that are marked where there is no colour
HUES = {"pos": (20, 90, 160), "neg": (200, 100, 10), "any": (105, 75, 175)}
MARKS = {"pos": "+", "neg": "-", "any": "+"}
MEANS = {"pos": "for", "neg": "against", "any": "strong"}
PAPER = np.array([235, 235, 235])


def cells(node: PictureMap, columns: int = COLUMNS) -> np.ndarray:
    """(rows, columns) share of the part that covers each cell's middle. Parts smaller than a cell are in the
    cell of their own middle. Where several are in one cell, it has the largest by size."""
    width, height = node.size
    rows = max(2, round(columns * height / width))
    shares = np.zeros((rows, columns))
    for part in node.parts:
        left, top, right, bottom = part.box
        inside = np.ix_(_covered(top, bottom, height, rows), _covered(left, right, width, columns))
        shares[inside] = _stronger(shares[inside], part.share)
    return shares


def _covered(start: int, stop: int, length: int, count: int) -> np.ndarray:
    """Which of `count` cells along one side a part covers: at least one."""
    middles = (np.arange(count) + 0.5) * length / count
    found = np.flatnonzero((middles >= start) & (middles < stop))
    return found if len(found) else np.array([int((start + stop) / 2 * count / length)])


def _stronger(one: np.ndarray, other: np.ndarray | float) -> np.ndarray:
    """The larger of two by size, with its sign."""
    return np.where(np.abs(one) >= np.abs(other), one, other)


def half_blocks(node: PictureMap, plain: bool = False, columns: int = COLUMNS) -> Iterator[Text]:
    """One line per two rows of cells. A mark is by the stronger of the two."""
    shares = cells(node, min(columns, COLUMNS))
    numbers = _numbers(node, shares.shape)
    if len(shares) % 2:
        shares = np.vstack([shares, np.zeros((1, shares.shape[1]))])
    both = _stronger(shares[::2], shares[1::2])
    strong = max(np.quantile(np.abs(both), 1 - MARKED), 1e-9)
    for number, (upper, lower) in enumerate(zip(shares[::2], shares[1::2], strict=True)):
        line = Text()
        for column, (above, below) in enumerate(zip(upper, lower, strict=True)):
            digit = numbers.get((number, column), "")
            if plain:
                share = both[number, column]
                seen = abs(share) >= strong and level(share)  # what is too weak for a colour has no mark
                line.append(digit or (MARKS[hue(share, node.signed)] if seen else "·"))
            elif digit:
                line.append(digit, f"bold black on {_colour(0.0, node.signed)}")
            else:
                line.append("▀", f"{_colour(above, node.signed)} on {_colour(below, node.signed)}")
        yield line


def key(node: PictureMap, plain: bool, by: str) -> str:
    """What marks or colours mean, and by which method they are."""
    kinds = {hue(part.share, node.signed) for part in node.parts if level(part.share)}
    names = MARKS if plain else {kind: f"{name}:" for kind, name in COLOUR_NAMES.items()}
    told = [f"{names[kind]} {MEANS[kind]}" for kind in MEANS if kind in kinds]
    return ", ".join([*(told or [TOO_WEAK]), by])


def _numbers(node: PictureMap, shape: tuple[int, ...]) -> Mapping[tuple[int, int], str]:
    """(line, column) -> the number of a named unit: at the middle of the part nearest to its own middle."""
    (width, height), found = node.size, {}
    for number, unit in enumerate(node.named, 1):
        boxes = [part.box for part in node.parts if part.unit == unit]
        if not boxes:
            continue
        middles = np.array([((left + right) / 2, (top + bottom) / 2) for left, top, right, bottom in boxes])
        x, y = middles[np.abs(middles - middles.mean(0)).sum(1).argmin()]
        row, column = int(y * shape[0] / height), int(x * shape[1] / width)
        found[row // 2, column] = str(number)
    return found


def _colour(share: float, signed: bool) -> str:
    full = np.array(HUES[hue(share, signed)])
    red, green, blue = np.round(PAPER + (full - PAPER) * min(1.0, abs(share))).astype(int)
    return f"rgb({red},{green},{blue})"
