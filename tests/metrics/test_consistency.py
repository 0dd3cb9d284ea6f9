"""Seeds: spread, VSI and CSI by hand, and Visani's standard errors by the formula."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import heedful
from heedful import checks
from heedful.core import registry
from heedful.core.attribution import Attribution
from heedful.engine.question import run_explainer
from heedful.engine.session import Session, session_of
from heedful.metrics import consistency as c
from heedful.metrics.metric_input import MetricInput
from heedful.metrics.score import score_explanations

TEXT = "the cat sat on the mat"


def scripted(runs: list[list[float]], errors: list[list[float]] | None = None, **more: Any) -> MetricInput:
    """A method that gives one row after the other, whatever it is asked."""
    model = checks.linear_model()
    x = model.encode(" ".join(["cat"] * len(runs[0])))
    target = model.target(x)
    rows = iter(range(len(runs)))

    def again(m: Any, y: Any, t: Any, seed: int) -> Attribution:
        k = next(rows)
        return Attribution(y, t, np.array(runs[k]), stderr=None if errors is None else np.array(errors[k]))

    item = Attribution(x, target, np.array(runs[0]), stderr=None if errors is None else np.array(errors[0]))
    return MetricInput(model, replace(item, **more), again)


def subject_of(model: Any, method: str, text: str = TEXT, **params: Any) -> MetricInput:
    entry, plain = registry.get(method), session_of(model).model
    x = plain.encode(text)
    item = run_explainer(entry, model, x, plain.target(x), **params)

    def again(m: Any, y: Any, t: Any, seed: int) -> Attribution:
        return run_explainer(entry, m, y, t, **(params | ({"seed": seed} if "seed" in entry.params else {})))

    return MetricInput(model, item, again)


def test_spread_by_hand() -> None:
    # variances (n - 1) 2 and 0; squared norms 10 and 18
    assert c.spread_over_seeds(np.array([[1.0, 3.0], [3.0, 3.0]])) == pytest.approx(np.sqrt(2 / 14))
    assert c.spread_over_seeds(np.array([[0.1, 0.2, 0.3]] * 10)) == 0.0
    assert np.isnan(c.spread_over_seeds(np.zeros((3, 2))))
    noise = np.random.default_rng(0).normal(size=(10, 2000))
    assert c.spread_over_seeds(noise) == pytest.approx(1.0, abs=0.02), "random scores: one"


def test_vsi_by_hand() -> None:
    """Four units, two chosen: {0, 1}, {0, 2}, {0, 1} share 1, 2 and 1 of 2."""
    runs = [[5.0, -3.0, 1.0, 0.0], [5.0, 0.5, -2.0, 0.0], [-4.0, 3.0, 0.1, 0.0]]
    sets = [c.chosen(np.array(run), 2) for run in runs]
    assert [sorted(s.tolist()) for s in sets] == [[0, 1], [0, 2], [0, 1]]
    assert c.variables_stability(sets, 2) == pytest.approx(100 * (0.5 + 1 + 0.5) / 3)
    subject = scripted((runs * 4)[: c.RUNS])
    value = c.vsi(subject, np.random.default_rng(0))
    # ten runs: 7 choose {0, 1}, 3 choose {0, 2}; 21 mixed pairs of 45 share half
    assert value == pytest.approx(100 * (24 + 21 * 0.5) / 45)


def test_a_unit_without_a_score_is_not_chosen() -> None:
    assert c.chosen(np.array([0.0, 0.0, 1.0]), 2).tolist() == [2]
    assert c.variables_stability([np.array([2]), np.array([2])], 2) == 50.0  # p stays the divisor


def test_csi_by_hand() -> None:
    """Unit 0 in three runs: intervals [3, 5], [4, 6], [7, 9] meet in one pair of three. Unit 1 in two runs
    that meet. Unit 2 in one run: not counted."""
    scores = np.array([[4.0, 2.0, 0.0], [5.0, 0.0, 2.0], [8.0, 2.1, 0.0]])
    errors = np.full_like(scores, 1 / 1.96)
    sets = [c.chosen(row, 2) for row in scores]
    assert c.coefficients_stability(scores, errors, sets) == pytest.approx(100 * (1 / 3 + 1) / 2)
    touching = np.array([[1.0], [3.0]])
    assert c.coefficients_stability(touching, np.full((2, 1), 1.0 / 1.96), [np.array([0])] * 2) == 100.0
    assert np.isnan(c.coefficients_stability(scores[:1], errors[:1], sets[:1]))


def test_csi_is_of_methods_with_errors_and_its_control_has_points() -> None:
    runs = [[float(k), 1.0, 2.0, 0.1] for k in range(20, 30)]
    wide, narrow = ([[e] * 4 for _ in runs] for e in (10.0, 1e-3))
    assert c.csi(scripted(runs, wide), np.random.default_rng(0)) == 100.0
    assert c.csi(scripted(runs, narrow), np.random.default_rng(0)) == pytest.approx(
        50.0
    )  # the second unit agrees
    assert np.isnan(c.csi(scripted(runs), np.random.default_rng(0)))
    assert c.csi(scripted(runs, method="random"), np.random.default_rng(0)) == pytest.approx(50.0)
    model = checks.linear_model()
    (score,) = score_explanations(
        model, [subject_of(model, "smoothgrad").item, subject_of(model, "grad-l2").item], ["csi"]
    )
    assert (score.method, score.control) == ("smoothgrad", 0.0)


def test_errors_of_a_words_tokens_add_up() -> None:
    subject = scripted([[1.0, 2.0, 3.0]] * 10, [[0.1, 0.2, 0.4]] * 10)
    x = replace(subject.item.x, words=(0, 0, 1), word_spans=((0, 7), (8, 11)))
    found = c.repeated(replace(subject, item=replace(subject.item, x=x)), np.random.default_rng(0))
    np.testing.assert_allclose(found.scores[0], [3, 3])
    assert found.stderr is not None
    np.testing.assert_allclose(found.stderr[0], [0.3, 0.4])


def test_a_method_that_draws_nothing_is_perfect_and_said_to_be() -> None:
    model = checks.linear_model()
    subject = subject_of(model, "occlusion")
    rng = np.random.default_rng
    assert not c.repeated(subject, rng(0)).drawn
    assert c.repeated(subject_of(model, "random"), rng(0)).drawn
    assert c.consistency(subject, rng(0)) == 0.0
    assert c.vsi(subject, rng(0)) == pytest.approx(100.0)


def test_how_many_are_chosen() -> None:
    short, long = "cat sat on mat the", " ".join(["cat"] * 30)
    model = checks.linear_model()
    assert c.chosen_count(subject_of(model, "occlusion", short)) == 2
    assert c.chosen_count(subject_of(model, "occlusion", long)) == c.FEATURES
    assert c.chosen_count(subject_of(model, "occlusion", "cat")) == 0
    published = subject_of(model, "lime", short, variant="published", features=3, samples=50)
    assert c.chosen_count(published) == 3
    every = subject_of(model, "lime", short, variant="published", features=5, samples=50)
    assert c.chosen_count(every) == 0
    assert np.isnan(c.vsi(every, np.random.default_rng(0)))


def test_seeds_differ_and_rows_are_shared() -> None:
    model = Session(checks.linear_model())
    seen: list[int] = []
    subject = subject_of(model, "random")

    def again(m: Any, x: Any, target: Any, seed: int) -> Attribution:
        seen.append(seed)
        assert m is model, "a run that remembers is asked, not the model behind it"
        return subject.again(m, x, target, seed)

    for metric in (c.consistency, c.vsi):
        metric(replace(subject, again=again), np.random.default_rng(3))
    assert len(set(seen[: c.RUNS])) == c.RUNS
    assert seen[: c.RUNS] == seen[c.RUNS :]


def bent(texts: list[str]) -> list[float]:
    """Words that need each other: no sum."""
    found = [dict.fromkeys(text.split(), 1.0) for text in texts]
    return [
        3 * w.get("a", 0) * w.get("b", 0) - 2 * w.get("c", 0) * w.get("d", 0) + w.get("e", 0) for w in found
    ]


def test_more_samples_are_more_consistent() -> None:
    """LIME as published: fewer rows, more spread."""
    model = heedful.load(bent)
    few, many = (
        subject_of(model, "lime", "a b c d e f g h", variant="published", features=4, samples=n)
        for n in (40, 1000)
    )
    rng = np.random.default_rng
    assert c.consistency(many, rng(0)) < 0.5 * c.consistency(few, rng(0))
    assert c.vsi(many, rng(0)) >= c.vsi(few, rng(0))
    assert c.csi(many, rng(0)) > 80  # 95 % intervals of equal truth overlap more often than 95 %


def test_ridge_errors_by_the_formula() -> None:
    """One variable, by hand: X'WX = sum w x^2, no intercept there, an intercept in the residuals, n - p."""
    x, y, w = np.array([0.0, 1.0, 1.0, 0.0]), np.array([1.0, 4.0, 6.0, 2.0]), np.array([1.0, 2.0, 2.0, 1.0])
    gram = 4.0
    residuals = np.array([-0.5, -1.0, 1.0, 0.5])  # weighted means: 1.5 without, 5 with
    s2 = (w * residuals**2).sum() / (4 - 1)
    wanted = np.sqrt(s2 * gram / (gram + 1) ** 2)
    np.testing.assert_allclose(c.ridge_errors(x[:, None], y, w), [wanted])
    # with the scale of the weights: tenfold weights are not the same errors, the gotcha
    assert c.ridge_errors(x[:, None], y, 10 * w)[0] == pytest.approx(np.sqrt(10 * s2 * 40 / 41**2))
    assert c.ridge_errors(x[:, None], y, w, alpha=0.0)[0] == pytest.approx(np.sqrt(s2 / gram))


def test_ridge_errors_of_two_variables() -> None:
    rng = np.random.default_rng(0)
    data, weights = rng.integers(0, 2, (30, 2)).astype(float), rng.random(30)
    values = data @ [1.0, -2.0] + rng.normal(size=30)
    full = np.column_stack([np.ones(30), data])
    w = np.diag(weights)
    line = np.linalg.solve(full.T @ w @ full, full.T @ w @ values)
    s2 = weights @ (values - full @ line) ** 2 / 28
    inverse = np.linalg.inv(data.T @ w @ data + np.eye(2))
    wanted = np.sqrt(np.diag(s2 * inverse @ data.T @ w @ data @ inverse))
    np.testing.assert_allclose(c.ridge_errors(data, values, weights), wanted)
