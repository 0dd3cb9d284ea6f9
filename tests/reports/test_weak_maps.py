"""A map on which nothing is strong enough for a colour says so, on the page and in the terminal."""

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
