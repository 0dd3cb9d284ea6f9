"""Maps of which little can be seen: nothing is strong enough for a colour, or parts are very small."""

from __future__ import annotations

import numpy as np
import pytest

from heedful.core.document import Part, PictureMap
from heedful.modalities.image_png import png
from heedful.reports.half_blocks import half_blocks, key
from heedful.reports.picture_svg import PictureDefinitions, draw

COLOURS = np.zeros((4, 4, 3), np.uint8)
TOLD = "o part of the picture reaches 5 % of the strongest score"


def shaded(share: float, small: bool = False) -> PictureMap:
    parts = (Part((0, 0, 2, 4), share), Part((2, 0, 4, 4), -share))
    return PictureMap(png(COLOURS), (4, 4), parts, small=small)


@pytest.mark.parametrize(("share", "weak"), [(0.02, True), (0.049, True), (0.05, False), (1.0, False)])
def test_a_map_without_colours_says_so(share: float, weak: bool) -> None:
    node = shaded(share)
    assert (TOLD in draw(node, PictureDefinitions("x"))) == weak
    assert (TOLD in key(node, True, "by lime")) == weak
    drawn = "".join(line.plain for line in half_blocks(node, plain=True))
    assert ("+" in drawn) == ("-" in drawn) == (not weak), "no mark without its meaning"


def test_small_maps_and_plain_pictures_say_nothing() -> None:
    assert TOLD not in draw(shaded(0.02, small=True), PictureDefinitions("x"))
    assert TOLD not in draw(PictureMap(png(COLOURS), (4, 4), ()), PictureDefinitions("x"))


@pytest.mark.parametrize("side", [4, 28, 56, 64])
@pytest.mark.parametrize("share", [1.0, -1.0])
def test_the_one_strong_part_is_seen_wherever_it_is(side: int, share: float) -> None:
    for row, column in [(0, 0), (1, 2), (side // 2, side - 1), (side - 1, 1), (side - 2, side // 2)]:
        parts = tuple(
            Part((c, r, c + 1, r + 1), share if (r, c) == (row, column) else 0.0)
            for r in range(side)
            for c in range(side)
        )
        node = PictureMap(png(COLOURS), (side, side), parts)
        lines = [line.plain for line in half_blocks(node, plain=True)]
        marks = [(n, at) for n, line in enumerate(lines) for at, mark in enumerate(line) if mark in "+-"]
        assert marks, f"row {row}, column {column} of {side} × {side} has no mark"
        assert {lines[n][at] for n, at in marks} == {"+" if share > 0 else "-"}
        wide, high = side / 28, side / 14  # of one character, in pixels
        for n, at in marks:
            assert abs((at + 0.5) * wide - column - 0.5) <= (wide + 1) / 2
            assert abs((n + 0.5) * high - row - 0.5) <= (high + 1) / 2
        if side >= 28:
            assert len(marks) == 1, "one small part is one mark"
        painted = [str(span.style) for line in half_blocks(node) for span in line.spans]
        assert any(style not in ("rgb(235,235,235) on rgb(235,235,235)",) for style in painted)


def test_of_two_rows_of_cells_the_stronger_gives_the_mark() -> None:
    parts = (Part((0, 0, 28, 1), 0.1), Part((0, 1, 28, 2), -1.0))
    node = PictureMap(png(COLOURS), (28, 28), parts)
    assert [line.plain for line in half_blocks(node, plain=True)] == ["-" * 28, *["·" * 28] * 13]
