"""MobileNetV2 from its carrier: bit for bit its weights, its logits by hand, and names that fit."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import heedful
from heedful.models.zoo import download, resolve
from heedful.models.zoo.convert import mobilenet

pytestmark = pytest.mark.real


def by_hand() -> Any:
    path = Path(__file__).parents[1] / "models" / "mobilenet_by_hand.py"
    spec = importlib.util.spec_from_file_location("mobilenet_by_hand", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_mobilenet_is_the_original(tmp_path: Path) -> None:
    entry = resolve.find("mobilenet")
    download.extract(download.fetch(entry, lambda line: None), entry.members, tmp_path)
    state = torch.load(tmp_path / mobilenet.FILE, weights_only=True)
    resolve.pull("mobilenet")
    assert resolve.verify("mobilenet") == []
    model: Any = heedful.load("zoo:mobilenet")
    ours = model.module.state_dict()
    for name, (convolution, norm) in mobilenet.layers().items():
        assert torch.equal(ours[f"{name}.convolution.weight"], state[f"{convolution}.weight"])
        assert torch.equal(ours[f"{name}.normalization.running_var"], state[f"{norm}.running_var"])
    pixels = torch.randn(2, 3, 224, 224, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        logits, wanted = model.module(pixels).logits, by_hand().forward(state, pixels)
    torch.testing.assert_close(logits, wanted, atol=2e-4, rtol=1e-4)  # float32 over 52 layers


@pytest.mark.parametrize(("name", "label"), [("coffee", "espresso"), ("chelsea", "Egyptian cat")])
def test_mobilenet_names_photographs(name: str, label: str) -> None:
    data = pytest.importorskip("skimage.data", reason="the extra `images` is not installed")
    resolve.pull("mobilenet")
    model = heedful.load("zoo:mobilenet")
    found, share = model.predict(model.encode(np.asarray(getattr(data, name)())))[0]
    assert found == label
    assert share > (0.98 if name == "coffee" else 0.6)
