"""The pruning lab: choosing here, measuring there, by hand; luck that is not told fails its claim."""

from __future__ import annotations

import numpy as np
import pytest

import heedful
from heedful.core.lab_report import Claim
from heedful.labs import head_pruning as lab
from heedful.labs.base.registry import LabRun
from heedful.labs.data.reviews import reviews


def test_gains_are_minus_the_drops_of_head_importance() -> None:
    model, some = heedful.load("zoo:sentiment"), list(reviews("held")[::300])
    names, sure, right = lab.gains(LabRun(), model, some, "uniform")
    texts, labels = [one.text for one in some], [one.label for one in some]
    found = heedful.head_importance(model, texts, labels, "uniform", gradient=False, draws=0)
    assert names == [unit.name for unit in found.units]
    for values, metric in ((sure, "log-probability"), (right, "accuracy")):
        drops = [unit.drops[metric].value for unit in found.units]
        np.testing.assert_allclose(-values.mean(0), drops, atol=1e-7)


def test_the_head_is_chosen_on_one_group_and_measured_on_the_other_both_ways() -> None:
    gain = np.array([[1.0, 0.0], [3.0, 0.0], [-1.0, 9.0], [-3.0, 7.0], [0.0, 5.0], [0.0, 7.0]])
    apparent, left = lab.chosen_elsewhere(gain[:4], 2)
    assert apparent.tolist() == [(2.0 + 8.0) / 2]
    assert left.tolist() == [(-2.0 + 0.0) / 2]
    assert len(lab.chosen_elsewhere(gain, 1)[0]) == 3


def test_halves_measure_each_others_choice() -> None:
    gain = np.array([[1.0, 0.0], [3.0, 1.0], [-1.0, 9.0], [-3.0, 7.0]])
    apparent, left = lab.crossed(gain)
    assert apparent == (2.0 + 8.0) / 2
    assert left.tolist() == [0.0, 1.0, -1.0, -3.0]


def claims(sure: np.ndarray) -> list[bool]:
    run = LabRun()
    lab.luck(run, sure, (2, 8))
    lab.helps(run, sure, np.sign(sure))
    return [part.holds for part in run.parts if isinstance(part, Claim)]


@pytest.fixture
def noise() -> np.ndarray:
    return np.random.default_rng(0).normal(0, 0.02, (320, 16))


def test_heads_that_do_nothing_show_luck_and_no_gain(noise: np.ndarray) -> None:
    assert claims(noise) == [True, True]


def test_measuring_where_it_was_chosen_hides_the_luck(
    noise: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    true = lab.chosen_elsewhere
    monkeypatch.setattr(lab, "chosen_elsewhere", lambda gain, group: (true(gain, group)[0],) * 2)
    assert claims(noise) == [False, True]


def test_a_head_that_does_harm_is_neither_luck_nor_next_to_nothing(noise: np.ndarray) -> None:
    noise[:, 3] += 0.1
    assert claims(noise) == [False, False]


def test_losses_on_fresh_texts_are_those_of_head_importance() -> None:
    model, some = heedful.load("zoo:sentiment"), list(reviews("held")[::300])
    texts, labels = [one.text for one in some], [one.label for one in some]
    found = heedful.head_importance(model, texts, labels, lab.GONE, gradient=False, draws=0)
    names = [unit.name for unit in found.units][:3]
    few, none = lab.on_fresh(model, some, [[name] for name in names], (1, 0))
    assert few.shape == (len(some), 3)
    drops = [unit.drops["log-probability"].value for unit in found.units][:3]
    np.testing.assert_allclose(few.mean(0), drops, atol=1e-7)
    assert not none.any()


@pytest.mark.parametrize(
    ("few", "most", "expected"),
    [
        ((0.01, 0.01), (0.05, 0.2), [True, True]),
        ((0.01, 0.2), (0.05, 0.2), [False, True]),  # random heads cannot go: it does take a choice
        ((0.2, 0.01), (0.05, 0.2), [False, True]),
        ((0.01, 0.01), (0.2, 0.2), [True, False]),  # chosen heads are missed as much as random ones
    ],
)
def test_random_heads_have_a_say(
    few: tuple[float, float], most: tuple[float, float], expected: list[bool]
) -> None:
    """Losses (texts, chosen and four random sets)."""
    rng = np.random.default_rng(0)
    both = [rng.normal(0, 0.05, (100, 5)) + np.array([c, *[r] * 4]) for c, r in (few, most)]
    run = LabRun()
    lab.spared(run, *both)
    assert [part.holds for part in run.parts if isinstance(part, Claim)] == expected
