"""Pictures of a few pixels are read like any other: rows are never taken for channels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from transformers import CLIPImageProcessorPil, ViTImageProcessorPil

import heedful
from heedful.core.errors import HeedfulError
from heedful.models.image_reader import reader_of

SIZES = [(1, 1), (1, 40), (40, 1), (3, 40), (40, 3), (3, 3), (1, 3), (2, 5)]


def stretched() -> Any:
    return reader_of(ViTImageProcessorPil(size={"height": 16, "width": 16}))


def cropped() -> Any:
    crop = {"height": 16, "width": 16}
    return reader_of(CLIPImageProcessorPil(size={"shortest_edge": 16}, crop_size=crop))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("make", [stretched, cropped])
def test_a_red_picture_is_seen_red(make: Any, size: tuple[int, int]) -> None:
    red = np.zeros((*size, 3), np.uint8)
    red[..., 0] = 255
    x = make().read(red)
    assert x.pixels.shape == (16, 16, 3)
    assert (x.pixels == [255, 0, 0]).all()
    left, top, right, bottom = x.window
    assert 0 <= left < right <= 1
    assert 0 <= top < bottom <= 1


def test_the_part_that_is_seen_of_a_small_picture() -> None:
    assert stretched().read(np.zeros((1, 1, 3), np.uint8)).window == (0, 0, 1, 1)
    np.testing.assert_allclose(
        stretched().read(np.zeros((2, 5, 3), np.uint8)).window, (0, 0, 1, 1), atol=0.05
    )
    # 4 rows and 12 columns: the middle 4 columns stay
    window = cropped().read(np.zeros((4, 12, 3), np.uint8)).window
    np.testing.assert_allclose(window, (1 / 3, 0, 2 / 3, 1), atol=0.05)


@pytest.mark.parametrize("size", [(1, 1), (1, 40), (3, 40)])
def test_explain_of_a_tiny_file(tmp_path: Path, size: tuple[int, int]) -> None:
    path = tmp_path / "tiny.png"
    Image.fromarray(np.full((*size, 3), 90, np.uint8)).save(path)
    model = heedful.load("zoo:digits-vit")
    assert heedful.explain(model, path, ["edges"], evidence=False)["edges"].scores.shape == (48 * 48,)


def test_a_strip_that_would_be_enlarged_beyond_the_limit_is_refused() -> None:
    with pytest.raises(HeedfulError, match="too long and thin"):
        cropped().read(np.zeros((1, 1_000_000, 3), np.uint8))
    assert stretched().read(np.zeros((1, 1_000_000, 3), np.uint8)).pixels.shape == (16, 16, 3)
