"""The axioms by hand, and the case of the paper."""

from __future__ import annotations

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
from heedful.metrics import axioms as a
from heedful.metrics.metric_input import MetricInput
from heedful.metrics.score import score_explanations

TEXT = "the cat sat on the mat"


def subject_of(model: Any, method: str, **params: Any) -> MetricInput:
    entry = registry.get(method)
    x = model.encode(TEXT)
    return MetricInput(
        model,
        run_explainer(entry, model, x, model.target(x), **params),
        lambda m, y, t, seed: run_explainer(entry, m, y, t),
    )


@pytest.mark.parametrize(
    ("method", "wanted"),
    [
        ("grad-x-input", 0.0),
        ("grad-l2", 0.0),
        ("grad-avg", 0.0),
        ("integrated-gradients", 1.0),
        ("occlusion", 1.0),
    ],
)
def test_the_case_of_the_paper(method: str, wanted: float) -> None:
    """1 - ReLU(1 - x) at 2: gradients see a flat function, integrated gradients the whole way from 0."""
    assert a.sensitivity_case(method) == pytest.approx(wanted, abs=1e-6)


def test_the_function_is_the_papers() -> None:
    model = a.saturated_model()
    x = model.encode("two")
    target = model.target(x, "f")
    values = model.values(x, target, np.array([[True], [False]]), "pad")
    assert values.tolist() == [1.0, 0.0]
    embeds = model.lookup(x, target)
    seen, _ = model.gradients(x, target, torch.tensor([0.0, 0.25, 1.0, 1.5, 2.0]).to(embeds)[:, None, None])
    assert seen.tolist() == [0.0, 0.25, 1.0, 1.0, 1.0]


@pytest.mark.parametrize(("method", "wanted"), [("grad-x-input", 1.0), ("integrated-gradients", 0.0)])
def test_the_metric_sees_the_case(method: str, wanted: float) -> None:
    model = a.saturated_model()
    entry = registry.get(method)
    x = model.encode("two")
    own = {"baseline": "zero"} if "baseline" in entry.params else {}
    item = run_explainer(entry, model, x, model.target(x, "f"), **own)
    assert a.sensitivity_axiom(MetricInput(model, item, lambda *_: item), np.random.default_rng(0)) == wanted


def test_violations_by_hand() -> None:
    scores = np.array([0.0, 1e-8, 2.0, -1.0, 3.0, 0.0, 1.0])
    changes = np.array([[0.5, 0.0, 0.7, 0.0, 1e-9, 0.0, 0.0], [0.4, 0.0, 0.7, 0.0, 1e-9, 0.3, 0.3]])
    missed, dummy = a.violations(scores, changes, 1e-6)
    assert missed.tolist() == [True, False, False, False, False, False, False]
    assert dummy.tolist() == [False, False, False, True, True, False, False], "the last two are not judged"


def test_sensitivity_on_a_sum() -> None:
    """What matters under every operator must score; "the" weighs nothing, but more than the mean of words."""
    model = checks.linear_model()
    subject = subject_of(model, "occlusion", operator="delete")

    def value(*scores: float) -> float:
        item = replace(subject.item, scores=np.array(scores, dtype=float))
        return a.sensitivity_axiom(replace(subject, item=item), np.random.default_rng(0))

    assert model.operators == ("delete", "swap", "unk", "pad", "mean")
    assert value(0.0, 2.0, -1.0, 0.5, 0.0, 3.0) == 0
    assert value(0.0, 2.0, 0.0, 0.0, 0.0, 3.0) == pytest.approx(2 / 6)
    assert value(1.0, 2.0, -1.0, 0.5, 1.0, 3.0) == 0, "operators differ about the: not judged"


def test_a_word_that_no_operator_moves_is_a_dummy() -> None:
    """A function without a mean embedding: "the" is idle under both of its operators."""
    weights = {"cat": 2.0, "sat": -1.0}
    model = heedful.load(lambda texts: [sum(weights.get(w, 0.0) for w in t.split()) for t in texts])
    x = model.encode("the cat sat")
    item = Attribution(x, model.target(x), np.array([0.5, 2.0, -1.0]))
    subject = MetricInput(model, item, lambda *_: item)
    changes, least = a.effects(subject)
    np.testing.assert_allclose(changes, [[0, 2, 1], [0, 2, 1]])
    assert least == pytest.approx(32 * 2 * 2.0**-24), "outputs that single precision can hold: its rounding"
    assert a.sensitivity_axiom(subject, np.random.default_rng(0)) == pytest.approx(1 / 3)


def test_completeness_by_hand() -> None:
    assert a.incompleteness(np.array([1.0, 2.0, -0.5]), 2.0) == pytest.approx(0.25)
    assert a.incompleteness(np.array([-3.0]), -2.0) == pytest.approx(0.5)
    assert np.isnan(a.incompleteness(np.array([1.0]), 0.0))


def test_who_is_held_to_completeness() -> None:
    """A named base; the control and a promise without one by the empty text; of others nothing is said."""
    model = checks.linear_model()
    rng = np.random.default_rng(0)
    whole = subject_of(model, "integrated-gradients", baseline="zero")
    assert a.completeness(whole, rng) == pytest.approx(0, abs=1e-9)
    assert whole.item.base == pytest.approx(0)
    item = whole.item
    half = replace(item, scores=item.scores / 2)
    assert a.completeness(replace(whole, item=half), rng) == pytest.approx(0.5)
    off = replace(item, base=item.output - 9.0)
    assert a.completeness(replace(whole, item=off), rng) == pytest.approx(0.5)  # 4.5 of 9
    promised = replace(half, base=None)
    assert a.completeness(replace(whole, item=promised), rng) == pytest.approx(0.5)
    assert np.isnan(a.completeness(subject_of(model, "occlusion"), rng))
    control = Attribution(item.x, item.target, np.full(6, 1.5), method="random", output=item.output)
    assert a.completeness(MetricInput(model, control, whole.again), rng) == pytest.approx(
        1.0
    )  # 9 instead of 4.5


@pytest.mark.parametrize("name", ["t5", "bart", "gpt2"])
def test_what_was_written_is_part_of_the_sum(shared: Any, name: str) -> None:
    """Over text and written tokens the methods are complete; over the text alone they are not."""
    model = shared(name).model
    x = model.encode(TEXT)
    target = model.target(x, {"label": 14, "given": [12, 25]})
    for method, params in (
        ("integrated-gradients", {"baseline": "zero", "tolerance": 0.01}),
        ("kernel-shap", {}),
    ):
        item = run_explainer(method, model, x, target, **params)
        whole, rng = MetricInput(model, item, registry.get(method)), np.random.default_rng(0)
        assert a.completeness(whole, rng) < 0.011, "integrated gradients stop at 1 % of the rise"
        assert a.completeness(replace(whole, item=replace(item, written=None)), rng) > 0.05
        named = replace(item, base=None)  # then every word goes, what was written too
        if method == "kernel-shap":
            assert a.completeness(replace(whole, item=named), rng) < 1e-5


def test_completeness_beside_its_control() -> None:
    model = checks.linear_model()
    items = [subject_of(model, name).item for name in ("integrated-gradients", "kernel-shap", "grad-l2")]
    found = {score.method: score for score in score_explanations(model, items, ["completeness"])}
    assert found.keys() == {"integrated-gradients", "kernel-shap"}
    assert all(score.value < 1e-3 < score.control for score in found.values())
