"""MobileNetV2 and ConSE from their carriers: bit for bit the weights, logits by hand, and names that fit."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from bench import stamps
from safetensors.torch import load_file

import heedful
from heedful.core.lab_report import Claim
from heedful.labs import gradcam_contrast
from heedful.labs.base.registry import LabRun
from heedful.models.zoo import download, resolve
from heedful.models.zoo.cache import cache_dir
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


CAPTIONS = (
    *("a cup of coffee", "a cat", "a rocket taking off"),
    *("a person in a space suit", "a dog", "the stock market"),
)


@pytest.fixture(scope="module")
def conse() -> Any:
    for name in ("minilm", "mobilenet", "conse"):
        resolve.pull(name)
    assert resolve.verify("conse") == []
    return heedful.load("zoo:conse")


def test_conse_has_the_weights_of_its_parts(conse: Any) -> None:
    ours = conse.module.state_dict()
    for part, name in (("vision", "mobilenet"), ("text", "minilm")):
        for key, value in load_file(resolve.path(name) / "model.safetensors").items():
            assert torch.equal(ours[f"{part}.{key}"], value), key


@pytest.mark.parametrize(
    ("name", "caption", "cosine", "next_one"),
    [("coffee", 0, 0.439, 0.187), ("chelsea", 1, 0.695, 0.314), ("rocket", 2, 0.388, 0.231)],
)
def test_conse_finds_the_caption(conse: Any, name: str, caption: int, cosine: float, next_one: float) -> None:
    """The numbers were made by transformers alone; the picture is read in 8 bits here."""
    data = pytest.importorskip("skimage.data", reason="the extra `images` is not installed")
    picture = np.asarray(getattr(data, name)())
    found = [conse.predict(conse.encode({"picture": picture, "text": text}))[0][1] for text in CAPTIONS]
    assert found[caption] == pytest.approx(cosine, abs=0.01)
    assert max(found[:caption] + found[caption + 1 :]) == pytest.approx(next_one, abs=0.01)


def test_conse_chooses_between_captions(conse: Any) -> None:
    data = pytest.importorskip("skimage.data", reason="the extra `images` is not installed")
    model = heedful.load("zoo:conse", labels=list(CAPTIONS))
    for name, caption in (("coffee", 0), ("chelsea", 1)):
        assert model.predict(model.encode(np.asarray(getattr(data, name)())))[0][0] == CAPTIONS[caption]


def test_grad_cam_of_a_dog_and_a_cat_follows_the_question() -> None:
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        pytest.skip("the photograph of the dog comes in a package of Debian")
    stamps.fetch(cache_dir() / "carriers")
    resolve.pull("mobilenet")
    run = LabRun(fast=True, seed=5)
    gradcam_contrast.photographs(run, 3)
    found = [part for part in run.parts if isinstance(part, Claim)]
    assert [claim.holds for claim in found] == [True] * 3
    assert found[0].value > 0.2
    assert all(abs(float(claim.against or 0)) < 1e-9 for claim in found)  # edges know no class
