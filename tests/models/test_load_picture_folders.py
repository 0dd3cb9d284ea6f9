"""Folders of image classifiers: any class with `pixel_values`, found from its files and loaded like text."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf

import heedful
from heedful.core.errors import HeedfulError

SMALL = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
GRID = {"image_size": 32, "patch_size": 8}
LABELS = {"id2label": {0: "cat", 1: "dog", 2: "hen"}, "label2id": {"cat": 0, "dog": 1, "hen": 2}}
PYRAMID = {"depths": [1, 1], "hidden_sizes": [8, 16]}
FAMILIES: dict[str, Callable[[], Any]] = {
    "vit": lambda: hf.ViTForImageClassification(hf.ViTConfig(**SMALL, **GRID, **LABELS)),
    "deit": lambda: hf.DeiTForImageClassification(hf.DeiTConfig(**SMALL, **GRID, **LABELS)),
    "deit-teacher": lambda: hf.DeiTForImageClassificationWithTeacher(
        hf.DeiTConfig(**SMALL, **GRID, **LABELS)
    ),
    "swin": lambda: hf.SwinForImageClassification(
        hf.SwinConfig(
            image_size=32, patch_size=4, embed_dim=8, depths=[1, 1], num_heads=[1, 2], window_size=4, **LABELS
        )
    ),
    "convnext": lambda: hf.ConvNextForImageClassification(
        hf.ConvNextConfig(num_stages=2, **PYRAMID, **LABELS)
    ),
    "resnet": lambda: hf.ResNetForImageClassification(
        hf.ResNetConfig(embedding_size=8, layer_type="basic", **PYRAMID, **LABELS)
    ),
    "mobilenet": lambda: hf.MobileNetV2ForImageClassification(
        hf.MobileNetV2Config(depth_multiplier=0.25, image_size=32, **LABELS)
    ),
    "dinov2": lambda: hf.Dinov2ForImageClassification(
        hf.Dinov2Config(
            hidden_size=16, num_hidden_layers=2, num_attention_heads=2, mlp_ratio=2, **GRID, **LABELS
        )
    ),
}


def save(family: str, folder: Path) -> Any:
    torch.manual_seed(0)
    module = FAMILIES[family]().eval()
    module.save_pretrained(folder)
    hf.ViTImageProcessorPil(size={"height": 32, "width": 32}).save_pretrained(folder)
    return module


def picture() -> Any:
    return np.random.default_rng(0).integers(0, 256, (40, 50, 3)).astype(np.uint8)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_folder_gives_the_logits_of_transformers(family: str, tmp_path: Path) -> None:
    module = save(family, tmp_path)
    model: Any = heedful.load(tmp_path, local_only=True)
    x = model.encode(picture())
    processor = hf.AutoImageProcessor.from_pretrained(tmp_path)
    with torch.no_grad():
        wanted = module(**processor(images=picture(), return_tensors="pt")).logits[0]
    assert model.labels == ("cat", "dog", "hen")
    assert type(model.module) is type(module)
    # seen in 8 bits: the processor's resampling is rounded to 1/255 in both, the sums in float32
    np.testing.assert_allclose(model.scores_of(x), wanted, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("family", ["vit", "resnet"])
def test_pickles_are_refused_as_for_text(family: str, tmp_path: Path) -> None:
    module = save(family, tmp_path)
    (tmp_path / "model.safetensors").unlink()
    torch.save(module.state_dict(), tmp_path / "pytorch_model.bin")
    with pytest.raises(HeedfulError, match="pickle weights"):
        heedful.load(tmp_path)
    assert heedful.load(tmp_path, allow_pickle=True).labels == ("cat", "dog", "hen")


def test_a_headless_encoder_has_no_random_head(tmp_path: Path) -> None:
    torch.manual_seed(0)
    hf.ViTModel(hf.ViTConfig(**SMALL, **GRID)).save_pretrained(tmp_path)
    hf.ViTImageProcessorPil(size={"height": 32, "width": 32}).save_pretrained(tmp_path)
    with pytest.raises(HeedfulError, match=r"lack .*classifier"):
        heedful.load(tmp_path, task="image-classification")


def test_a_processor_named_after_its_fast_class_loads_without_torchvision(tmp_path: Path) -> None:
    """Hubs store the name of the torchvision class; the class of Pillow must take its place."""
    save("vit", tmp_path)
    path = tmp_path / "preprocessor_config.json"
    stored = json.loads(path.read_text())
    for name in ("ViTImageProcessor", "ViTImageProcessorFast"):
        path.write_text(json.dumps(stored | {"image_processor_type": name}))
        assert heedful.load(tmp_path).labels == ("cat", "dog", "hen")


def test_a_damaged_processor_is_one_line(tmp_path: Path) -> None:
    save("vit", tmp_path)
    (tmp_path / "preprocessor_config.json").write_text("{")
    with pytest.raises(HeedfulError, match="image processor") as caught:
        heedful.load(tmp_path)
    assert "\n" not in str(caught.value)


def test_a_missing_hub_id_is_one_line() -> None:
    with pytest.raises(HeedfulError, match="cannot load nobody/no-such-vit"):
        heedful.load("nobody/no-such-vit", task="image-classification", local_only=True)
