"""Attention of vision transformers: read, changed and hidden, against the same network run by hand."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from transformers import (
    DeiTConfig,
    DeiTForImageClassification,
    Dinov2Config,
    Dinov2ForImageClassification,
    ResNetConfig,
    ResNetForImageClassification,
    ViTConfig,
    ViTForImageClassification,
)

import heedful
from heedful.core.errors import HeedfulError
from heedful.modalities.image_operators import COLOURING
from heedful.models.attention_hooks import AttentionState, uniform
from heedful.models.image_model import ImageModel
from heedful.models.image_reader import ImageReader

SMALL: dict[str, Any] = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "image_size": 32,
    "patch_size": 8,
    "num_labels": 3,
}
READER = ImageReader((32, 32), (0.5, 0.4, 0.3), (0.2, 0.3, 0.4))


def vit(**more: Any) -> ViTForImageClassification:
    torch.manual_seed(0)
    module = ViTForImageClassification(ViTConfig(**SMALL, **more)).eval()
    with torch.no_grad():  # fresh weights attend almost uniformly: sharper, so that hiding changes much
        for name, parameter in module.named_parameters():
            if "proj" in name or "query" in name or "key" in name:
                parameter.mul_(8)
    return module


def picture(seed: int = 1) -> Any:
    return np.random.default_rng(seed).integers(0, 256, (32, 32, 3)).astype(np.uint8)


def without_keys(module: ViTForImageClassification, pixels: Tensor, gone: list[int]) -> Tensor:
    """Logits with -inf added to the scores of the positions `gone`, before each softmax: pre-norm layers
    of the ViT paper, written out with the module's own weights."""
    base, heads = module.vit, SMALL["num_attention_heads"]
    states = base.embeddings(pixels)  # (1, T, d)
    mask = torch.zeros(states.shape[1])
    mask[gone] = -torch.inf
    layers = next(part for part in base.modules() if isinstance(part, nn.ModuleList))
    for layer in layers:
        linear = {name.rpartition(".")[2]: part for name, part in layer.named_modules()}
        query, key, value = (
            linear[name](layer.layernorm_before(states)).view(1, -1, heads, 8).transpose(1, 2)
            for name in ("q_proj", "k_proj", "v_proj")
        )
        weights = (query @ key.transpose(-1, -2) / 8**0.5 + mask).softmax(-1)
        mixed = (weights @ value).transpose(1, 2).reshape(1, -1, 16)
        states = states + linear["o_proj"](mixed)
        inside = layer.mlp(layer.layernorm_after(states))
        states = states + inside
    return module.classifier(base.layernorm(states)[:, 0])[0]


def test_patches_hidden_are_keys_dropped_by_hand() -> None:
    module = vit()
    m = ImageModel(module, READER)
    assert m.named_operators == (*COLOURING, "pad")
    assert m.operators == COLOURING  # judges are never chosen to hide
    x = m.encode(picture())
    target = m.target(x)
    keep = np.ones((4, 16), bool)
    keep[1, [3]] = keep[2, [0, 5, 6, 15]] = keep[3] = False
    values = m.values(x, target, keep, "pad", "patch")
    pixels = m.lookup(x, target)[None].reshape(1, 32, 32, 3).permute(0, 3, 1, 2)
    with torch.no_grad():
        expected = [
            float(without_keys(module, pixels, [1 + p for p in np.flatnonzero(~row)])[target.index])
            for row in keep
        ]
    assert len({round(value, 3) for value in expected}) == 4  # hiding does something
    np.testing.assert_allclose(values, expected, rtol=1e-4, atol=1e-5)  # float32, another order of sums


def test_cells_of_whole_patches_are_hidden_and_others_refused() -> None:
    m = ImageModel(vit(), READER)
    x = m.encode(picture())
    target = m.target(x)
    cells, patches = np.ones((1, 4), bool), np.ones((1, 16), bool)
    cells[0, 1] = patches[0, [2, 3, 6, 7]] = False
    by_cell, by_patch = (
        m.values(x, target, cells, "pad", "grid:2"),
        m.values(x, target, patches, "pad", "patch"),
    )
    np.testing.assert_allclose(by_cell, by_patch, rtol=1e-6)
    with pytest.raises(HeedfulError, match="its borders cut patches of the model"):
        m.values(x, target, np.ones((1, 25), bool), "pad", "grid:5")


