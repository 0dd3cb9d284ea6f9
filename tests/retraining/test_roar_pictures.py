"""Remove and retrain on pictures: a planted place, the controls, and what imputers leave."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import heedful
from heedful.modalities.image import ImageInput
from heedful.modalities.neighbours import smoothed
from heedful.models.image_model import ImageModel
from heedful.models.image_reader import ImageReader
from heedful.nn.train import TrainConfig
from heedful.retraining.retrain import trainer
from heedful.retraining.roar import RoarSettings
from heedful.retraining.roar_pictures import _Colours, explained_pictures, picture_imputer, roar_pictures

READER = ImageReader((8, 8), (0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
FIT = TrainConfig(steps=60, batch=32, lr=1e-2, warmup=5, weight_decay=0.0, progress=False)


def build(seed: int) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(nn.Conv2d(3, 4, 2, 2), nn.ReLU(), nn.Flatten(), nn.Linear(64, 2))


def data(count: int, seed: int) -> tuple[list[Any], list[int]]:
    """The label is the direction of stripes in two by two places of one corner, the rest is noise. Both
    directions have the same mean: the mean colour that replaces them does not tell which it was."""
    rng = np.random.default_rng(seed)
    pictures = rng.integers(0, 256, (count, 8, 8, 3)).astype(np.uint8)
    labels = rng.integers(2, size=count)
    stripes = np.array([[[230, 230], [30, 30]], [[230, 30], [230, 30]]], dtype=np.uint8)
    pictures[:, :2, :2] = stripes[labels][..., None]
    return list(pictures), labels.tolist()


def trained() -> ImageModel:
    pictures, labels = data(200, 1)
    ready = [((p / np.float32(255) - 0.5) / 0.5).transpose(2, 0, 1).astype(np.float32) for p in pictures]
    made: list[nn.Module] = []

    def remember(seed: int) -> nn.Module:
        made.append(build(seed))
        return made[-1]

    predict = trainer(remember, FIT)(ready, labels, 3)
    assert np.mean(np.asarray(predict(ready)) == labels) > 0.99
    return ImageModel(made[0].eval(), READER)


@pytest.fixture(scope="module")
def found() -> Any:
    settings = RoarSettings(shares=(0.0625,), seeds=3, leakage=False)
    more: dict[str, Any] = {"fit": trainer(build, FIT), "unit": "grid:4"}
    return roar_pictures(trained(), data(150, 2), data(100, 4), ["occlusion"], settings, **more)


def test_the_planted_corner_is_gone_once_its_scores_remove_it(found: Any) -> None:
    """One of 16 cells decides; without it nothing is left."""
    assert found.whole > 0.97
    assert found["occlusion"].accuracy[0] < 0.65
    assert found["random"].accuracy[0] > 0.9
    assert set(found.lead) == {"occlusion", "edges"}  # stripes are edges: here they find the cell, too
    assert found.not_faster == ("random, smoothed",)
    assert {curve.method for curve in found.curves} == {"occlusion", "edges", "random", "random, smoothed"}


def test_the_words_are_about_pictures(found: Any) -> None:
    assert "tested on 100 pictures (imputation of removed cells: mean colour)" in str(found)


def test_the_mean_is_that_of_each_picture() -> None:
    colours = np.random.default_rng(0).random((8, 8, 3)).astype(np.float32)
    gone = np.zeros(64, dtype=bool)
    gone[:10] = True
    got = picture_imputer("mean", READER).fill(_Colours(colours), gone, np.random.default_rng(0))
    assert got.shape == (3, 8, 8)
    back = got.transpose(1, 2, 0) * 0.5 + 0.5
    np.testing.assert_allclose(back.reshape(-1, 3)[:10], np.tile(colours.mean((0, 1)), (10, 1)), atol=1e-6)
    np.testing.assert_allclose(back.reshape(-1, 3)[10:], colours.reshape(-1, 3)[10:], atol=1e-6)


def test_linear_imputation_is_near_the_neighbours() -> None:
    """One place gone: the weighted mean of its eight neighbours, up to noise of 0.01."""
    colours = np.random.default_rng(0).random((8, 8, 3)).astype(np.float32)
    gone = np.zeros((8, 8), dtype=bool)
    gone[3, 4] = True
    got = picture_imputer("linear", READER).fill(_Colours(colours), gone.ravel(), np.random.default_rng(0))
    back = got.transpose(1, 2, 0) * 0.5 + 0.5
    edge = colours[2, 4] + colours[4, 4] + colours[3, 3] + colours[3, 5]
    corner = colours[2, 3] + colours[2, 5] + colours[4, 3] + colours[4, 5]
    np.testing.assert_allclose(back[3, 4], edge / 6 + corner / 12, atol=0.05)  # five standard deviations
    assert np.abs(back[3, 4] - (edge / 6 + corner / 12)).max() > 1e-4  # there is noise
    with pytest.raises(heedful.HeedfulError, match="unknown imputer 'zero'"):
        picture_imputer("zero", READER)


def test_what_is_remembered_is_filled_in_again_for_other_places() -> None:
    """The same places: only the noise differs. Other places: as a picture that remembers nothing."""
    values = np.random.default_rng(0).random((8, 8, 3)).astype(np.float32)
    one, fill = _Colours(values), picture_imputer("linear", READER).fill
    first, second = np.arange(64) < 9, np.arange(64) > 40
    for gone in (first, first, second, first):
        expected = fill(_Colours(values), gone, np.random.default_rng(1))
        np.testing.assert_array_equal(fill(one, gone, np.random.default_rng(1)), expected)
    assert (one.values == values).all()


def test_scores_are_sizes_by_unit() -> None:
    model = trained()
    pictures, _ = data(3, 9)
    found = explained_pictures(model, pictures, ["grad-x-input"], unit="grid:4")
    assert [len(scores) for scores in found.scores["grad-x-input"]] == [16, 16, 16]
    assert all((scores >= 0).all() for scores in found.scores["grad-x-input"])
    split = found.split([0, 1, 0])
    assert len(split.tokens[0]) == 64
    assert split.units[0] is split.units[1]  # cut alike, kept once
    assert sorted(split.units[0][0]) == [0, 1, 8, 9]


def test_smoothing_keeps_constants_and_spreads_a_peak() -> None:
    x = ImageInput(np.zeros((16, 16, 3), dtype=np.uint8))
    np.testing.assert_allclose(smoothed(x, np.full(16, 3.0), "grid:4"), 3.0, rtol=1e-12)
    peak = np.zeros(16)
    peak[5] = 1.0
    wide = smoothed(x, peak, "grid:4")
    assert wide[5] == wide.max() < 0.5
    assert wide[6] == pytest.approx(wide[9])  # right and below: alike
    assert wide[6] > wide[10] > wide[15] > 0
    model = heedful.load(lambda texts: [1.0 for _ in texts])
    text = model.encode("a b c d e f g h i")
    line = smoothed(text, np.eye(9)[4])
    assert line[4] == line.max()
    assert line[3] == pytest.approx(line[5])
    assert line.sum() == pytest.approx(1, abs=1e-3)  # what leaves at the ends
