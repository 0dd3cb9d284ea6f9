"""The pruning lab: choosing here, measuring there, by hand; luck that is not told fails its claim."""

from __future__ import annotations

import numpy as np
import pytest

import heedful
from heedful.labs import head_pruning as lab
from heedful.labs.frame import LabRun
from heedful.labs.report import Claim
from heedful.labs.reviews import reviews


def test_gains_are_minus_the_drops_of_head_importance() -> None:
    model, some = heedful.load("zoo:sentiment"), list(reviews("held")[::300])
    names, sure, right = lab.gains(LabRun(), model, some, "uniform")
    texts, labels = [one.text for one in some], [one.label for one in some]
    found = heedful.head_importance(model, texts, labels, "uniform", gradient=False, draws=0)
    assert names == [unit.name for unit in found.units]
    for values, metric in ((sure, "log-probability"), (right, "accuracy")):
        drops = [unit.drops[metric].value for unit in found.units]
        np.testing.assert_allclose(-values.mean(0), drops, atol=1e-7)


def test_the_head_is_chosen_on_the_first_texts_and_measured_on_the_others() -> None:
    gain = np.array(
        [[1.0, 0.0], [3.0, 0.0], [-1.0, 9.0], [-3.0, 9.0], [0.0, 5.0], [0.0, 7.0], [8.0, 1.0], [8.0, 3.0]]
    )
    inside, outside = lab.chosen_elsewhere(gain, 2)
    assert inside.tolist() == [2.0, 6.0]
    assert outside.tolist() == [-2.0, 2.0]


def claims(sure: np.ndarray) -> list[bool]:
    run = LabRun()
    lab.luck(run, [f"0.{h}" for h in range(sure.shape[1])], sure, 4)
    return [part.holds for part in run.parts if isinstance(part, Claim)]


@pytest.fixture
def noise() -> np.ndarray:
    return np.random.default_rng(0).normal(0, 0.02, (160, 16))


def test_heads_that_do_nothing_show_luck_and_no_gain(noise: np.ndarray) -> None:
    assert claims(noise) == [True, True, True]


def test_measuring_where_it_was_chosen_hides_the_luck(
    noise: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    true = lab.chosen_elsewhere
    monkeypatch.setattr(lab, "chosen_elsewhere", lambda gain, group: (true(gain, group)[0],) * 2)
    assert claims(noise) == [True, False, True]


def test_a_head_that_does_harm_is_not_called_next_to_nothing(noise: np.ndarray) -> None:
    noise[:, 3] += 0.1
    assert claims(noise)[2] is False
