"""The shipped models for pictures: complete, small, and as good on new scenes as their cards say."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors
import torch

import heedful
from heedful.core.errors import HeedfulError
from heedful.labs.data.digit_scenes import digit_scenes

ZOO = Path(heedful.__file__).parent / "zoo"
NAMES = ("digits-vit",)
FILES = {"config.json", "model.safetensors", "preprocessor_config.json", "card.md", "metrics.json"}
SECTIONS = ("Data", "Licence", "How it was made", "Architecture", "Metrics", "Intended use", "Limits")
SCENES, SEED = 200, 41


@pytest.mark.parametrize("name", NAMES)
def test_files_and_weights_are_what_the_script_saves(name: str) -> None:
    assert {path.name for path in (ZOO / name).iterdir()} == FILES
    with safetensors.safe_open(ZOO / name / "model.safetensors", "pt") as file:
        tensors = [file.get_tensor(key) for key in file.keys()]  # noqa: SIM118  (not a dict)
    assert {tensor.dtype for tensor in tensors} == {torch.float16}
    assert all(tensor.isfinite().all() for tensor in tensors)
    parameters = json.loads((ZOO / name / "metrics.json").read_text())["parameters"]
    assert sum(tensor.numel() for tensor in tensors) == parameters


def test_both_are_small() -> None:
    files = [path for name in NAMES for path in (ZOO / name).iterdir()]
    assert sum(path.stat().st_size for path in files) <= 12e6


@pytest.mark.parametrize("name", NAMES)
def test_the_card_says_what_was_measured(name: str) -> None:
    card, metrics = (
        (ZOO / name / "card.md").read_text(),
        json.loads((ZOO / name / "metrics.json").read_text()),
    )
    assert [section for section in SECTIONS if f"## {section}" not in card] == []
    assert {"seed", "versions", "parameters", "settings"} <= set(metrics)
    for found in (value for value in metrics.values() if isinstance(value, dict) and "accuracy" in value):
        assert f"{found['accuracy']:.4f}" in card
        assert found["interval_95"][0] < found["accuracy"] < found["interval_95"][1]


def right_in_scenes(model: Any, count: int) -> float:
    """Share of new test scenes whose digits are the first of the prediction."""
    scenes = digit_scenes(SCENES, split="test", count=count, seed=SEED)
    pixels = torch.stack([model._ready(torch.from_numpy(s.picture[None] / 255).float())[0] for s in scenes])
    with torch.inference_mode():
        top = model.module(pixel_values=pixels).logits.topk(count).indices.tolist()
    return float(
        np.mean([{model.labels[i] for i in t} == set(s.labels) for t, s in zip(top, scenes, strict=True)])
    )


@pytest.mark.parametrize(("count", "name"), [(1, "one_digit"), (2, "two_digits")])
def test_digits_are_read_as_well_as_the_card_says(count: int, name: str) -> None:
    told = json.loads((ZOO / "digits-vit" / "metrics.json").read_text())[name]["accuracy"]
    sd = math.sqrt(told * (1 - told) / SCENES)
    # other scenes than those of the card: four standard deviations, missed once in 16,000
    assert right_in_scenes(heedful.load("zoo:digits-vit"), count) == pytest.approx(told, abs=4 * sd)


def test_a_scene_is_read_as_it_is() -> None:
    """48 x 48 pixels are neither resized nor cropped, so that masks lie on the picture."""
    model: Any = heedful.load("zoo:digits-vit")
    scene = digit_scenes(1, seed=SEED)[0]
    x = model.encode(scene.picture)
    assert np.array_equal(x.pixels, scene.picture)
    assert model.labels == tuple("0123456789")
    assert model.patches[:2] == (8, 8)
    assert model.predict(x)[0][0] == scene.labels[0]


def test_without_pillow_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(
        HeedfulError, match=r"pictures need Pillow.*pip install 'heedful\[images\]'"
    ) as caught:
        heedful.load("zoo:digits-vit")
    assert "\n" not in str(caught.value)
