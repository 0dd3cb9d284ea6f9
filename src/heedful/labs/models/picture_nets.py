"""Small networks for handwritten digits, trained in seconds, for labs on maps of pictures.

    DigitCnn   four convolutions with ReLUs, mean over places, one linear layer: (B, 3, H, W) -> (B, 10)
    digit_vit  a vision transformer of the transformers library: three layers, patches of 7 x 7 pixels

Pictures are colours from 0 to 1. `single` makes one digit per picture, `pairs` two beside each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from heedful.labs.data.digits import digits
from heedful.modalities.image_files import Pixels
from heedful.models.image_model import ImageModel
from heedful.models.image_reader import ImageReader
from heedful.nn.train import TrainConfig
from heedful.nn.train import fit as minimise

SIDE = 28  # of a digit
NAMES = tuple(str(digit) for digit in range(10))


@dataclass(frozen=True, eq=False)
class DigitPictures:
    """Pictures, which digits are in them, and the mask of each of these digits."""

    pictures: npt.NDArray[np.uint8]  # (n, H, W, 3)
    labels: npt.NDArray[np.int64]  # (n, digits per picture)
    masks: npt.NDArray[np.bool_]  # (n, digits per picture, H, W)

    def tensors(self) -> Tensor:
        """(n, 3, H, W) from 0 to 1."""
        return torch.from_numpy(self.pictures.transpose(0, 3, 1, 2) / np.float32(255))


def single(split: str, count: int, rng: np.random.Generator, even: bool = False) -> DigitPictures:
    """White digits on black, one per picture; even: as many of each digit, up to one."""
    images, labels = digits(split)
    order = rng.permutation(len(labels))
    if even:
        turn = np.eye(len(NAMES))[labels[order]].cumsum(0)[np.arange(len(order)), labels[order]]
        order = order[np.argsort(turn, kind="stable")]  # the first of each digit, then the second of each
    some = order[:count]
    return DigitPictures(_coloured(images[some]), labels[some, None], images[some, None] > 127)


def pairs(split: str, count: int, rng: np.random.Generator) -> DigitPictures:
    """Two different digits beside each other: (n, 28, 56, 3)."""
    images, labels = digits(split)
    left = rng.integers(len(labels), size=count)
    right = rng.integers(len(labels), size=count)
    while (same := labels[left] == labels[right]).any():
        right[same] = rng.integers(len(labels), size=int(same.sum()))
    both = np.concatenate([images[left], images[right]], axis=2)
    masks = np.stack([both > 127, both > 127], axis=1)
    masks[:, 0, :, SIDE:] = False
    masks[:, 1, :, :SIDE] = False
    return DigitPictures(_coloured(both), np.stack([labels[left], labels[right]], axis=1), masks)


def _coloured(grey: Pixels) -> Pixels:
    return np.repeat(grey[..., None], 3, axis=3)


class DigitCnn(nn.Module):
    """The network; its layers in the order in which they are passed."""

    def __init__(self, width: int = 12) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, width, 5, stride=2, padding=2)
        self.second = nn.Conv2d(width, 2 * width, 3, padding=1)
        self.third = nn.Conv2d(2 * width, 4 * width, 3, stride=2, padding=1)
        self.fourth = nn.Conv2d(4 * width, 4 * width, 3, padding=1)
        self.top = nn.Linear(4 * width, len(NAMES))
        for layer in (self.first, self.second, self.third, self.fourth):
            nn.init.kaiming_normal_(layer.weight)

    def forward(self, pixels: Tensor) -> Tensor:
        """(B, 10). Pictures may be wider than those of the training: places are averaged."""
        h = pixels
        for layer in (self.first, self.second, self.third, self.fourth):
            h = layer(h).relu()  # at last (B, 4 width, H/4, W/4)
        out: Tensor = self.top(h.mean((2, 3)))
        return out


def digit_cnn(seed: int) -> nn.Module:
    """Untrained."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return DigitCnn()


def digit_vit(seed: int) -> nn.Module:
    """Untrained: 4 x 4 patches of a digit and the class token."""
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(
        hidden_size=48,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=96,
        image_size=SIDE,
        patch_size=7,
        num_labels=len(NAMES),
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module: nn.Module = ViTForImageClassification(config)
        return module


def trained(module: nn.Module, data: DigitPictures, steps: int, seed: int, lr: float) -> nn.Module:
    """On pictures of one digit each."""
    rng = torch.Generator().manual_seed(seed)
    pixels, wanted = data.tensors(), torch.from_numpy(data.labels[:, 0])

    def loss(step: int) -> Tensor:
        rows = torch.randint(len(pixels), (64,), generator=rng)
        return nn.functional.cross_entropy(logits_of(module(pixels[rows])), wanted[rows])

    settings = TrainConfig(steps=steps, lr=lr, warmup=10, weight_decay=0.01, seed=seed, progress=False)
    minimise(module, loss, settings)
    return module.eval()


def wrapped(module: nn.Module, width: int = SIDE) -> ImageModel:
    """For pictures of 28 x `width` pixels."""
    return ImageModel(module, ImageReader((SIDE, width)), NAMES, type(module).__name__)


def logits_of(out: Any) -> Tensor:
    logits: Tensor = getattr(out, "logits", out)
    return logits


def recognised(module: nn.Module, data: DigitPictures) -> npt.NDArray[np.bool_]:
    """(n,): whether the highest logits are those of the digits that are there."""
    with torch.inference_mode():
        logits = logits_of(module(data.tensors()))
    top = logits.topk(data.labels.shape[1]).indices.sort(1).values.numpy()
    return np.asarray((top == np.sort(data.labels, 1)).all(1))
