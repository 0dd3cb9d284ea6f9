"""Networks over pictures: what is probed, what is run, and that the user's module stays as it was."""

from __future__ import annotations

import copy
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from transformers import (
    ConvNextConfig,
    ConvNextForImageClassification,
    DeiTConfig,
    DeiTForImageClassification,
    Dinov2Config,
    Dinov2ForImageClassification,
    MobileNetV2Config,
    MobileNetV2ForImageClassification,
    ResNetConfig,
    ResNetForImageClassification,
    SwinConfig,
    SwinForImageClassification,
    ViTConfig,
    ViTForImageClassification,
    ViTImageProcessorPil,
)

import heedful
from heedful.core.errors import HeedfulError
from heedful.modalities.image_operators import COLOURING, OPERATORS
from heedful.models.image_model import ImageModel, _patches
from heedful.models.image_reader import ImageReader, reader_of

SMALL = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
READER = ImageReader((32, 32), (0.5, 0.4, 0.3), (0.2, 0.3, 0.4))


def networks() -> dict[str, nn.Module]:
    torch.manual_seed(0)
    vit = {"image_size": 32, "patch_size": 8, "num_labels": 3}
    sizes = {"hidden_sizes": [8, 16], "depths": [1, 1], "num_labels": 3}
    made: dict[str, nn.Module] = {
        "vit": ViTForImageClassification(ViTConfig(**SMALL, **vit)),
        "deit": DeiTForImageClassification(DeiTConfig(**SMALL, **vit)),
        "dinov2": Dinov2ForImageClassification(Dinov2Config(**SMALL, **vit)),
        "swin": SwinForImageClassification(
            SwinConfig(
                image_size=32,
                patch_size=4,
                embed_dim=8,
                depths=[1, 1],
                num_heads=[1, 2],
                window_size=4,
                num_labels=3,
            )
        ),
        "resnet": ResNetForImageClassification(ResNetConfig(embedding_size=8, layer_type="basic", **sizes)),
        "convnext": ConvNextForImageClassification(ConvNextConfig(num_stages=2, **sizes)),
        "mobilenet": MobileNetV2ForImageClassification(
            MobileNetV2Config(image_size=32, num_labels=3, depth_multiplier=0.35)
        ),
        "plain": nn.Sequential(
            *(
                nn.Conv2d(3, 6, 3, padding=1),
                nn.ReLU(),
                nn.AdaptiveAvgPool2d(1),
                nn.Flatten(),
                nn.Linear(6, 3),
            )
        ),
    }
    return {name: module.eval() for name, module in made.items()}


NETWORKS = networks()
TRANSFORMERS = {"vit": 1, "deit": 2, "dinov2": 1}  # special positions


def model(name: str) -> ImageModel:
    return ImageModel(NETWORKS[name], READER, name=name)


def picture(seed: int = 1, size: tuple[int, int] = (32, 32)) -> Any:
    return np.random.default_rng(seed).integers(0, 256, (*size, 3)).astype(np.uint8)


@pytest.mark.parametrize("name", NETWORKS)
def test_what_it_can_do_is_probed(name: str) -> None:
    m = model(name)
    assert {"values", "gradients", "picture", "feature-map"} <= m.capabilities
    assert ("attentions" in m.capabilities) == (name in TRANSFORMERS)
    assert m.patches == ((4, 4, TRANSFORMERS[name]) if name in TRANSFORMERS else (0, 0, 0))
    assert ("relu" in m.capabilities) == (name in ("resnet", "plain", "mobilenet"))  # ReLU6 counts


@pytest.mark.parametrize("name", NETWORKS)
def test_outputs_are_the_modules_own(name: str) -> None:
    m = model(name)
    x = m.encode(picture())
    mean, std = np.array(READER.mean), np.array(READER.std)
    read = torch.tensor((picture() / 255 - mean) / std, dtype=torch.float32).permute(2, 0, 1)[None]
    with torch.no_grad():
        out = NETWORKS[name](read)
    expected = getattr(out, "logits", out)[0].double().numpy()
    np.testing.assert_allclose(m.scores_of(x), expected, rtol=1e-5, atol=1e-6)  # float32
    target = m.target(x)
    assert target.index == expected.argmax()
    np.testing.assert_allclose(
        m.values(x, target, np.ones((1, len(x.units())), bool)), expected.max(), rtol=1e-5
    )


