"""An audit never runs more model inputs than its estimate says, whatever the metric."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import heedful
from heedful.audits.estimate import estimate_audit
from heedful.core import registry
from heedful.core.cost import Meter
from heedful.models.image_reader import ImageReader

METHODS = [
    "grad-l2",
    "occlusion",
    "smoothgrad",
]  # they ask for as many model inputs as they say, not for fewer
PARAMS = {"smoothgrad": {"samples": 4}}
# what can be answered only where somebody marked the reason or the thing: it looks at scores alone
MARKED = {name for name, entry in registry.metrics().items() if entry.masks or entry.rationales}
FREE = "compactness"  # looks at the scores alone: an audit needs one metric that has a value


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Model inputs that were run, of every model: copies have meters of their own."""
    counts: list[int] = []
    counted = Meter.counted

    def counting(self: Meter, **given: int) -> Any:
        counts.append(given.get("unique", 0))
        return counted(self, **given)

    monkeypatch.setattr(Meter, "counted", counting)
    return counts


def picture_model() -> Any:
    torch.manual_seed(0)
    layers = [nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(16, 2)]
    return heedful.load(nn.Sequential(*layers), processor=ImageReader((12, 12)), labels=["a", "b"])


PICTURE = np.random.default_rng(0).integers(0, 256, (12, 12, 3)).astype(np.uint8)
TEXT = "the cat sat on the low mat and it is not a dog"


def check(model: Any, raw: Any, metric: str, run: list[int], unit: str, operators: list[str] | None) -> None:
    if model.lacks(registry.get_metric(metric).needs):
        pytest.skip("the model lacks what this metric needs")
    options: dict[str, Any] = {"methods": METHODS, "metrics": [metric, FREE], "operators": operators}
    options |= {"unit": unit, "params": PARAMS, "draws": 3}
    told = estimate_audit(model, [raw], **options)
    run.clear()
    found = heedful.audit(model, [raw], **options)
    assert not found.errors
    assert sum(run) <= told.rows_per_text
    assert told.control_rows_per_text <= told.rows_per_text


@pytest.mark.parametrize("metric", sorted(set(registry.metrics()) - MARKED))
def test_no_metric_runs_more_than_was_estimated_on_a_text(shared: Any, metric: str, run: list[int]) -> None:
    check(shared("bert").model, TEXT, metric, run, "word", None)


@pytest.mark.parametrize("metric", sorted(set(registry.metrics()) - MARKED))
def test_no_metric_runs_more_than_was_estimated_on_a_picture(metric: str, run: list[int]) -> None:
    check(picture_model(), PICTURE, metric, run, "grid:3", None)


def test_an_operator_that_draws_counts_each_draw(run: list[int]) -> None:
    """As a judge, and where every operator fits in turn."""
    check(picture_model(), PICTURE, "comprehensiveness", run, "grid:3", ["noise"])
    check(picture_model(), PICTURE, "comprehensiveness", run, "grid:3", ["all"])
