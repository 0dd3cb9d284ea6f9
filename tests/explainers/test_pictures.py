"""Explainers on pictures, against closed forms, captum, formulas by hand and a planted mechanism."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from transformers import ResNetConfig, ResNetForImageClassification, ViTConfig, ViTForImageClassification

from heedful.engine.question import run_explainer
from heedful.models.image_model import ImageModel
from heedful.models.image_reader import ImageReader

READER = ImageReader((32, 32), (0.5, 0.5, 0.5), (0.25, 0.25, 0.25))
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from captum.attr import (
        GuidedBackprop,
        InputXGradient,
        IntegratedGradients,
        LayerAttribution,
        LayerGradCam,
        Saliency,
    )


def picture(seed: int) -> Any:
    return np.random.default_rng(seed).integers(0, 256, (32, 32, 3)).astype(np.uint8)


def resnet() -> nn.Module:
    torch.manual_seed(2)
    config = ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], num_labels=4, layer_type="basic"
    )
    return ResNetForImageClassification(config).eval().double()


def vit() -> nn.Module:
    torch.manual_seed(3)
    config = ViTConfig(
        hidden_size=24,
        num_hidden_layers=3,
        num_attention_heads=3,
        intermediate_size=48,
        image_size=32,
        patch_size=8,
        num_labels=4,
        attn_implementation="eager",
    )
    return ViTForImageClassification(config).eval().double()


def asked(module: nn.Module, seed: int) -> tuple[ImageModel, Any, Any, torch.Tensor]:
    m = ImageModel(module, READER)
    x = m.encode(picture(seed))
    target = m.target(x)
    read = m.lookup(x, target).reshape(1, 32, 32, 3).permute(0, 3, 1, 2)
    return m, x, target, read


def by_pixel(tensor: torch.Tensor) -> Any:
    """(1, 3, H, W) summed over colours, as heedful keeps it."""
    return tensor[0].sum(0).detach().double().numpy().ravel()


class Logits(nn.Module):
    """captum wants a tensor."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        return self.module(pixel_values=pixels).logits


@pytest.mark.parametrize("seed", [11, 12])
def test_gradients_equal_captum(seed: int) -> None:
    m, x, target, read = asked(resnet(), seed)
    forward = Logits(m.module)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        saliency = Saliency(forward).attribute(read, target=target.index, abs=False)
        product = InputXGradient(forward).attribute(read.requires_grad_(), target=target.index)
        guided = GuidedBackprop(forward).attribute(read, target=target.index)
    close = {"rtol": 1e-9, "atol": 1e-12}
    norm = saliency[0].norm(dim=0).detach().numpy().ravel()
    np.testing.assert_allclose(run_explainer("grad-l2", m, x, target).scores, norm, **close)
    np.testing.assert_allclose(run_explainer("grad-x-input", m, x, target).scores, by_pixel(product), **close)
    by_hand = by_pixel(guided * read)
    np.testing.assert_allclose(run_explainer("guided-backprop", m, x, target).scores, by_hand, **close)


@pytest.mark.parametrize(
    "baseline", ["mean", *(pytest.param(name, marks=pytest.mark.slow) for name in ("black", "blur", "noise"))]
)  # these need ten times the nodes
def test_integrated_gradients_equal_captum(baseline: str) -> None:
    m, x, target, read = asked(resnet(), 13)
    start = m.lookup(x, target, range(len(x)), baseline).reshape(1, 32, 32, 3).permute(0, 3, 1, 2)
    expected = IntegratedGradients(Logits(m.module)).attribute(
        read, start, target=target.index, n_steps=400, internal_batch_size=50
    )
    item = run_explainer("integrated-gradients", m, x, target, baseline=baseline, tolerance=1e-5, most=2000)
    size = np.abs(item.scores).max()
    np.testing.assert_allclose(
        item.scores, by_pixel(expected), atol=5e-3 * size
    )  # steps of both, kinks of ReLUs
    assert item.base is not None
    # kinks of ReLUs leave 1e-5 at 2,000 nodes, whatever the change is: 0.2 from the others, 0.02 from noise
    assert item.total == pytest.approx(item.output - item.base, rel=0, abs=2e-5)


