"""Exact games: the lab's own sampler against its truth, and bugs that the claims must catch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import heedful
from heedful.core.lab_report import Claim
from heedful.labs import exact_shapley as lab
from heedful.labs.base.registry import LabRun
from heedful.stats import enumeration, ratio_game


@pytest.fixture(scope="module")
def model() -> Any:
    return lab.in_float64(heedful.load("zoo:one-layer"))


def test_double_precision_changes_no_answer(model: Any) -> None:
    single = heedful.load("zoo:one-layer")
    x = single.encode(lab.SENTENCE)
    target = single.target(x, "positive")
    keep = np.ones((1, 7), dtype=bool)
    assert model.values(x, target, keep)[0] == pytest.approx(single.values(x, target, keep)[0], abs=1e-4)


def test_kernel_shap_as_published_finds_a_line_at_once() -> None:
    """On a linear game any rows that determine the line give it back."""
    weights = np.array([1.0, -2.0, 0.5, 3.0])
    found = lab.published_kernel_shap(lambda keep: 0.3 + keep @ weights, 4, 60, np.random.default_rng(0))
    np.testing.assert_allclose(found, weights, atol=1e-10)


def test_kernel_shap_as_published_comes_to_the_shapley_values() -> None:
    values = np.random.default_rng(1).normal(size=32)
    places = 1 << np.arange(5)[::-1]
    ask = lambda keep: values[keep @ places]  # noqa: E731
    found = lab.published_kernel_shap(ask, 5, 200_000, np.random.default_rng(0))
    assert lab.distance(found, enumeration.shapley(values)) < 0.02  # sampling: about 1 / sqrt(rows)


def test_texts_have_the_words_asked_for() -> None:
    for text in lab.texts(range(20, 24), 5, np.random.default_rng(0)):
        assert 20 <= len(text.split()) < 24


def failed(run: LabRun) -> list[str]:
    return [part.sentence for part in run.parts if isinstance(part, Claim) and not part.holds]


def test_a_wrong_game_fails(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(lab.EXACT, "Shapley", ratio_game.banzhaf)
    monkeypatch.setitem(lab.EXACT, "LIME (no kernel)", ratio_game.lime)
    run = LabRun(fast=True, seed=1)
    lab.against_brute_force(run, model, np.random.default_rng(1))
    wrong = [sentence.split(":")[0] for sentence in failed(run)]
    assert wrong == ["Shapley", "LIME (no kernel)"]


def test_claims_about_samplers_can_fail() -> None:
    rows, rng = (100, 400, 1600), np.random.default_rng(0)
    falling = 5 / np.sqrt(rows) * rng.uniform(0.9, 1.1, (6, 3))
    still, held = np.full((6, 3), 0.3) * rng.uniform(0.9, 1.1, (6, 3)), rng.binomial(20, 0.95, 60) / 20
    wanted: list[tuple[Any, Any, Any, list[str]]] = [
        (falling, falling / 9, held, []),
        (still, still / 9, held, ["root"]),
        (falling / 100, falling / 900, held, ["one per cent"]),
        (falling, 2 * falling, held, ["closer"]),
        (falling, falling / 9, held - 0.08, ["should"]),  # too narrow
        (falling, falling / 9, np.ones(60), ["should"]),  # too wide
    ]
    for plain, ours, covered, words in wanted:
        run = LabRun(fast=True)
        lab.sampling_claims(run, rows, plain, ours, covered)
        assert len(failed(run)) == len(words)
        assert all(word in sentence for word, sentence in zip(words, failed(run), strict=True))


@pytest.mark.parametrize(("width", "holds"), [(1.0, True), (0.6, False), (2.5, False)])
def test_intervals_of_another_width_are_noticed(width: float, holds: bool) -> None:
    """Normal errors of known size, their standard error right, too small, and too large."""
    rng = np.random.default_rng(0)
    covered = np.array([lab.held(rng.normal(size=20), np.full(20, width), np.zeros(20)) for _ in range(60)])
    run = LabRun(fast=True)
    rows = (100, 400, 1600)
    falling = 5 / np.sqrt(rows) * rng.uniform(0.9, 1.1, (6, 3))
    lab.sampling_claims(run, rows, falling, falling / 9, covered)
    assert any("should" in sentence for sentence in failed(run)) is not holds
