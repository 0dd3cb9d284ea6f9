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
from heedful.labs.data.shape_scenes import COLOURS, THINGS, Thing, shape_scenes

ZOO = Path(heedful.__file__).parent / "zoo"
NAMES = ("digits-vit", "tiny-clip")
FILES = {
    "config.json",
    "model.safetensors",
    "preprocessor_config.json",
    "card.md",
    "metrics.json",
    "examples",
}
TOKENIZER = {"tokenizer.json", "tokenizer_config.json"}
SECTIONS = ("Data", "Licence", "How it was made", "Architecture", "Metrics", "Intended use", "Limits")
SCENES, SEED = 200, 41


@pytest.mark.parametrize("name", NAMES)
def test_files_and_weights_are_what_the_script_saves(name: str) -> None:
    wanted = FILES | (TOKENIZER if name == "tiny-clip" else set())
    assert {path.name for path in (ZOO / name).iterdir()} == wanted
    with safetensors.safe_open(ZOO / name / "model.safetensors", "pt") as file:
        tensors = [file.get_tensor(key) for key in file.keys()]  # noqa: SIM118  (not a dict)
    assert {tensor.dtype for tensor in tensors} == {torch.float16}
    assert all(tensor.isfinite().all() for tensor in tensors)
    parameters = json.loads((ZOO / name / "metrics.json").read_text())["parameters"]
    assert sum(tensor.numel() for tensor in tensors) == parameters


def test_both_are_small() -> None:
    files = [path for name in NAMES for path in (ZOO / name).rglob("*")]
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
        assert found["interval_95"][0] < found["accuracy"] <= found["interval_95"][1]


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


def test_tiny_clip_names_things_as_well_as_the_card_says() -> None:
    """One coloured thing a scene; the caption is chosen among those of all 8 colours and 20 things."""
    metrics = json.loads((ZOO / "tiny-clip" / "metrics.json").read_text())
    captions = [Thing(colour, shape).words() for colour in COLOURS for shape in THINGS]
    model: Any = heedful.load("zoo:tiny-clip", labels=captions)
    scenes = shape_scenes(SCENES, split="test", count=1, seed=SEED)
    pixels = torch.stack([model._ready(torch.from_numpy(s.picture[None] / 255).float())[0] for s in scenes])
    with torch.inference_mode():
        best = model.module(pixel_values=pixels).logits.argmax(1).tolist()
    told = metrics["zero_shot"]["accuracy"]
    found = np.mean([captions[i] == s.caption for i, s in zip(best, scenes, strict=True)])
    sd = math.sqrt(told * (1 - told) / SCENES)
    assert found == pytest.approx(told, abs=4 * sd)  # other scenes than those of the card


def test_tiny_clip_compares_a_picture_with_a_text() -> None:
    model: Any = heedful.load("zoo:tiny-clip")
    scene = shape_scenes(1, split="test", count=1, seed=SEED)[0]
    assert model.kind == "dual-encoder"
    x = model.encode({"picture": scene.picture, "text": scene.caption})
    assert np.array_equal(x.picture.pixels, scene.picture)
    wrong = model.encode({"picture": scene.picture, "text": "a white heart"})
    assert scene.caption != "a white heart"
    assert model.predict(x)[0][1] > model.predict(wrong)[0][1]
