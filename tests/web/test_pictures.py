"""The page beside its pictures in docs/: what was looked at once is what is drawn now."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.web.chromium import CHROMIUM, visits
from tests.web.pictures import taken
from tests.web.serving import listening

from heedful.models import zoo
from heedful.web import server

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not CHROMIUM, reason="needs Chromium, which is not installed here"),
    pytest.mark.skipif(
        not (zoo.dictionary("lm") / "config.json").is_file(), reason="needs the dictionary of zoo:lm"
    ),
]
IMAGES = Path(__file__).parents[2] / "docs" / "images"
CELL = 12  # pixels that are averaged: fonts differ a little from machine to machine
FAR = 40  # of 255: a cell that looks different
SHARE = 0.06  # of cells that may: seconds that were measured, and a line that breaks elsewhere


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    wish = server.Wish(runs=tmp_path_factory.mktemp("runs"))
    house = server.house(["zoo:sentiment", "zoo:lm"], wish)
    with listening(house, wish) as found:
        yield found
    house.close()


def cells(path: Path) -> np.ndarray:
    from PIL import Image

    grey = np.asarray(Image.open(path).convert("L"), dtype=float)
    high, wide = (size // CELL * CELL for size in grey.shape)
    return grey[:high, :wide].reshape(high // CELL, CELL, wide // CELL, CELL).mean((1, 3))


def different(one: Path, other: Path) -> float:
    """Share of cells that differ."""
    a, b = cells(one), cells(other)
    return 1.0 if a.shape != b.shape else float((np.abs(a - b) > FAR).mean())


def test_pictures_are_as_they_were(address: str, tmp_path: Path) -> None:
    with visits(address) as visit:
        shares = {made.name: different(made, IMAGES / made.name) for made in taken(visit, tmp_path)}
    assert len(shares) == 6
    assert max(shares.values()) <= SHARE, shares


def test_the_comparison_can_fail() -> None:
    """Another panel, or the same in other colours, is far beyond what is allowed."""
    methods = IMAGES / "serve-methods.png"
    assert different(methods, methods) == 0
    from PIL import Image, ImageOps

    assert different(methods, IMAGES / "serve-dark.png") == 1.0
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        turned = Path(folder) / "turned.png"
        ImageOps.flip(Image.open(methods).convert("L")).save(turned)
        assert different(methods, turned) > SHARE
