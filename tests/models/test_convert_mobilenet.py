"""The converter of MobileNetV2 on random weights, against the network written out by hand."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForImageClassification

import heedful
from heedful.core.errors import HeedfulError
from heedful.models.zoo.convert import mobilenet


def by_hand() -> Any:
    path = Path(__file__).with_name("mobilenet_by_hand.py")
    spec = importlib.util.spec_from_file_location("mobilenet_by_hand", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("out")
    torch.save(by_hand().random_state(0), source / mobilenet.FILE)
    mobilenet.convert(source, out)
    return source, out


def test_logits_are_those_of_the_network_by_hand(folders: tuple[Path, Path]) -> None:
    model, info = AutoModelForImageClassification.from_pretrained(folders[1], output_loading_info=True)
    assert not any(info.values()), info
    pixels = torch.randn(2, 3, 96, 64, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        ours, theirs = model.eval()(pixels).logits, by_hand().forward(by_hand().random_state(0), pixels)
    assert theirs.std() > 0.5  # not a comparison of zeros
    torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-4)  # float32 over 52 layers


def test_it_loads_with_names_and_size(folders: tuple[Path, Path]) -> None:
    model = heedful.load(folders[1])
    assert len(set(model.labels)) == 1000
    assert (model.labels[0], model.labels[967], model.labels[999]) == ("tench", "espresso", "toilet tissue")
    assert model.facts()["size"] == [224, 224]


def test_a_lost_weight_is_named(folders: tuple[Path, Path], tmp_path: Path) -> None:
    state = torch.load(folders[0] / mobilenet.FILE, weights_only=True)
    del state["features.9.conv.1.1.bias"]
    torch.save(state, tmp_path / mobilenet.FILE)
    with pytest.raises(HeedfulError, match=r"features\.9\.conv\.1\.1\.bias"):
        mobilenet.convert(tmp_path, tmp_path)


def test_a_pickle_with_code_is_refused(tmp_path: Path) -> None:
    torch.save({"features.0.0.weight": Path()}, tmp_path / mobilenet.FILE)  # any class would be code to run
    with pytest.raises(Exception, match="weights_only"):
        mobilenet.convert(tmp_path, tmp_path)
