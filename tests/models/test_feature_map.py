"""Which layer has places: networks of every kind, and layers that only look as if they had."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from heedful.models.feature_map import last_feature_map

SIZE = 32


def found(module: nn.Module, patches: tuple[int, int, int] = (0, 0, 0)) -> Any:
    pixels = torch.from_numpy(np.random.default_rng(7).normal(size=(1, 3, SIZE, SIZE)).astype(np.float32))

    def score(leaf: Tensor) -> Tensor:
        out = module.eval()(leaf)
        return getattr(out, "logits", out)[0, 0]

    return last_feature_map(module, score, pixels, patches)


class PlainTransformer(nn.Module):
    """Patches of 8 x 8, two layers of torch's own; the answer is read from the mean or from a class token."""

    def __init__(self, class_token: bool = False) -> None:
        super().__init__()
        self.embed = nn.Conv2d(3, 24, 8, 8)
        layer = nn.TransformerEncoderLayer(24, 2, 32, batch_first=True)
        self.body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.first = nn.Parameter(torch.zeros(1, 1, 24)) if class_token else None
        self.head = nn.Linear(24, 3)

    def forward(self, pixels: Tensor) -> Tensor:
        h = self.embed(pixels).flatten(2).transpose(1, 2)  # (B, 16, 24)
        if self.first is None:
            return self.head(self.body(h).mean(1))
        return self.head(self.body(torch.cat([self.first.expand(len(h), 1, -1), h], 1))[:, 0])


def seeded(build: Any) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        return build()


def test_a_transformer_without_known_patches_has_a_grid_of_its_tokens() -> None:
    """The last layer, not the patch embedding, which is four-dimensional; against autograd by hand."""
    module = seeded(PlainTransformer)
    item = found(module)
    assert item.layer == "body"
    assert item.maps.shape == (24, 4, 4)
    # the mean over 16 places: every place feels the head's own weights, a sixteenth of them
    expected = (module.head.weight[0].detach() / 16)[:, None, None].expand(24, 4, 4)
    torch.testing.assert_close(item.grads, expected)


def test_a_class_token_is_left_out() -> None:
    """Behind the last layer only the class token is read, so the map is taken before."""
    item = found(seeded(lambda: PlainTransformer(True)))
    assert item.layer.startswith("body.layers.")
    assert item.maps.shape[1:] == (4, 4)
    assert item.grads.abs().sum() > 0


def test_swin_is_read_after_its_last_stage() -> None:
    from transformers import SwinConfig, SwinForImageClassification

    config = SwinConfig(
        image_size=SIZE,
        patch_size=4,
        embed_dim=8,
        depths=[2, 2],
        num_heads=[2, 2],
        window_size=4,
        num_labels=3,
    )
    module = seeded(lambda: SwinForImageClassification(config))
    item = found(module)
    assert item.layer == "swin"
    assert item.maps.shape == (16, 4, 4)
    expected = (module.classifier.weight[0].detach() / 16)[:, None, None].expand(16, 4, 4)
    torch.testing.assert_close(item.grads, expected)


class Biased(nn.Module):
    """A convolution whose pooled output is scaled by layers that have the shape of a map and are none."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.conv, self.kind = nn.Conv2d(3, 4, 8, 8), kind
        self.shares, self.table, self.head = nn.Softmax(-1), nn.Identity(), nn.Linear(4, 3)
        self.bias = nn.Parameter(torch.randn(1, 2, 16, 16))

    def forward(self, pixels: Tensor) -> Tensor:
        h = self.conv(pixels)  # (B, 4, 4, 4)
        flat = h.flatten(2)  # (B, 4, 16)
        table = self.table(self.bias)  # no function of the picture
        scores = (flat.transpose(1, 2) @ flat)[:, None] + table
        weights = self.shares(scores).mean((1, 2)) if self.kind == "attention" else table.mean((1, 2))
        return self.head((flat * weights[:, None]).sum(-1))


def test_a_table_and_attention_weights_are_no_maps() -> None:
    for kind in ("table", "attention"):
        module = seeded(lambda kind=kind: Biased(kind))
        assert found(module).layer == "conv", kind


def test_without_places_there_is_none() -> None:
    assert found(nn.Sequential(nn.Flatten(), nn.Linear(3 * SIZE * SIZE, 2))) is None
