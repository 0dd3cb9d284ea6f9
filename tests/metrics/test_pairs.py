"""Metrics on a picture with a text: what belongs to the picture alone, and what runs on both encoders."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from scipy import ndimage
from tests.models.dual_models import SIDE, module, picture, processor

import heedful
from heedful.core.attribution import Attribution
from heedful.core.target import Target
from heedful.engine.question import run_explainer
from heedful.metrics import robustness
from heedful.metrics.metric_input import MetricInput
from heedful.metrics.sanity import layers_of, randomise, sanity
from heedful.metrics.sanity_maps import map_of
from heedful.metrics.score import ScoreInputs, score_explanations
from heedful.modalities.neighbours import smoothed, smoothed_row
from heedful.models.dual_encoder import DualEncoder
from heedful.models.model_copies import can_copy, copied

RAW = {"picture": picture(), "text": "a red circle"}
POINTING = ("pointing", "pointing-mass", "pointing-iou")
EXPENSIVE = ("sanity", "sanity-ssim", "sanity-hog", "local-lipschitz", "max-sensitivity")


@pytest.fixture(scope="module")
def model() -> DualEncoder:
    made = heedful.load((module("clip"), processor()))
    assert isinstance(made, DualEncoder)
    return made


def subject_of(model: DualEncoder, method: str, **params: Any) -> MetricInput:
    x = model.encode(RAW)

    def again(other: Any, given: Any, target: Any, seed: int) -> Attribution:
        return run_explainer(method, other, given, target, **params)

    return MetricInput(model, again(model, x, model.target(x), 0), again, "grid:4+word")


# --- pointing ----------------------------------------------------------------------------------------


def test_pointing_looks_at_the_picture_alone(model: DualEncoder) -> None:
    """By hand: the first cell of sixteen is the thing. The words have the highest scores by far."""
    x = model.encode(RAW)
    scores = np.zeros(len(x.units("grid:4+word")))
    scores[:4], scores[-3:] = (3, 1, -2, 0), (50, 60, 70)
    item = Attribution(x, model.target(x), scores, "mine", over="grid:4+word")
    mask = np.concatenate([x.picture.units("grid:4").owner == 0, np.zeros(len(x.text), dtype=bool)])
    found = score_explanations(
        model, [item], metrics=POINTING, unit="grid:4+word", known=ScoreInputs(mask=mask)
    )
    values = {score.metric: score.value for score in found}
    assert values == pytest.approx({"pointing": 1, "pointing-mass": 3 / 4, "pointing-iou": 1})
    chance = {score.metric: score.control for score in found}
    assert chance == pytest.approx({"pointing": 1 / 16, "pointing-mass": 1 / 16, "pointing-iou": 1 / 31})
    whole = np.arange(len(x)) < len(x.picture)
    none = score_explanations(model, [item], metrics=POINTING, known=ScoreInputs(mask=whole))
    assert all(np.isnan(score.value) for score in none)


# --- smoothing ---------------------------------------------------------------------------------------


def test_both_parts_are_smoothed_on_their_own(model: DualEncoder) -> None:
    x = model.encode(RAW)
    scores = np.random.default_rng(0).standard_normal(19)
    cells, words = scores[:16].copy(), scores[16:].copy()
    found = smoothed(x, scores, "grid:4+word")
    side = SIDE // 4
    painted = np.kron(cells.reshape(4, 4), np.ones((side, side)))
    blurred = ndimage.gaussian_filter(painted, side, mode="nearest")
    expected = blurred.reshape(4, side, 4, side).mean((1, 3)).ravel()
    np.testing.assert_allclose(found[:16], expected, rtol=1e-12)
    np.testing.assert_allclose(found[16:], smoothed_row(words), rtol=1e-12)
    louder = np.concatenate([cells, words + 1000])
    np.testing.assert_array_equal(smoothed(x, louder, "grid:4+word")[:16], found[:16])


# --- random weights ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["clip", "siglip"])
def test_a_copy_answers_as_the_original_and_shares_nothing(name: str) -> None:
    own = module(name)
    model: Any = heedful.load((own, processor()))
    assert can_copy(model)
    x, weights = model.encode(RAW), copy.deepcopy(own.state_dict())
    made = copied(model)
    for spec in (None, "logit", {"contrast": "a blue star"}):
        target = model.target(x, spec)
        assert made.model().trace(x, target).output == pytest.approx(model.trace(x, target).output, abs=1e-12)
    before = model.trace(x, model.target(x)).output
    by_side = []
    for part in ("vision", "text"):  # random weights of either encoder change the answer of the copy
        rng, again = torch.Generator().manual_seed(0), copied(model)
        for layer, tensors in layers_of(again.module).items():
            if part in layer:
                randomise(tensors, rng)
        by_side.append(again.model().trace(x, model.target(x)).output)
    assert all(abs(value - before) > 1e-3 for value in by_side)
    assert all(torch.equal(weights[key], value) for key, value in own.state_dict().items())
    assert model.trace(x, model.target(x)).output == before


def test_functions_are_not_copied() -> None:
    pair: Any = heedful.load(
        (lambda pictures: [[1.0, p.mean()] for p in pictures], lambda texts: [[1.0, 2.0] for _ in texts]),
        modality="image+text",
    )
    assert not can_copy(pair)


def test_what_ignores_the_weights_does_not_pass(model: DualEncoder) -> None:
    rng = np.random.default_rng(0)
    assert sanity(subject_of(model, "edges"), rng) == pytest.approx(1)
    assert sanity(subject_of(model, "occlusion", unit="grid:4+word", operator="mean"), rng) < 0.8


def test_a_map_is_that_of_the_picture(model: DualEncoder) -> None:
    x = model.encode(RAW)
    scores = np.arange(19.0)
    found = map_of(Attribution(x, Target("similarity"), scores, over="grid:4+word"))
    side = SIDE // 4
    np.testing.assert_allclose(found, np.kron(np.arange(16).reshape(4, 4) / 15, np.ones((side, side))))


# --- noise -------------------------------------------------------------------------------------------


def test_noise_moves_the_picture_and_no_word(model: DualEncoder) -> None:
    x = model.encode(RAW)
    target = model.target(x)
    embeds = model.lookup(x, target)
    moved = model.nudged(x, target, torch.full_like(embeds, 0.5))
    assert moved.text == x.text
    assert moved.picture == model.picture.nudged(x.picture, target, torch.full((len(x.picture), 3), 0.5))
    assert moved.picture != x.picture
    part = model.moved_part(x, embeds)
    assert torch.equal(part, model.picture.lookup(x.picture, target))
    found = robustness.neighbours(
        subject_of(model, "grad-x-input"), np.random.default_rng(0), lambda rng, shape: rng.normal(size=shape)
    )
    assert found is not None
    _, distances, size = found
    assert size == pytest.approx(float(part.norm()))
    # colours beyond black and white are cut, so a step is somewhat shorter than the noise
    assert np.all((distances > 0.06 * size) & (distances < 0.11 * size))


@pytest.mark.parametrize(
    "metrics",
    [("sanity-ssim", "max-sensitivity"), pytest.param(EXPENSIVE, marks=pytest.mark.slow)],
    ids=["two", "all"],
)
def test_an_audit_has_values(model: DualEncoder, metrics: tuple[str, ...]) -> None:
    pytest.importorskip("skimage")
    found = heedful.audit(
        model,
        [RAW],
        methods=["grad-x-input"],
        metrics=metrics,
        unit="grid:4",
    )
    values = {row.metric: row.value for row in found.table if row.method == "grad-x-input"}
    assert values.keys() == set(metrics)
    assert all(np.isfinite(value) and value > 0 for value in values.values())
