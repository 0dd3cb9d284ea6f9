"""Positive scores: the differences against slopes and rows got in another way, and the counts by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import heedful
from heedful import registry
from heedful.agreement import unit_scores
from heedful.labs import positive_scores as lab
from heedful.labs.frame import LabRun
from heedful.labs.report import Claim
from heedful.models import zoo

TEXT = "the plot is thin , but its two leads are a joy to watch"


@pytest.fixture(scope="module")
def model() -> Any:
    return heedful.load("zoo:sentiment")


def test_a_small_increase_has_the_slope_of_gradient_x_input(model: Any) -> None:
    x = model.encode(TEXT)
    target = model.target(x)
    slope = unit_scores(registry.get("grad-x-input")(model, x, target), "word")
    up, down = (lab.more(model, x, target, step) for step in (0.01, -0.01))
    central = (up - down) / 0.02  # the curve of second order cancels
    assert np.abs(central - slope).max() < 0.01 * np.abs(slope).max()


def test_not_removed_is_occlusion_and_put_back_is_a_text_of_one_word(model: Any) -> None:
    x = model.encode(TEXT)
    target = model.target(x)
    found = lab.differences(model, x, target)
    removed = unit_scores(registry.get("occlusion")(model, x, target, operator="delete"), "word")
    np.testing.assert_allclose(found["not removed"], removed, atol=1e-5)  # float32, other batches
    keep = np.zeros((2, len(removed)), dtype=bool)
    keep[1, 4] = True
    nothing, alone = model.rows(x, target, keep, "delete", "word")
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


def test_scores_that_are_the_slope_make_the_claims_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were every method as right as gradient x input, nothing would be wrong with a positive score."""
    run = LabRun(fast=True, seed=23)
    lab.positive_scores(run, "zoo:sentiment", 16)
    assert claims(run) == [True, True]
    real = lab.counted

    def all_the_same(model: Any, some: Any, methods: Any, seed: int) -> Any:
        rows = real(model, some, ["grad-x-input"], seed)["grad-x-input"]
        return dict.fromkeys(methods, rows)

    monkeypatch.setattr(lab, "counted", all_the_same)
    run = LabRun(fast=True, seed=23)
    lab.positive_scores(run, "zoo:sentiment", 16)
    assert claims(run) == [False, False]


@pytest.mark.real
def test_a_positive_score_is_no_promise_on_a_real_model() -> None:
    zoo.pull("prompt-injection")
    run = LabRun(seed=31)
    lab.positive_scores(run, "zoo:prompt-injection", 12)
    assert claims(run) == [True, True]
