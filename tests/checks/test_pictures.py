"""Conformance on models of pictures: every method that they offer, and every metric for pictures alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from heedful import checks
from heedful.core import registry
from heedful.engine.question import run_explainer
from heedful.metrics.score import ScoreInputs, score_explanations

MODELS = {"patches": checks.patch_model, "convolutions": checks.conv_model}
# What each model has not; all else must be offered.
LACKS = {
    "patches": {"one-layer", "text"},
    "convolutions": {"attentions", "edits", "value-maps", "relevance", "head-states", "one-layer", "text"},
}
SLOW = {"anchors", "attention-optimus", "search"}
JOINT = {"joint", "similarity"}  # of methods for pictures with text; the models here have no text


def offered() -> list[Any]:
    names = [name for name, entry in registry.explainers().items() if not entry.needs & JOINT]
    return [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in names]


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("name", offered())
def test_every_method(name: str, kind: str) -> None:
    model, entry = MODELS[kind](), registry.get(name)
    why = model.lacks(entry.needs)
    assert bool(why) == bool(entry.needs & LACKS[kind]), f"{name} on {kind}: {why or 'it has all it needs'}"
    if why:
        assert why.startswith("it needs ")  # a sentence that says what is missing
        return
    checks.check_on(entry, model)


@pytest.mark.parametrize("name", [n for n, m in registry.metrics().items() if "picture" in m.needs])
def test_every_metric_for_pictures(name: str) -> None:
    checks.check_metric(name)


# why a metric has no value for a method here
SILENT = {"plausibility", "plausibility-f1", "plausibility-iou"}  # no marked units


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("name", list(registry.metrics()))
def test_every_metric_has_a_value_or_a_reason(name: str, kind: str) -> None:
    model, metric = MODELS[kind](), registry.get_metric(name)
    x = model.encode(np.random.default_rng(3).integers(0, 256, (8, 8, 3)).astype(np.uint8))
    target = model.target(x)
    method = "lime" if name == "csi" else "integrated-gradients"
    item = run_explainer(method, model, x, target)
    mask = np.arange(64) < 20
    known = ScoreInputs(mask=mask, searched={})
    scores = score_explanations(model, [item], [name], ["mean"], draws=3, known=known)
    if why := model.lacks(metric.needs):
        assert why.startswith("it needs a text")
        assert scores == []
    elif name in SILENT:
        assert scores == []
    else:
        assert [score.method for score in scores] == [method]
        assert np.isfinite(scores[0].value)
