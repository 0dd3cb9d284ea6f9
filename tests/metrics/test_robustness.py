"""Robustness by hand on a sum of word weights, against Quantus and captum on shared perturbations."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import heedful
from heedful import checks
from heedful.core import registry
from heedful.core.attribution import Attribution
from heedful.engine.question import run_explainer
from heedful.engine.session import Session, session_of
from heedful.metrics import robustness as r
from heedful.metrics.metric_input import MetricInput
from heedful.metrics.score import score_explanations

TEXT = "the cat sat on the mat"


def subject_of(model: Any, method: str, text: str = TEXT, **params: Any) -> MetricInput:
    entry = registry.get(method)
    plain = session_of(model).model
    x = plain.encode(text)
    target = plain.target(x)
    return MetricInput(
        model,
        run_explainer(entry, model, x, target, **params),
        lambda m, y, t, seed: run_explainer(entry, m, y, t, **params),
    )


def test_by_hand_on_a_sum() -> None:
    """There the truth moves exactly as far as the first coordinates of the embeddings do."""
    model = checks.linear_model()
    subject = subject_of(model, "occlusion", operator="delete")
    found = r.neighbours(subject, np.random.default_rng(0), lambda g, shape: g.standard_normal(shape), 5)
    assert found is not None
    scores, distances, size = found
    rng, weights = np.random.default_rng(0), np.array([0, 2, -1, 0.5, 0, 3.0])
    scale = r.RADIUS * np.sqrt(np.mean(np.square(weights)) / 2)  # the second coordinate is zero
    for k in range(5):
        shift = scale * rng.standard_normal((6, 2))
        np.testing.assert_allclose(scores[k] - subject.scores, shift[:, 0], atol=1e-12)
        assert distances[k] == pytest.approx(np.linalg.norm(shift))
    assert size == pytest.approx(np.linalg.norm(weights))
    ratios = np.linalg.norm(scores - weights, axis=1) / distances
    value = r.local_lipschitz(subject, np.random.default_rng(0))
    assert value >= ratios.max() - 1e-12  # eight draws, of which these are the first five
    assert value <= 1.0  # |first coordinates| <= |all coordinates|, and |weights| is |x|
    assert r.lipschitz(weights, scores, distances) == pytest.approx(ratios.max())


def test_the_box_bounds_max_sensitivity() -> None:
    """On the sum no coordinate moves by more than r: the relative change is at most r sqrt(d) / |weights|."""
    model = checks.linear_model()
    subject = subject_of(model, "occlusion", operator="delete")
    weights = np.array([0, 2, -1, 0.5, 0, 3.0])
    radius = r.RADIUS * np.sqrt(np.mean(np.square(weights)) / 2)
    value = r.max_sensitivity(subject, np.random.default_rng(0))
    assert 0.3 < value / (radius * np.sqrt(6) / np.linalg.norm(weights)) < 1


@pytest.mark.parametrize("metric", [r.local_lipschitz, r.max_sensitivity])
def test_what_never_moves_scores_zero_and_size_does_not_matter(metric: Any) -> None:
    model = checks.linear_model()
    subject = subject_of(model, "grad-x-input")
    value = metric(subject, np.random.default_rng(1))
    tenfold = replace(
        subject,
        item=replace(subject.item, scores=10 * subject.item.scores),
        again=lambda *a: replace(subject.again(*a), scores=10 * subject.again(*a).scores),
    )
    assert metric(tenfold, np.random.default_rng(1)) == pytest.approx(value)
    assert value > 0
    still = replace(subject, again=lambda m, x, t, seed: replace(subject.item, x=x))
    assert metric(still, np.random.default_rng(1)) == 0.0


@pytest.mark.parametrize("metric", [r.local_lipschitz, r.max_sensitivity])
def test_nothing_is_said_without_scores_or_embeddings(metric: Any) -> None:
    model = checks.linear_model()
    silent = subject_of(model, "grad-x-input")
    silent = replace(silent, item=replace(silent.item, scores=0 * silent.item.scores))
    assert np.isnan(metric(silent, np.random.default_rng(0)))
    function = heedful.load(lambda texts: [float(len(text)) for text in texts])
    assert np.isnan(metric(subject_of(function, "occlusion"), np.random.default_rng(0)))


def test_a_run_that_remembers_gives_the_same() -> None:
    """Its memory knows texts by their ids, and moved texts share theirs: it must not be asked."""
    model = checks.linear_model()
    plain, through = (subject_of(m, "occlusion") for m in (model, Session(model)))
    values = [r.max_sensitivity(s, np.random.default_rng(0)) for s in (plain, through, through)]
    assert values[0] == pytest.approx(values[1]) == pytest.approx(values[2])
    assert r.max_sensitivity(plain, np.random.default_rng(1)) != pytest.approx(values[0])


@pytest.mark.parametrize("family", ["bert", "gpt2", "t5-classifier"])
def test_methods_beat_the_control(family: str, shared: Any) -> None:
    model = shared(family).model
    items = [subject_of(model, name).item for name in ("occlusion", "grad-l2")]
    for metric in ("local-lipschitz", "max-sensitivity"):
        for score in score_explanations(model, items, [metric]):
            assert 0 < score.value < score.low, (score.method, metric)


class Bent(torch.nn.Module):
    """A small smooth function whose gradient x input is easy to take."""

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        flat = inputs.flatten(1)
        weights = torch.linspace(-1, 2, flat.shape[1]).to(flat)
        total = (flat * weights).tanh().sum(1)
        return torch.stack([total, -total], 1)


def grad_x_input(inputs: torch.Tensor) -> torch.Tensor:
    with torch.enable_grad():  # captum turns it off
        inputs = inputs.detach().clone().requires_grad_(True)
        (grad,) = torch.autograd.grad(Bent()(inputs)[:, 0].sum(), inputs)
    return (grad * inputs).detach()


def shared_perturbations(count: int, size: int, radius: float) -> torch.Tensor:
    return torch.empty(count, size).uniform_(-radius, radius, generator=torch.Generator().manual_seed(3))


def test_max_sensitivity_is_captums() -> None:
    from captum.metrics import sensitivity_max

    x = torch.linspace(0.2, 1.5, 6)[None]
    moves = shared_perturbations(10, 6, 0.1)

    def explained(inputs: Any) -> Any:  # captum hands over the text in a tuple, the moved ones without
        return (grad_x_input(inputs[0] if isinstance(inputs, tuple) else inputs),)

    theirs = sensitivity_max(
        explained,
        x,
        perturb_func=lambda inputs: inputs + moves,
        n_perturb_samples=10,
        max_examples_per_batch=10,
    )
    here = grad_x_input(x)[0].double().numpy()
    others = grad_x_input(x + moves).double().numpy()
    assert r.largest_change(here, others) == pytest.approx(float(theirs), rel=1e-5)


@pytest.mark.filterwarnings("ignore")
def test_both_are_quantus() -> None:
    """The same moves handed to Quantus, with its normalisation of scores off."""
    quantus = pytest.importorskip("quantus")
    x = torch.linspace(0.2, 1.5, 6).reshape(1, 1, 1, 6)
    moves = shared_perturbations(10, 6, 0.1).reshape(10, 1, 1, 6)

    def explained(model: Any, inputs: Any, targets: Any, **_: Any) -> Any:
        return grad_x_input(torch.as_tensor(inputs)).numpy()

    def perturb(state: list[int]) -> Any:
        def one(arr: Any, **_: Any) -> Any:
            state[0] += 1
            return arr + moves[state[0] - 1].reshape(1, *arr.shape[1:]).numpy()

        return one

    settings = {
        "nr_samples": 10,
        "abs": False,
        "normalise": False,
        "return_nan_when_prediction_changes": False,
        "disable_warnings": True,
        "display_progressbar": False,
        "return_aggregate": False,
    }
    here = grad_x_input(x).flatten().double().numpy()
    others = grad_x_input(x + moves).reshape(10, 6).double().numpy()
    distances = moves.reshape(10, 6).norm(dim=1).double().numpy()
    ask = {
        "model": Bent(),
        "x_batch": x.numpy(),
        "y_batch": np.array([0]),
        "a_batch": None,
        "explain_func": explained,
        "device": "cpu",
        "channel_first": True,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lipschitz = quantus.LocalLipschitzEstimate(perturb_func=perturb([0]), **settings)(**ask)
        sensitivity = quantus.MaxSensitivity(perturb_func=perturb([0]), **settings)(**ask)
    assert r.lipschitz(here, others, distances) == pytest.approx(float(np.ravel(lipschitz)[0]), rel=1e-4)
    assert r.largest_change(here, others) == pytest.approx(float(np.ravel(sensitivity)[0]), rel=1e-4)


def test_the_seed_of_the_explanation_is_used_again() -> None:
    """Sampling noise is not counted as fragility."""
    model = checks.linear_model()
    seen: list[int] = []

    def again(m: Any, x: Any, target: Any, seed: int) -> Attribution:
        seen.append(seed)
        return Attribution(x, target, np.ones(len(x)))

    item = replace(subject_of(model, "grad-x-input").item, params={"seed": 7})
    r.max_sensitivity(MetricInput(model, item, again), np.random.default_rng(0))
    assert set(seen) == {7}
    assert len(seen) == r.SAMPLES