@pytest.mark.parametrize("operator", COLOURING)
def test_values_are_those_of_pictures_made_by_hand(operator: str) -> None:
    """Batched, cached rows give what one picture after the other gives."""
    from heedful.models.image_rows import Composer, image_rows

    m = model("plain")
    x = m.encode(picture())
    target, keep = m.target(x), np.random.default_rng(3).random((5, 16)) < 0.5
    values = m.values(x, target, keep, operator, "grid:4")
    rows = image_rows(x, keep, operator, "grid:4", COLOURING)
    draws = OPERATORS[operator].draws
    by_hand = [float(m.score_rows(Composer(x), [row])[0, target.index]) for row in rows]
    np.testing.assert_allclose(values, np.reshape(by_hand, (5, draws)).mean(1), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", NETWORKS)
def test_gradients_are_finite_differences(name: str) -> None:
    module = copy.deepcopy(NETWORKS[name]).double()
    m = ImageModel(module, READER)
    x = m.encode(picture())
    target = m.target(x)
    trace, embeds = m.trace(x, target), m.lookup(x, target)
    rng = np.random.default_rng(5)
    direction = torch.from_numpy(rng.normal(size=tuple(embeds.shape)))
    step = 1e-6
    high, low = m.gradients(x, target, torch.stack([embeds + step * direction, embeds - step * direction]))[0]
    slope = float((trace.grad_embeds.double() * direction).sum())
    assert abs(float(high - low) / (2 * step) - slope) < 1e-4 * max(1.0, abs(slope))
    np.testing.assert_allclose(
        m.gradients(x, target, embeds[None])[1][0].numpy(), trace.grad_embeds.numpy(), atol=1e-8
    )


@pytest.mark.parametrize("name", NETWORKS)
def test_the_module_stays_as_it_was(name: str) -> None:
    module = copy.deepcopy(NETWORKS[name]).train()
    before = {key: value.clone() for key, value in module.state_dict().items()}
    modes = [part.training for part in module.modules()]
    m = ImageModel(module, READER)
    x = m.encode(picture())
    target = m.target(x)
    m.trace(x, target)
    m.feature_map(x, target)
    m.values(x, target, np.zeros((1, len(x.units())), bool))
    assert [part.training for part in module.modules()] == modes
    assert all(torch.equal(before[key], value) for key, value in module.state_dict().items())
    assert all(p.grad is None for p in module.parameters())
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks")
    assert not any(getattr(part, kind) for part in module.modules() for kind in hooks)


def test_attention_is_the_modules_own() -> None:
    m = model("vit")
    x = m.encode(picture())
    trace = m.trace(x, m.target(x))
    assert [tuple(layer.shape) for layer in trace.attentions] == [(2, 17, 17)] * 2
    for layer in trace.attentions:
        torch.testing.assert_close(layer.sum(-1), torch.ones(2, 17))
    assert len(trace.readout) == 17
    assert trace.readout[0] == max(trace.readout) > 0.99  # the class token is read


def test_a_processor_is_split_into_seeing_and_normalising() -> None:
    processor = ViTImageProcessorPil(
        size={"height": 32, "width": 32}, image_mean=[0.5] * 3, image_std=[0.2] * 3
    )
    reader = reader_of(processor)
    assert reader.size == (32, 32)
    raw = picture(2, (50, 70))
    x = reader.read(raw)
    read = reader.normalise(torch.from_numpy(x.pixels / np.float32(255))).permute(2, 0, 1).numpy()
    expected = processor(images=raw, return_tensors="np")["pixel_values"][0]
    np.testing.assert_allclose(read, expected, atol=1.5 / 255 / 0.2)  # one step of 8 bits
    assert x.notes == ("resized from 70 × 50 to 32 × 32 pixels",)


def test_labels_and_targets() -> None:
    m = ImageModel(NETWORKS["plain"], READER, labels=["cat", "dog", "car"])
    x = m.encode(picture())
    assert m.target(x, "dog").index == 1
    contrast = m.target(x, {"label": "cat", "contrast": "dog"})
    scores = m.scores_of(x)
    value = m.values(x, contrast, np.ones((1, len(x.units())), bool))[0]
    assert value == pytest.approx(scores[0] - scores[1], abs=1e-6)
    with pytest.raises(HeedfulError):
        m.target(x, "bird")
    with pytest.raises(HeedfulError, match="2 labels"):
        ImageModel(NETWORKS["plain"], READER, labels=["a", "b"])


def test_a_module_that_is_no_classifier_is_refused() -> None:
    with pytest.raises(HeedfulError, match="is no classifier of pictures"):
        ImageModel(nn.Conv2d(3, 4, 3), READER)


def test_nan_is_said_with_the_layer() -> None:
    module = copy.deepcopy(NETWORKS["plain"])
    m = ImageModel(module, READER)
    with torch.no_grad():
        module[4].weight[0] = float("nan")  # type: ignore[index]
    with pytest.raises(HeedfulError, match="answers NaN"):
        m.scores_of(m.encode(picture()))


def test_text_is_refused() -> None:
    import heedful

    text = heedful.load("zoo:one-layer").encode("good food")
    with pytest.raises(HeedfulError, match="reads pictures"):
        model("plain").encode(text)


class _Viewing(torch.nn.Module):
    """Flattens by .view(), which fails on pictures whose colours are last in memory."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.head = torch.nn.Conv2d(3, 4, 3, stride=2), torch.nn.Linear(4 * 7 * 7, 3)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        h = self.conv(pixels).relu()
        out: torch.Tensor = self.head(h.view(len(h), -1))
        return out


def test_a_module_that_views_its_memory_works() -> None:
    torch.manual_seed(0)
    module = _Viewing().eval()
    model = heedful.load(module, modality="image", processor=ImageReader((16, 16)))
    pixels = np.random.default_rng(0).integers(0, 256, (16, 16, 3)).astype(np.uint8)
    x = model.encode(pixels)
    with torch.inference_mode():
        want = module(torch.from_numpy(pixels / np.float32(255)).permute(2, 0, 1)[None].contiguous())[0]
    target = model.target(x, 0)
    assert model.values(x, target, np.ones((1, 64), dtype=bool))[0] == pytest.approx(float(want[0]), abs=1e-6)
    assert model.capabilities >= {"gradients", "relu", "feature-map"}
    assert model.trace(x, target).output == pytest.approx(float(want[0]), abs=1e-6)


def test_how_many_run_together_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    model: Any = heedful.load(_Viewing().eval(), modality="image", processor=ImageReader((16, 16)))
    rng = np.random.default_rng(0)
    x = model.encode(rng.integers(0, 256, (16, 16, 3)).astype(np.uint8))
    target, keep = model.target(x, 1), rng.random((9, 64)) < 0.5
    together = model.values(x, target, keep)
    model.batch_pixels = 1
    assert model.rows_at_once == 1
    # a sum in another order rounds at 1e-7 of its size
    np.testing.assert_allclose(model.values(x, target, keep), together, atol=1e-6)


@pytest.mark.parametrize(
    ("size", "patch", "grid"),
    [
        ((32, 64), (8, 8), (4, 8, 1)),  # the number of positions, 33, is near a square
        ((32, 32), [8, 8], (4, 4, 1)),
        ((32, 32), (8, 16), (4, 2, 1)),
        ((32, 64), (16, 4), (2, 16, 1)),
        ((32, 64), 16, (2, 4, 1)),
    ],
)
def test_patches_are_those_of_the_network(size: Any, patch: Any, grid: Any) -> None:
    """Against the network's own embedding: a change of one patch of the picture changes one position."""
    torch.manual_seed(2)
    module = ViTForImageClassification(ViTConfig(**SMALL, image_size=size, patch_size=patch, num_labels=2))
    m = ImageModel(module.eval(), ImageReader(size))
    assert m.patches == grid
    x = m.encode(picture(size=size))
    patches = x.units("patch")
    pixels = torch.randn(1, 3, *size)
    embed = module.vit.embeddings
    with torch.no_grad():
        before = embed(pixels)[0]
        for unit in (0, 1, len(patches) - 1):
            flat = pixels.clone().reshape(3, -1)
            flat[:, patches[unit]] += 1
            moved = (embed(flat.reshape(pixels.shape))[0] - before).abs().sum(-1) > 1e-4
            assert moved.nonzero().ravel().tolist() == [grid[2] + unit]
    item = heedful.explain(m, picture(size=size), ["gradcam"], evidence=False)["gradcam"]
    assert len(item.unit_scores("patch")) == grid[0] * grid[1]


def test_a_patch_size_may_be_stated_by_its_sides() -> None:
    module = nn.Module()
    module.config = SimpleNamespace(patch_size={"height": 8, "width": 16})
    assert _patches(module, 4 * 2 + 1, 32, 32) == (4, 2, 1)
    assert _patches(module, 8 * 4, 32, 32) is None, "it contradicts the number of positions"
    assert _patches(module, 7, 32, 32) is None, "fewer positions than patches"


@pytest.mark.parametrize(
    ("positions", "size", "expected"),
    [
        (33, (32, 64), (4, 8, 1)),
        (21, (32, 32), (4, 4, 5)),
        (22, (32, 32), None),  # six would be left over
        (26, (32, 32), None),  # 5 x 5 cells do not divide 32 pixels
        (50, (224, 224), (7, 7, 1)),
    ],
)
def test_patches_that_are_not_stated_divide_the_picture_into_equal_squares(
    positions: int, size: tuple[int, int], expected: Any
) -> None:
    for stated in (None, "8", (8, 8, 8), (0, 8)):
        module = nn.Module()
        module.config = SimpleNamespace(patch_size=stated)
        assert _patches(module, positions, *size) == expected
