"""Small models of pictures on which every method for pictures can be checked. Both in float64, 8 × 8 places.

patch_model   a two-layer vision transformer with patches of 2 × 2
conv_model    two convolutions with ReLU, mean over places, a linear read-out
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from heedful.models.image_model import ImageModel
from heedful.models.image_reader import ImageReader

SIDE = 8
READER = ImageReader((SIDE, SIDE), (0.5, 0.5, 0.5), (0.25, 0.25, 0.25))
LABELS = ("up", "down", "other")


def sample_pictures() -> tuple[Any, Any]:
    """Random colours, and one colour alone: no edges, no pieces, nothing to tell apart."""
    noise = np.random.default_rng(7).integers(0, 256, (SIDE, SIDE, 3)).astype(np.uint8)
    return noise, np.full((SIDE, SIDE, 3), 90, dtype=np.uint8)


@cache
def patch_model() -> ImageModel:
    """A vision transformer."""
    from transformers import ViTConfig, ViTForImageClassification

    sizes = {"hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
    config = ViTConfig(
        image_size=SIDE,
        patch_size=2,
        num_labels=len(LABELS),
        initializer_range=0.3,
        hidden_act="relu",
        **sizes,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        module = ViTForImageClassification(config).double().eval()
    return ImageModel(module, READER, LABELS)


class SmallConv(nn.Module):
    """(B, 3, 8, 8) -> (B, 3)"""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 6, 3, padding=1), nn.Conv2d(6, 8, 3, padding=1, stride=2)
        self.read = nn.Linear(8, len(LABELS))

    def forward(self, pixels: Tensor) -> Tensor:
        places = self.second(self.first(pixels).relu()).relu()
        logits: Tensor = self.read(places.mean((2, 3)))
        return logits


@cache
def conv_model() -> ImageModel:
    """A convolutional network; its ReLUs are functions, not modules."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        module = SmallConv().double().eval()
    with torch.no_grad():  # most ReLUs are far from their kinks, where finite differences would fail
        for name, parameter in module.named_parameters():
            if "read" not in name:
                parameter.copy_(parameter + 2.0 if name.endswith("bias") else 0.5 * parameter)
    return ImageModel(module, READER, LABELS)
