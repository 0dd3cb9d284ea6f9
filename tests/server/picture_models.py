"""Models of pictures for tests of the page: one whose mechanism is known, and a tiny vision transformer."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn
from transformers import ViTConfig, ViTForImageClassification

import heedful
from heedful.models.image_model import ImageModel
from heedful.models.image_reader import ImageReader

SIDE = 32
CORNER = 8  # pixels per side of the corner that decides
NAME = "planted corner"


class BrightCorner(nn.Module):
    """bright - dark = 8 x (mean brightness of the corner - 1/2): nothing else matters."""

    def __init__(self) -> None:
        super().__init__()
        weight = torch.zeros(2, 3, SIDE, SIDE)
        weight[0, :, :CORNER, :CORNER] = 4 / (3 * CORNER**2)
        weight[1] = -weight[0]
        self.weight = nn.Parameter(weight)
        self.bias = nn.Parameter(torch.tensor([-2.0, 2.0]))

    def forward(self, pixels: Tensor) -> Tensor:
        return torch.einsum("bchw,kchw->bk", pixels, self.weight) + self.bias


def planted() -> ImageModel:
    return ImageModel(BrightCorner(), ImageReader((SIDE, SIDE)), ["bright", "dark"], NAME)


def tiny_vit() -> Any:
    torch.manual_seed(0)
    config = ViTConfig(
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        image_size=SIDE,
        patch_size=8,
        num_labels=3,
    )
    return heedful.load(
        (ViTForImageClassification(config).eval(), ImageReader((SIDE, SIDE))), labels=["a", "b", "c"]
    )


def scene(side: int = 64) -> np.ndarray:
    """(side, side, 3): grey noise with a bright corner at the top left."""
    pixels = np.random.default_rng(0).integers(60, 120, (side, side, 3)).astype(np.uint8)
    pixels[: side // 4, : side // 4] = 240
    return pixels


def file_of(pixels: np.ndarray, kind: str = "PNG", **more: Any) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, kind, **more)
    return file.getvalue()
