"""What a run folder stores of a picture: itself as a small PNG, or its path and checksum."""

from __future__ import annotations

import base64
import hashlib
import json
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from transformers import CLIPImageProcessorPil

import heedful
import heedful.comparisons.explanation_codec
from heedful.core.errors import HeedfulError
from heedful.modalities import image_codec
from heedful.modalities.image import ImageInput
from heedful.modalities.image_codec import NOT_SHOWN
from heedful.modalities.image_png import from_png, png
from heedful.models.image_reader import ImageReader, reader_of

RNG = np.random.default_rng(512)


def noise(height: int, width: int) -> np.ndarray:
    return RNG.integers(0, 256, (height, width, 3)).astype(np.uint8)


def brightness(pictures: list[np.ndarray]) -> Any:
    return [[p[:, : p.shape[1] // 2].mean(), p.mean()] for p in pictures]


def explained(
    picture: Any, unit: str = "grid:4", size: tuple[int, int] | None = (32, 32)
) -> heedful.Comparison:
    model = heedful.load(brightness, modality="image", labels=["a", "b"], processor=ImageReader(size))
    return heedful.explain(model, picture, ["occlusion"], unit=unit)


@pytest.mark.parametrize("unit", ["grid:4", "superpixel"])
def test_a_small_picture_comes_back_bit_by_bit(tmp_path: Path, unit: str) -> None:
    before = explained(noise(32, 32), unit)
    after = heedful.Comparison.load(before.save(tmp_path / "run"))
    assert after.x == before.x
    np.testing.assert_array_equal(after["occlusion"].scores, before["occlusion"].scores)


def test_a_large_picture_is_stored_with_512_pixels_per_side(tmp_path: Path) -> None:
    before = explained(noise(300, 700), "superpixel", None)
    after = heedful.Comparison.load(before.save(tmp_path / "run"))
    stored = json.loads((tmp_path / "run" / "result.json").read_text())["x"]
    assert from_png(base64.b64decode(stored["png"]), 512).shape == (219, 512, 3)
    assert (after.x.height, after.x.width) == (300, 700)
    one, two = before.x.units("superpixel"), after.x.units("superpixel")
    np.testing.assert_array_equal(one.owner, two.owner)  # though the colours are coarser
    assert [u.score for u in after["occlusion"].units("superpixel")] == [
        u.score for u in before["occlusion"].units("superpixel")
    ]


def test_a_path_is_read_again_while_the_file_is_the_same(tmp_path: Path) -> None:
    place = tmp_path / "a.png"
    Image.fromarray(noise(32, 32)).save(place)
    before = explained(place)
    before.save(tmp_path / "run", keep="path")
    text = (tmp_path / "run" / "result.json").read_text()
    assert '"png"' not in text
    assert str(place) in text
    after = heedful.Comparison.load(tmp_path / "run")
    assert after.x == before.x
    Image.fromarray(noise(32, 32)).save(place)
    changed = heedful.Comparison.load(tmp_path / "run")
    assert changed.x.notes[-1] == f"{NOT_SHOWN}{place} has changed since it was explained"
    assert changed["occlusion"].scores.tolist() == before["occlusion"].scores.tolist()
    assert str(changed)
    assert changed.page()
    place.unlink()
    assert heedful.Comparison.load(tmp_path / "run").x.notes[-1] == f"{NOT_SHOWN}there is no file {place}"


@pytest.mark.parametrize("path", ["a" * 5000, "a\0b", "/dev/zero", "", "http://localhost/a.png"])
def test_a_forged_path_is_a_picture_that_is_not_shown(path: str) -> None:
    data = image_codec.to_dict(ImageInput(noise(8, 8)))
    data.pop("png")
    x = image_codec.from_dict(data | {"path": path, "sha256": "0", "window": [0, 0, 1, 1]})
    assert x.notes[-1].startswith(NOT_SHOWN)


def read_length(texts: list[str]) -> Any:
    return [[1.0, float(len(text))] for text in texts]


def test_a_path_is_kept_of_a_pair_and_of_one_method(tmp_path: Path) -> None:
    place = tmp_path / "a.png"
    Image.fromarray(noise(32, 32)).save(place)
    model = heedful.load((brightness, read_length), modality="image+text")
    pair = heedful.explain(model, {"picture": place, "text": "a star"}, ["occlusion"], unit="grid:2")
    for number, result in enumerate((pair, pair["occlusion"], explained(place)["occlusion"])):
        run = result.save(tmp_path / str(number), keep="path")
        text = (run / "result.json").read_text()
        assert '"png"' not in text
        assert json.dumps(str(place)) in text
        assert hashlib.sha256(place.read_bytes()).hexdigest() in text
        assert type(result).load(run).x == result.x
        assert '"png"' in (result.save(run) / "result.json").read_text()


def test_what_cannot_be_kept_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HeedfulError, match="path of the picture cannot be kept"):
        explained(noise(32, 32)).save(tmp_path / "run", keep="path")
    with pytest.raises(HeedfulError, match="keep cannot be 'jpg'"):
        explained(noise(32, 32)).save(tmp_path / "run", keep="jpg")


def test_the_part_that_a_processor_crops_is_known(tmp_path: Path) -> None:
    processor = CLIPImageProcessorPil(
        size={"shortest_edge": 64}, crop_size={"height": 64, "width": 64}, do_convert_rgb=False
    )
    smooth = np.asarray(Image.fromarray(noise(5, 9)).resize((240, 120), Image.Resampling.BICUBIC))
    Image.fromarray(smooth).save(tmp_path / "a.png")
    x = reader_of(processor).read(tmp_path / "a.png")
    # the middle 120 of 240 columns; colours have 255 steps, a place is 1/120 of the picture
    np.testing.assert_allclose(x.window, (0.25, 0, 0.75, 1), atol=1 / 240)
    after = image_codec.from_dict(image_codec.to_dict(x, "path"))
    assert np.abs(after.pixels.astype(int) - x.pixels).mean() < 3, "bilinear here, bicubic there"


def test_png_files_are_what_pillow_reads(tmp_path: Path) -> None:
    pixels = noise(7, 13)
    (tmp_path / "a.png").write_bytes(png(pixels))
    np.testing.assert_array_equal(np.asarray(Image.open(tmp_path / "a.png")), pixels)
    np.testing.assert_array_equal(from_png(png(pixels), 16), pixels)


def hostile() -> dict[str, Any]:
    whole = png(noise(8, 8))
    bomb = png(np.zeros((8, 8, 3), np.uint8))
    head = struct.pack(">II", 60000, 60000)
    swollen = zlib.compress(b"\0" * 10_000_000)
    return {
        "truncated": whole[:-30],
        "too large by its header": whole[:16] + head + whole[24:],
        "no PNG": b"GIF89a" + whole,
        "empty": b"",
        "unpacks to more than it says": bomb[:33] + struct.pack(">I", len(swollen)) + b"IDAT" + swollen,
        "filtered": png(noise(8, 8)).replace(b"IHDR", b"IHDX"),
    }


@pytest.mark.parametrize("name", hostile())
def test_a_hostile_png_is_one_line(tmp_path: Path, name: str) -> None:
    run = explained(noise(32, 32)).save(tmp_path / "run")
    data = json.loads((run / "result.json").read_text())
    data["x"]["png"] = base64.b64encode(hostile()[name]).decode()
    with pytest.raises(ValueError, match=r"picture|unpack"):
        image_codec.from_dict(data["x"])
    with pytest.raises(HeedfulError) as caught:
        heedful.comparisons.explanation_codec.comparison_from_dict(data)
    assert "\n" not in str(caught.value)


def test_a_path_that_is_no_plain_file_is_not_read(tmp_path: Path) -> None:
    x = ImageInput(noise(8, 8))
    data = image_codec.to_dict(x)
    del data["png"]
    for path in ("/dev/zero", str(tmp_path), "a\0b", "/proc/self/environ"):
        after = image_codec.from_dict({**data, "path": path, "sha256": "0" * 64, "window": [0, 0, 1, 1]})
        assert after.notes[-1].startswith(NOT_SHOWN)
    for window in ([0, 0, 1], [0.5, 0, 0.5, 1], [0, 0, float("nan"), 1], [0, 0, 2, 1]):
        with pytest.raises(ValueError, match="no box"):
            image_codec.from_dict({**data, "path": "a", "sha256": "", "window": window})


def test_every_method_lists_the_units_that_were_asked_for(tmp_path: Path) -> None:
    """Gradients live on pixels and attention on patches; both are listed by the cells of the comparison."""
    picture = np.random.default_rng(3).integers(0, 256, (48, 48, 3)).astype(np.uint8)
    methods = ["grad-l1", "occlusion", "attention-avg"]
    found = heedful.explain("zoo:digits-vit", picture, methods, unit="grid:2", evidence=False)
    found.save(tmp_path / "run")
    for comparison in (found, heedful.Comparison.load(tmp_path / "run")):
        labels = set(comparison.x.units("grid:2").labels)
        for method in methods:
            item = comparison[method]
            assert {unit.text for unit in item.top(4)} == labels, method
            assert item.own_unit == "grid:2"
            assert item.to_csv().count("\n") == 5
