"""Positive scores: the differences against slopes and rows got in another way, and the counts by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import heedful
from heedful.core.lab_report import Claim
from heedful.engine.question import run_explainer
from heedful.labs.base.registry import LabRun
from heedful.labs.measures import positive_scores as lab
from heedful.models.zoo import resolve

TEXT = "the plot is thin , but its two leads are a joy to watch"


@pytest.fixture(scope="module")
def model() -> Any:
    return heedful.load("zoo:sentiment")


def test_a_small_increase_has_the_slope_of_gradient_x_input(model: Any) -> None:
    x = model.encode(TEXT)
    target = model.target(x)
    slope = run_explainer("grad-x-input", model, x, target).unit_scores()
    up, down = (lab.more(model, x, target, step) for step in (0.01, -0.01))
    central = (up - down) / 0.02  # the curve of second order cancels
    assert np.abs(central - slope).max() < 0.01 * np.abs(slope).max()


def test_not_removed_is_occlusion_and_put_back_is_a_text_of_one_word(model: Any) -> None:
    x = model.encode(TEXT)
    target = model.target(x)
    found = lab.differences(model, x, target)
    removed = run_explainer("occlusion", model, x, target, operator="delete").unit_scores()
    np.testing.assert_allclose(found["not removed"], removed, atol=1e-5)  # float32, other batches
    keep = np.zeros((2, len(removed)), dtype=bool)
    keep[1, 4] = True
    nothing, alone = model.values(x, target, keep, "delete", "word")
    assert found["put back"][4] == pytest.approx(alone - nothing, abs=1e-5)


def test_counts_by_hand() -> None:
    scores, gained = np.array([2.0, 1.0, 0.5, 0.0, -1.0]), np.array([-1.0, 1.0, 0.0, -1.0, -1.0])
    assert lab.wrong(scores, gained) == (1, 3), "zero is neither a positive score nor a fall"


def test_an_interval_of_none_wrong_is_not_of_width_zero() -> None:
    rows = np.zeros((6, len(lab.WAYS), 2))
    rows[:, :, 1] = 5
    value, (low, high) = lab.share(rows, 0, seed=1)
    assert (value, low) == (0.0, 0.0)
    assert high == pytest.approx(1 - 0.025 ** (1 / 30))  # 30 of 30 right


def claims(run: LabRun) -> list[bool]:
    return [part.holds for part in run.parts if isinstance(part, Claim)]


@pytest.mark.parametrize(
    ("slope", "others", "chance", "expected"),
    [(0.0, 0.3, 0.5, [True, True]), (0.0, 0.0, 0.5, [True, False]), (0.5, 0.5, 0.5, [False, False])],
)
def test_claims_follow_the_shares(
    monkeypatch: pytest.MonkeyPatch, slope: float, others: float, chance: float, expected: list[bool]
) -> None:
    """Were every method as right as the slope itself, nothing would be wrong with a positive score."""
    shares = {"grad-x-input": slope, "random": chance}

    def planted(model: Any, some: Any, methods: Any, seed: int) -> Any:
        rng = np.random.default_rng(seed)
        made = {name: np.full((20, len(lab.WAYS), 2), 10.0) for name in methods}
        for name, rows in made.items():
            rows[:, :, 0] = rng.binomial(10, shares.get(name, others), rows.shape[:2])
        return made

    monkeypatch.setattr(lab, "counted", planted)
    run = LabRun(fast=True, seed=23)
    lab.positive_scores(run, "zoo:sentiment", 20)
    assert claims(run) == expected


def test_the_methods_are_counted_over_texts(model: Any) -> None:
    found = lab.counted(model, [TEXT, "a joy"], ("occlusion", "random"), 3)
    assert {rows.shape for rows in found.values()} == {(2, len(lab.WAYS), 2)}
    assert not found["occlusion"][:, lab.WAYS.index("not removed"), 0].any(), "it is that difference itself"
    words = [[len(model.encode(text).units("word"))] for text in (TEXT, "a joy")]
    assert (found["random"][:, :, 1] <= words).all()


@pytest.mark.real
def test_a_positive_score_is_no_promise_on_a_real_model() -> None:
    resolve.pull("prompt-injection")
    run = LabRun(seed=31)
    lab.positive_scores(run, "zoo:prompt-injection", 12)
    assert claims(run) == [True, True]