def test_an_explanation_removes_by_hiding_when_it_is_named() -> None:
    m = ImageModel(vit(), READER)
    found = heedful.explain(
        m,
        picture(),
        methods=["occlusion"],
        params={"occlusion": {"operator": "pad"}},
        unit="patch",
        evidence=False,
    )
    item = found["occlusion"]
    assert item.fitted_by == ("pad",)
    keep = np.concatenate([np.ones((1, 16), bool), ~np.eye(16, dtype=bool)])
    values = m.values(item.x, item.target, keep, "pad", "patch")
    np.testing.assert_allclose(item.unit_scores("patch"), values[0] - values[1:], atol=1e-6)
    assert [each.operator for each in found.internals.removals] == ["pad"]


def test_pooled_patches_are_not_hidden() -> None:
    """DINOv2's head reads the mean patch beside the class token: a hidden patch would still be read."""
    torch.manual_seed(0)
    m = ImageModel(Dinov2ForImageClassification(Dinov2Config(**SMALL)).eval(), READER)
    assert "edits" in m.capabilities
    assert m.named_operators == COLOURING
    x = m.encode(picture())
    with pytest.raises(HeedfulError, match="this model does not offer it"):
        m.values(x, m.target(x), np.ones((1, 16), bool), "pad", "patch")


def test_a_convolution_has_no_attention() -> None:
    torch.manual_seed(0)
    sizes: dict[str, Any] = {"hidden_sizes": [8, 16], "depths": [1, 1], "num_labels": 3}
    m = ImageModel(ResNetForImageClassification(ResNetConfig(embedding_size=8, **sizes)).eval(), READER)
    assert not {"attentions", "edits"} & m.capabilities
    with pytest.raises(HeedfulError, match="attention whose weights can be changed"):
        m.attending(lambda seen: seen)
    with pytest.raises(HeedfulError, match="shows no attention over patches"):
        heedful.attention(m, picture())


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_an_edit_reaches_every_layer_and_leaves_nothing(attention: str) -> None:
    module = vit(attn_implementation=attention)
    m = ImageModel(module, READER)
    x = m.encode(picture())
    before, weights = m.scores_of(x), copy.deepcopy(module.state_dict())
    sites = set()

    def even(seen: AttentionState) -> AttentionState:
        sites.add((seen.site.stack, seen.site.layer))
        return seen.reweighed(uniform(seen))

    with m.attending(even):
        changed = m.scores_of(x)
        maps = m.attention_only(x).attentions
    assert sites == {("self", 0), ("self", 1)}
    assert np.abs(changed - before).max() > 1e-3
    for layer in maps:
        torch.testing.assert_close(layer, torch.full((2, 17, 17), 1 / 17))
    np.testing.assert_array_equal(m.scores_of(x), before)
    assert module.config._attn_implementation == attention
    assert all(torch.equal(weights[name], value) for name, value in module.state_dict().items())


def test_heads_are_ablated() -> None:
    """Without all heads of all layers no patch reaches the class token: two pictures give one answer."""
    m = ImageModel(vit(), READER)
    one, other = (m.encode(picture(seed)) for seed in (1, 2))
    assert np.abs(m.scores_of(one) - m.scores_of(other)).max() > 1e-3
    with heedful.ablated(m, "all"):
        np.testing.assert_allclose(m.scores_of(one), m.scores_of(other), rtol=1e-5, atol=1e-6)


def test_two_special_positions_are_never_hidden() -> None:
    torch.manual_seed(0)
    m = ImageModel(DeiTForImageClassification(DeiTConfig(**SMALL)).eval(), READER)
    assert m.patches == (4, 4, 2)
    x = m.encode(picture())
    values = m.values(x, m.target(x), np.zeros((1, 16), bool), "pad", "patch")
    assert np.isfinite(values).all()
