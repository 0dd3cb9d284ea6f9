"""What the outputs of a network over pictures mean: classes, labels, a number, or probabilities already."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from transformers import ViTConfig, ViTForImageClassification

import heedful
from heedful.models.image_model import PROBABILITIES
from heedful.models.image_reader import ImageReader

READER = ImageReader((16, 16))
SMALL = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
PICTURE = np.random.default_rng(3).integers(0, 256, (16, 16, 3)).astype(np.uint8)
MEANS = (PICTURE / 255).mean((0, 1))  # of red, green and blue


class Colours(nn.Module):
    """A function of the mean colour (B, 3)."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, pixels: Tensor) -> Tensor:
        out: Tensor = self.function(pixels.mean((2, 3)))
        return out


def loaded(function: Any, labels: list[str]) -> Any:
    return heedful.load(Colours(function), processor=READER, labels=labels)


def test_one_output_is_a_number() -> None:
    model = loaded(lambda mean: 40 * mean[:, :1] - 3, ["redness"])
    assert model.kind == model.facts()["kind"] == "regression"
    x = model.encode(PICTURE)
    ((label, value),) = model.predict(x)
    assert label == "redness"
    assert value == pytest.approx(40 * MEANS[0] - 3, rel=1e-5)
    assert model.target(x).kind == "regression"
    screen = str(heedful.explain(model, PICTURE, ["occlusion"]))
    assert f"{value:.4g}" in screen
    assert "redness 100" not in screen
    assert "output change" in screen


@pytest.mark.parametrize("problem", ["multi_label_classification", "regression", None])
def test_the_config_says_what_outputs_are(problem: str | None, tmp_path: Path) -> None:
    torch.manual_seed(0)
    config = ViTConfig(**SMALL, image_size=16, patch_size=8, num_labels=3, problem_type=problem)
    module = ViTForImageClassification(config).eval()
    model: Any = heedful.load(module, processor=READER, labels=["a", "b", "c"])
    with torch.no_grad():
        logits = module(torch.tensor(PICTURE / 255).float().permute(2, 0, 1)[None]).logits[0].tolist()
    exps = [math.exp(value) for value in logits]
    expected = {
        "multi_label_classification": [value / (1 + value) for value in exps],
        "regression": logits,
        None: [value / sum(exps) for value in exps],
    }[problem]
    kinds = {"multi_label_classification": "multi-label", "regression": "regression", None: "classifier"}
    assert model.kind == kinds[problem]
    found = dict(model.predict(model.encode(PICTURE)))
    np.testing.assert_allclose([found[name] for name in "abc"], expected, rtol=1e-4, atol=1e-6)
    comparison = heedful.explain(model, PICTURE, ["occlusion"])
    label, value = comparison.model["prediction"][0]
    shown = f"{value:.4g}" if problem == "regression" else f"{100 * value:.1f}"
    assert label in str(comparison)
    assert shown in str(comparison)
    comparison.to_html(tmp_path / "page.html")
    assert shown in (tmp_path / "page.html").read_text("utf-8")


def test_probabilities_are_not_turned_into_probabilities_again() -> None:
    model = loaded(lambda mean: (9 * mean - 4).softmax(-1), ["red", "green", "blue"])
    weights = np.exp(9 * MEANS - 4)
    found = dict(model.predict(model.encode(PICTURE)))
    np.testing.assert_allclose(
        [found[c] for c in ("red", "green", "blue")], weights / weights.sum(), rtol=1e-4
    )
    assert model.facts()["outputs"] == "probability"
    screen = str(heedful.explain(model, PICTURE, ["occlusion"]))
    assert PROBABILITIES in " ".join(screen.split())
    assert "logit change" not in screen


@pytest.mark.parametrize("function", [lambda mean: 9 * mean - 4, lambda mean: 2 * mean / 3])
def test_logits_are_no_probabilities(function: Any) -> None:
    """Of the second, the outputs sum to 1 for a grey picture alone."""
    model = loaded(lambda mean: function(mean + 0.1 * (mean != 0.5)), ["red", "green", "blue"])
    assert "outputs" not in model.facts()
    x = model.encode(PICTURE)
    assert x.notes == ()
    assert sum(share for _, share in model.predict(x)) == pytest.approx(1)
