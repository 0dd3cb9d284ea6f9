"""The atlas of a vision transformer: transformers' own weights, and rules over patches with known answers."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from transformers import ViTConfig, ViTForImageClassification

import heedful
from heedful.core.errors import HeedfulError
from heedful.heads.kinds import kinds, scores
from heedful.heads.maps import MapAxis, Maps
from heedful.heads.patch_rules import mean_distance
from heedful.models.image_model import ImageModel
from heedful.models.image_reader import ImageReader

GRID = (3, 4)
PLACES = [divmod(patch, GRID[1]) for patch in range(12)]


@pytest.fixture(scope="module")
def model() -> ImageModel:
    torch.manual_seed(0)
    config = ViTConfig(
        hidden_size=16,
        num_hidden_layers=3,
        num_attention_heads=2,
        intermediate_size=32,
        image_size=32,
        patch_size=8,
        num_labels=3,
    )
    return ImageModel(ViTForImageClassification(config).eval(), ImageReader((32, 32)), name="tiny")


def picture(seed: int = 1) -> Any:
    return np.random.default_rng(seed).integers(0, 256, (32, 32, 3)).astype(np.uint8)


def test_weights_are_transformers_own(model: ImageModel) -> None:
    atlas = heedful.attention(model, picture())
    module: Any = model.module
    pixels = torch.from_numpy(picture() / np.float32(255)).permute(2, 0, 1)[None]
    module.set_attn_implementation("eager")
    try:
        with torch.no_grad():
            expected = module(pixels, output_attentions=True).attentions
    finally:
        module.set_attn_implementation("sdpa")
    assert atlas.maps.shape == (3, 2, 17, 17)
    np.testing.assert_allclose(atlas.maps, torch.cat(expected).numpy(), atol=1e-6)
    assert atlas.unit == "patch"
    assert atlas.stacks[0].grid == (4, 4)
    assert atlas.stacks[0].keys.labels[:2] == ("class token", "row 1, column 1")
    assert atlas.stacks[0].grads is not None
    assert heedful.attention(model, picture(), gradients=False).target is None
    np.testing.assert_allclose(atlas.aggregate("mean"), atlas.maps.mean((0, 1)), atol=1e-6)
    assert atlas.words() is atlas


def test_it_is_saved_and_comes_back(model: ImageModel, tmp_path: Path) -> None:
    atlas = heedful.attention(model, picture())
    atlas.save(tmp_path / "run")
    again = type(atlas).load(tmp_path / "run")
    np.testing.assert_array_equal(again.maps, atlas.maps)
    assert again.stacks[0].grid == (4, 4)
    assert again.x == atlas.x
    assert again.page().count("data:image/png") == atlas.page().count("data:image/png")
    data = json.loads(atlas.to_json(weights=False))["stacks"][0]
    assert data["grid"] == [4, 4]
    assert np.shape(data["mean_distance"]) == (3, 2)
    assert (
        atlas.to_csv("heads")
        .splitlines()[0]
        .endswith("class-token,register,self,local,row,column,sink,broad")
    )


def maps_of(rule: Any, special: int = 2) -> Maps:
    """One head whose patches look, uniformly, at the patches (or special positions) that the rule names."""
    size = special + 12
    weights = np.zeros((size, size), np.float32)
    for query in range(size):
        keys = [key for key in range(size) if rule(query - special, key - special)] or [query]
        weights[query, keys] = 1 / len(keys)
    labels = tuple(f"position {n}" for n in range(size))
    front = (True,) * special + (False,) * 12
    side = MapAxis(labels, front, (-1,) * special + tuple(range(12)), (-1,) * special + (0,) * 12)
    return Maps("self", weights[None, None], side, side, grid=GRID)


def near(one: int, other: int) -> bool:
    (a, b), (c, d) = PLACES[one], PLACES[other]
    return max(abs(a - c), abs(b - d)) == 1


PLANTED = {
    "class-token": lambda q, k: q >= 0 and k == -2,
    "register": lambda q, k: q >= 0 and k == -1,
    "self": lambda q, k: q == k,
    "local": lambda q, k: min(q, k) >= 0 and near(q, k),
    "row": lambda q, k: min(q, k) >= 0 and q != k and PLACES[q][0] == PLACES[k][0],
    "column": lambda q, k: min(q, k) >= 0 and q != k and PLACES[q][1] == PLACES[k][1],
    "sink": lambda q, k: q >= 0 and k == 5,
    "broad": lambda q, k: True,
}


@pytest.mark.parametrize("name", PLANTED)
def test_planted_heads_are_recognised(name: str) -> None:
    maps = maps_of(PLANTED[name])
    (kind,) = kinds(maps)
    assert kind.kind == name
    # all attention goes where the rule says; a query that is the sink itself looks at itself, and counts not
    assert kind.scores[name] == pytest.approx(1.0, abs=1e-6)


def test_uniform_attention_scores_zero() -> None:
    found = scores(maps_of(PLANTED["broad"]))
    for name, score in found.items():
        assert score.item() == pytest.approx(1.0 if name == "broad" else 0.0, abs=1e-6)
    assert set(found) == set(PLANTED)


def test_rules_without_special_positions() -> None:
    found = scores(maps_of(PLANTED["broad"], special=0))
    assert not {"class-token", "register"} & set(found)


def test_distance_is_the_mean_by_hand() -> None:
    apart = [[float(np.hypot(a - c, b - d)) for c, d in PLACES] for a, b in PLACES]
    assert mean_distance(maps_of(PLANTED["self"])).item() == 0.0
    assert mean_distance(maps_of(PLANTED["broad"])).item() == pytest.approx(np.mean(apart))
    expected = np.mean([np.mean([apart[q][k] for k in range(12) if near(q, k)]) for q in range(12)])
    assert mean_distance(maps_of(PLANTED["local"])).item() == pytest.approx(expected, rel=1e-6)


def test_what_makes_no_sense_is_refused(model: ImageModel) -> None:
    with pytest.raises(HeedfulError, match="writes no answer"):
        heedful.attention(model, picture(), answer="a cat")


def test_the_page_has_the_picture_once_and_each_head(model: ImageModel) -> None:
    page = heedful.attention(model, picture()).page()
    assert page.count('class="heat over"') == 6
    assert page.count("data:image/png") == 1 + 6  # the picture, and one small map per head
    evil = "</script><b>evil</b>"
    atlas = dataclasses.replace(heedful.attention(model, picture()), model={"name": evil}, notes=(evil,))
    assert "<b>evil" not in atlas.page()


def test_only_the_path_of_the_picture_is_stored_if_asked(model: ImageModel, tmp_path: Path) -> None:
    place = tmp_path / "a.png"
    Image.fromarray(picture()).save(place)
    atlas = heedful.attention(model, place)
    run = atlas.save(tmp_path / "run", keep="path")
    stored = json.loads((run / "result.json").read_text())["x"]
    assert stored["path"] == str(place)
    assert "png" not in stored
    assert heedful.Atlas.load(run).x == atlas.x
