"""`heedful.load` of models that read pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import nn
from transformers import ResNetConfig, ResNetForImageClassification, ViTImageProcessorPil

import heedful
from heedful.core.errors import HeedfulError
from heedful.models.image_reader import ImageReader

SIZE = {"height": 24, "width": 24}


def network() -> Any:
    config = ResNetConfig(
        embedding_size=4,
        hidden_sizes=[4, 8],
        depths=[1, 1],
        layer_type="basic",
        id2label={0: "cat", 1: "dog"},
        label2id={"cat": 0, "dog": 1},
    )
    return ResNetForImageClassification(config).eval()


def picture() -> Any:
    return np.random.default_rng(0).integers(0, 256, (30, 40, 3)).astype(np.uint8)


def test_a_pair_of_model_and_processor_and_a_folder_are_the_same(tmp_path: Path) -> None:
    module, processor = network(), ViTImageProcessorPil(size=SIZE)
    module.save_pretrained(tmp_path)
    processor.save_pretrained(tmp_path)
    pair, folder = heedful.load((module, processor)), heedful.load(tmp_path)
    assert pair.labels == folder.labels == ("cat", "dog")
    assert pair.predict(pair.encode(picture())) == folder.predict(folder.encode(picture()))
    assert folder.facts()["modality"] == "image"


def test_a_folder_without_a_processor_says_what_to_do(tmp_path: Path) -> None:
    network().save_pretrained(tmp_path)
    with pytest.raises(HeedfulError, match="image processor"):
        heedful.load(tmp_path)


def test_a_module_needs_the_size_of_its_pictures() -> None:
    module = nn.Sequential(nn.Conv2d(3, 2, 5), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    with pytest.raises(HeedfulError, match="size of the pictures"):
        heedful.load(module, modality="image")
    model = heedful.load(module, processor=ImageReader((16, 16)), labels=["a", "b"])
    assert model.labels == ("a", "b")


def test_a_function_gets_eight_bit_pictures_of_their_own_size() -> None:
    seen = []

    def brightness(pictures: list[Any]) -> list[float]:
        seen.extend(pictures)
        return [float(p.mean()) for p in pictures]

    model = heedful.load(brightness, modality="image")
    x = model.encode(picture())
    target = model.target(x)
    value = model.values(x, target, np.zeros((1, len(x.units())), bool), "mean")
    assert {p.dtype.name for p in seen} == {"uint8"}
    assert {p.shape for p in seen} == {(32, 32, 3), (30, 40, 3)}  # a grey square, to count the scores
    assert value[0] == pytest.approx(picture().mean(), abs=0.5)  # rounded to 8 bits


def test_an_unknown_modality_is_refused() -> None:
    with pytest.raises(HeedfulError, match="unknown modality"):
        heedful.load(lambda x: x, modality="sound")


def test_a_reader_takes_one_number_for_a_square() -> None:
    assert heedful.ImageReader(64).size == (64, 64)  # type: ignore[arg-type]
    for bad in ((64,), (0, 4), "64", (1.5, 2), (3, 4, 5)):
        with pytest.raises(heedful.HeedfulError, match="is no size of a picture"):
            heedful.ImageReader(bad)  # type: ignore[arg-type]


def test_regions_are_scored_if_regions_are_given() -> None:
    """Without a unit, too: on a grid they would be ignored."""
    model = heedful.load("zoo:digits-vit")
    given = {"picture": np.zeros((48, 48, 3), np.uint8), "regions": {"left": [0, 0, 24, 48]}}
    assert model.encode(given).units().labels == ("left", "rest")


def test_regions_are_in_pixels_of_the_picture_that_is_given() -> None:
    """Not of what the model sees: a box, boxes and a mask of a picture that is enlarged fourfold."""
    reader = heedful.ImageReader((40, 80))
    mask = np.zeros((10, 20), bool)
    mask[2:5, 10:20] = True
    expected = np.kron(mask, np.ones((4, 4))) > 0
    picture = np.zeros((10, 20, 3), np.uint8)
    for given in ((10, 2, 20, 5), [(10, 2, 15, 5), (15, 2, 20, 5)], mask, mask.astype(float)):
        x = reader.read({"picture": picture, "regions": {"thing": given}})
        inside = x.units("region").owner.reshape(40, 80) == 0
        np.testing.assert_array_equal(inside[:, :36], False)  # smoothing moves an edge by a pixel at most
        assert np.abs(inside.astype(int) - expected).sum() <= 40 + 2 * 80
        assert inside[10:18, 44:].all()


def test_where_a_picture_is_seen_takes_no_more_memory_than_the_picture() -> None:
    """Ramps of brightness in 8 bits: in floats, a picture of 64 million pixels took five gigabytes."""
    import tracemalloc

    reader = heedful.load("zoo:digits-vit").reader  # type: ignore[attr-defined]
    reader._window(50, 60)
    tracemalloc.start()
    try:
        left, top, right, bottom = reader._window(1500, 2000)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (left, top) == pytest.approx((1 - right, 1 - bottom), abs=0.01)  # cut alike on both sides
    assert most < 4 * 1500 * 2000 * 3  # in bytes; 24 times it with floats


@pytest.mark.parametrize("labels", [None, ["a", "b"]])
def test_vectors_of_different_length_are_refused_in_one_line(labels: Any) -> None:
    def see(pictures: list[Any]) -> Any:
        return np.ones((len(pictures), 4))

    def read(texts: list[str]) -> Any:
        return np.ones((len(texts), 5))

    def predict() -> None:
        model: Any = heedful.load((see, read), modality="image+text", labels=labels)
        model.predict(model.encode({"picture": np.zeros((8, 8, 3), np.uint8), "text": "a"}))

    with pytest.raises(HeedfulError, match="a picture gives 4 numbers and a text 5"):
        predict()


class TwoInputs(nn.Module):
    def forward(self, pixels: Any, words: Any) -> Any:
        return pixels.mean((2, 3)) + words


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (nn.Sequential(nn.Conv2d(1, 2, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten()), "channels"),
        (nn.Sequential(nn.Flatten(), nn.Linear(7, 2)), "shapes"),
        (TwoInputs(), "words"),
    ],
)
def test_a_module_that_cannot_read_the_pictures_is_refused_with_the_reason(module: Any, reason: str) -> None:
    with pytest.raises(HeedfulError) as found:
        heedful.load(module, processor=heedful.ImageReader((32, 32)))
    assert found.value.what == f"{type(module).__name__} cannot read pictures of shape (1, 3, 32, 32)"
    assert reason in found.value.why
    assert "\n" not in str(found.value)
    assert "ImageReader" in found.value.fix
