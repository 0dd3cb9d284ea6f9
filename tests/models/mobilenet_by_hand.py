"""MobileNetV2 written out from the paper's table 2, on weights with the names of torchvision: an oracle."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

TABLE = (  # expansion, channels, repeats, stride
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
State = dict[str, Tensor]


def convolve(state: State, x: Tensor, names: tuple[str, str], stride: int, relu: bool) -> Tensor:
    """Convolution, batch norm with its running statistics, ReLU6."""
    weight = state[f"{names[0]}.weight"]
    x = F.conv2d(
        x, weight, stride=stride, padding=weight.shape[-1] // 2, groups=x.shape[1] // weight.shape[1]
    )
    mean, var = state[f"{names[1]}.running_mean"], state[f"{names[1]}.running_var"]
    scale = state[f"{names[1]}.weight"] / (var + 1e-5).sqrt()
    x = (x - mean[:, None, None]) * scale[:, None, None] + state[f"{names[1]}.bias"][:, None, None]
    return x.clamp(0, 6) if relu else x


def forward(state: State, x: Tensor) -> Tensor:
    """(B, 3, H, W) -> (B, 1000)"""
    x = convolve(state, x, ("features.0.0", "features.0.1"), 2, True)
    block = 0
    for expand, channels, repeats, first_stride in TABLE:
        for repeat in range(repeats):
            block += 1
            before, name = x, f"features.{block}.conv"
            stride, at = first_stride if repeat == 0 else 1, 0
            if expand > 1:
                x = convolve(state, x, (f"{name}.0.0", f"{name}.0.1"), 1, True)
                at = 1
            x = convolve(state, x, (f"{name}.{at}.0", f"{name}.{at}.1"), stride, True)
            x = convolve(state, x, (f"{name}.{at + 1}", f"{name}.{at + 2}"), 1, False)
            if stride == 1 and before.shape[1] == channels:
                x = x + before
    x = convolve(state, x, ("features.18.0", "features.18.1"), 1, True)
    return x.mean((2, 3)) @ state["classifier.1.weight"].T + state["classifier.1.bias"]


def random_state(seed: int) -> State:
    """Weights of the right shapes, small enough for numbers to stay finite."""
    generator = torch.Generator().manual_seed(seed)
    state: State = {}

    def add(names: tuple[str, str], out: int, inside: int, side: int) -> None:
        scale = (2 / (inside * side * side)) ** 0.5
        state[f"{names[0]}.weight"] = torch.randn(out, inside, side, side, generator=generator) * scale
        for part, low in (("weight", 0.5), ("bias", -0.1), ("running_mean", -0.1), ("running_var", 0.5)):
            state[f"{names[1]}.{part}"] = low + torch.rand(out, generator=generator)
        state[f"{names[1]}.num_batches_tracked"] = torch.tensor(7)

    add(("features.0.0", "features.0.1"), 32, 3, 3)
    block, width = 0, 32
    for expand, channels, repeats, _ in TABLE:
        for _ in range(repeats):
            block += 1
            name, wide, at = f"features.{block}.conv", width * expand, 0
            if expand > 1:
                add((f"{name}.0.0", f"{name}.0.1"), wide, width, 1)
                at = 1
            add((f"{name}.{at}.0", f"{name}.{at}.1"), wide, 1, 3)
            add((f"{name}.{at + 1}", f"{name}.{at + 2}"), channels, wide, 1)
            width = channels
    add(("features.18.0", "features.18.1"), 1280, 320, 1)
    state["classifier.1.weight"] = torch.randn(1000, 1280, generator=generator) * 0.02
    state["classifier.1.bias"] = torch.randn(1000, generator=generator)
    return state
