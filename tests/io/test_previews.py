"""Previews: a picture in small, with the units that have scores; a stranger's text is refused."""

from __future__ import annotations

import base64
import json
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import heedful
from heedful.io.previews import MAX_CHARS, MAX_SIDE, preview_of, preview_unit, read_preview
from heedful.modalities import image_codec
from heedful.modalities.image import ImageInput

NOISE = np.random.default_rng(0).integers(0, 256, (192, 240, 3)).astype(np.uint8)


def test_a_large_picture_is_small_and_counted_as_before() -> None:
    x = ImageInput(NOISE, (12, 15))
    for unit in ("patch", "grid:7", ""):
        text = preview_of(x, unit)
        small = read_preview(text)
        assert max(small.height, small.width) == MAX_SIDE
        assert preview_unit(small, unit)[1] == list(range(len(x.units(unit))))
        assert len(text) < 50_000


def test_units_of_any_shape_keep_their_numbers() -> None:
    """A region of one pixel vanishes; the others stay what they were."""
    mask = np.zeros((192, 240), bool)
    mask[:96] = True
    dot = np.zeros((192, 240), bool)
    dot[150, 150] = True
    x = ImageInput(NOISE, regions=(("dot", dot), ("top", mask)))
    assert x.units("region").labels == ("dot", "top", "rest")
    small = read_preview(preview_of(x, "region"))
    name, numbers = preview_unit(small, "region")
    assert (name, numbers) == ("region", [1, 2])
    top = small.units("region").owner.reshape(small.height, small.width) == 0
    assert top[: small.height // 2].all()
    assert not top[small.height // 2 + 1 :].any()


def test_a_small_picture_stays_as_it_is() -> None:
    x = ImageInput(NOISE[:20, :30])
    np.testing.assert_array_equal(read_preview(preview_of(x, "grid:4")).pixels, x.pixels)


def test_a_text_has_none() -> None:
    x = heedful.load("zoo:sentiment").encode("a good day")
    assert preview_of(x, "word") == ""


def test_a_path_is_read_only_if_the_file_is_the_same(tmp_path: Path) -> None:
    file = tmp_path / "one.png"
    Image.fromarray(NOISE).save(file)
    text = preview_of(ImageInput(NOISE, source=str(file)), "grid:4", "path")
    assert "png" not in json.loads(text)
    assert not read_preview(text).notes
    Image.fromarray(NOISE[::-1]).save(file)
    assert "has changed" in read_preview(text).notes[0]
    assert (read_preview(text).pixels == 128).all()
    file.unlink()
    assert "there is no file" in read_preview(text).notes[0]
    assert preview_of(ImageInput(NOISE), "grid:4", "path") == "", "no file, nothing to keep"


# a region of 2000 x 2000 pixels in a few characters
REGION = base64.b64encode(zlib.compress(bytes(2000 * 2000 // 8), 9)).decode()


@pytest.mark.parametrize(
    "change",
    [
        {"png": "AAAA"},
        {"height": 10**9},
        {"width": 200, "height": 200},
        {"modality": "text"},
        {"regions": [["a", "AAAA"]]},
        {"height": 2000, "width": 2000, "regions": [["a", REGION]] * 50},
        {"grid": [99, 99]},
        {"grid": None},
    ],
)
def test_what_is_no_preview_is_refused(change: Any) -> None:
    data = json.loads(preview_of(ImageInput(NOISE), "grid:4"))
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=r".+"):
            read_preview(json.dumps(data | change))
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


def test_the_regions_of_a_picture_have_a_limit() -> None:
    data = image_codec.to_dict(ImageInput(NOISE))
    many = data | {"height": 2000, "width": 2000, "regions": [["a", REGION]] * 200}
    with pytest.raises(ValueError, match="200 regions of 2000 x 2000 pixels"):
        image_codec.from_dict(many)


@pytest.mark.parametrize("text", ["[]", "null", "{}", "<script>", "1" * (MAX_CHARS + 1), "[" * 100_000])
def test_other_json_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        read_preview(text)