@pytest.mark.parametrize("seed", [14, 15])
def test_gradcam_equals_captum(seed: int) -> None:
    m, x, target, read = asked(resnet(), seed)
    layer = m.module.resnet.encoder  # type: ignore[union-attr]

    class Last(nn.Module):
        """The encoder returns an object; captum hooks layers that return tensors."""

        def __init__(self, module: Any) -> None:
            super().__init__()
            self.module, self.last = module, nn.Identity()

        def forward(self, pixels: torch.Tensor) -> torch.Tensor:
            features = self.last(self.module.resnet(pixel_values=pixels).last_hidden_state)
            return self.module.classifier(self.module.resnet.pooler(features))

    wrapped = Last(m.module)
    assert layer is not None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        coarse = LayerGradCam(wrapped, wrapped.last).attribute(
            read, target=target.index, relu_attributions=True
        )
    fine = LayerAttribution.interpolate(coarse, (32, 32), "bilinear")
    item = run_explainer("gradcam", m, x, target)
    np.testing.assert_allclose(item.scores, fine[0, 0].detach().numpy().ravel(), rtol=1e-9, atol=1e-12)
    assert "4 × 4 places" in item.notes[0]


def test_gradcam_of_a_transformer_is_taken_before_its_last_attention() -> None:
    m, x, target, read = asked(vit(), 16)
    found: list[torch.Tensor] = []
    norm = m.module.vit.layers[-1].layernorm_before  # type: ignore[union-attr]
    handle = norm.register_forward_hook(lambda _m, _a, out: found.append(out))
    value = m.module(pixel_values=read.clone().requires_grad_()).logits[0, target.index]
    handle.remove()
    (grad,) = torch.autograd.grad(value, found)
    maps = found[0][0, 1:].T.reshape(24, 4, 4)
    weights = grad[0, 1:].T.reshape(24, 4, 4).mean((1, 2))
    coarse = torch.einsum("c,chw->hw", weights, maps).clamp_min(0)
    fine = nn.functional.interpolate(coarse[None, None], (32, 32), mode="bilinear")[0, 0]
    item = run_explainer("gradcam", m, x, target)
    np.testing.assert_allclose(item.scores, fine.detach().numpy().ravel(), rtol=1e-8, atol=1e-12)


def test_chefers_rule_and_rollout_by_hand() -> None:
    m, x, target, read = asked(vit(), 17)
    out = m.module(pixel_values=read.clone().requires_grad_(), output_attentions=True)
    grads = torch.autograd.grad(out.logits[0, target.index], out.attentions)
    relevance = rolled = torch.eye(17, dtype=torch.float64)
    for maps, grad in zip(out.attentions, grads, strict=True):
        relevance = relevance + (maps[0] * grad[0]).clamp_min(0).mean(0) @ relevance
        mixed = maps[0].mean(0) + torch.eye(17)
        rolled = mixed / mixed.sum(-1, keepdim=True) @ rolled
    for name, expected in (("chefer", relevance), ("attention-rollout", rolled)):
        item = run_explainer(name, m, x, target)
        assert item.over == "patch"
        np.testing.assert_allclose(item.scores, expected[0, 1:].detach().numpy(), rtol=1e-5, atol=1e-9)
    last = out.attentions[-1][0].mean(0)[0, 1:].detach().numpy()
    np.testing.assert_allclose(
        run_explainer("attention-avg", m, x, target).scores, last, rtol=1e-5, atol=1e-9
    )


def test_controls_do_not_depend_on_the_model() -> None:
    x = ImageModel(resnet(), READER).encode(picture(24))
    for name in ("edges", "smooth-random"):
        items = [
            run_explainer(name, m, x, m.target(x))
            for m in (ImageModel(vit(), READER), ImageModel(resnet(), READER))
        ]
        np.testing.assert_array_equal(items[0].scores, items[1].scores)


def test_scores_are_pooled_from_one_unit_to_another() -> None:
    m = ImageModel(resnet(), READER)
    x = m.encode(picture(25))
    item = run_explainer("occlusion", m, x, m.target(x, 1), unit="grid:4")
    assert item.over == "grid:4"
    halves = item.unit_scores("grid:2")
    np.testing.assert_allclose(halves, item.scores.reshape(2, 2, 2, 2).sum((1, 3)).ravel(), atol=1e-12)
    np.testing.assert_allclose(item.unit_scores("pixel").sum(), item.scores.sum(), atol=1e-9)
