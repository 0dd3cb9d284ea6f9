"""Robustness and sanity checks of pictures, where the answer is known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import heedful
from heedful.core import registry
from heedful.engine.question import run_explainer
from heedful.metrics import robustness
from heedful.metrics.metric_input import MetricInput
from heedful.metrics.sanity import randomisation_curve
from heedful.metrics.sanity_maps import likeness_curve

SIDE = 8
RED = 0.5


class RedSum(nn.Module):
    """Logits of two classes: half the sum of the red channel, and nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3 * SIDE * SIDE, 2, bias=False)
        with torch.no_grad():
            self.linear.weight.zero_()
            self.linear.weight[0, : SIDE * SIDE] = RED

    def forward(self, pixels: Tensor) -> Tensor:
        return self.linear(pixels.flatten(1))


def picture() -> np.ndarray:
    """Far from black and white, where noise would be cut off."""
    return np.random.default_rng(3).integers(90, 166, (SIDE, SIDE, 3)).astype(np.uint8)


def subject_of(module: nn.Module, method: str, **params: Any) -> MetricInput:
    reader = heedful.ImageReader((SIDE, SIDE))
    model: Any = heedful.load(module, processor=reader, labels=["red", "other"])
    entry = registry.get(method)
    x = model.encode(picture())
    item = run_explainer(entry, model, x, model.target(x, 0), **params)
    return MetricInput(
        model, item, lambda m, y, t, seed: run_explainer(entry, m, y, t, **params), unit="pixel"
    )


def moved(draw: Any) -> tuple[np.ndarray, list[np.ndarray]]:
    """The picture from 0 to 1, and as it is after each draw: rounded to 8 bits."""
    whole, rng = picture().astype(float), np.random.default_rng(0)
    flat = (whole / 255).reshape(-1, 3)
    scale = robustness.RADIUS * np.sqrt(np.mean(flat**2))
    draws = [scale * draw(rng, flat.shape) for _ in range(robustness.SAMPLES)]
    return flat, [np.round(whole.reshape(-1, 3) + 255 * shift) / 255 for shift in draws]


def test_local_lipschitz_of_a_linear_network_by_hand() -> None:
    """Gradient × input is half of the red channel, so its change is half of the change of red."""
    value = robustness.local_lipschitz(subject_of(RedSum(), "grad-x-input"), np.random.default_rng(0))
    flat, others = moved(lambda rng, shape: rng.standard_normal(shape))
    ratios = [
        (np.linalg.norm(one[:, 0] - flat[:, 0]) / np.linalg.norm(flat[:, 0]))
        / (np.linalg.norm(one - flat) / np.linalg.norm(flat))
        for one in others
    ]
    assert value == pytest.approx(max(ratios), rel=1e-5)  # colours are float32
    assert 0.8 < value < 1.4


def test_max_sensitivity_of_a_linear_network_by_hand() -> None:
    value = robustness.max_sensitivity(subject_of(RedSum(), "grad-x-input"), np.random.default_rng(0))
    flat, others = moved(lambda rng, shape: rng.uniform(-1, 1, shape))
    changes = [np.linalg.norm(one[:, 0] - flat[:, 0]) / np.linalg.norm(flat[:, 0]) for one in others]
    assert value == pytest.approx(max(changes), rel=1e-5)


@pytest.mark.parametrize("metric", [robustness.local_lipschitz, robustness.max_sensitivity])
def test_the_gradient_of_a_linear_network_does_not_move(metric: Any) -> None:
    assert metric(subject_of(RedSum(), "grad-l1"), np.random.default_rng(0)) == 0


def layered(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    convolutions = (nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 4, 3, padding=1), nn.ReLU())
    return nn.Sequential(*convolutions, nn.Flatten(), nn.Linear(4 * SIDE * SIDE, 2))


def test_edges_do_not_change_with_random_weights() -> None:
    """They are the control of the sanity checks: likeness 1 at every stage, by all three measures."""
    pytest.importorskip("skimage")
    subject = subject_of(layered(0), "edges")
    assert [stage.ssim for stage in likeness_curve(subject)] == pytest.approx([1.0] * 3)
    assert [stage.hog for stage in likeness_curve(subject)] == pytest.approx([1.0] * 3)
    assert [stage.signed for stage in randomisation_curve(subject)] == pytest.approx([1.0] * 3)


def test_the_gradient_changes_with_random_weights() -> None:
    """Mean over ten networks: without any trained structure in common, rank correlations are near zero."""
    pytest.importorskip("skimage")
    last = [randomisation_curve(subject_of(layered(seed), "grad-avg"))[-1].signed for seed in range(10)]
    assert abs(np.mean(last)) < 0.15  # the standard error of 10 means of 64 pixels is about 0.04
