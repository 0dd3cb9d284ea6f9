"""Distances between seeds, and intervals over seeds and texts, against formulas and simulation."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
import torch

from heedful.nn.train import TrainConfig
from heedful.stats.divergence import jsd
from heedful.stats.intervals import mean_of, two_way_interval, two_way_mean
from heedful.trials.batches import rows
from heedful.trials.tests.seeds import Seeds, seeds
from heedful.trials.training import copied, fresh

TEXTS = ["the cat sat on the mat", "not bad at all", "a dog ran to the low house"]
QUICK = TrainConfig(steps=5, batch=4, lr=1e-2, warmup=1, progress=False)


def test_one_seed_is_student_s_interval_over_texts() -> None:
    values = np.random.default_rng(0).normal(size=(1, 40))
    value, reach = two_way_mean(values)
    expected, other = mean_of(values[0])
    assert value == pytest.approx(expected)
    np.testing.assert_allclose(reach, other)


def test_seeds_that_differ_widen_the_interval() -> None:
    rng = np.random.default_rng(0)
    texts = rng.normal(size=(1, 2000)).repeat(3, 0)
    same = two_way_mean(texts)[1]
    other = two_way_mean(texts + np.array([[-1.0], [0.0], [1.0]]))[1]
    # three seeds that are 1 apart: t(2) = 4.30 times 1/sqrt(3)
    assert other[1] - other[0] == pytest.approx(2 * 4.303 / math.sqrt(3), rel=0.02)
    assert other[1] - other[0] > 10 * (same[1] - same[0])
    assert two_way_interval(0.5, (1.0, 3), (1.0, 10), (0.0, 1.0)) == (0.0, 1.0)


def test_no_spread_is_no_certainty() -> None:
    """All right, or all wrong: the exact interval over texts; any other number: its limits."""
    low, high = two_way_mean(np.ones((3, 10)), (0.0, 1.0))[1]
    assert (low, high) == (pytest.approx(0.025 ** (1 / 10)), 1.0)  # low^10 = 0.025
    low, high = two_way_mean(np.zeros((1, 10)), (0.0, 1.0))[1]
    assert (low, high) == (0.0, pytest.approx(1 - 0.025 ** (1 / 10)))
    assert two_way_interval(0.5, (0.0, 3), (0.0, 10), (0.0, 1.0)) == (0.0, 1.0)
    assert two_way_interval(0.0, (0.0, 3), (0.0, 10), (0.0, 0.7)) == (0.0, 0.7)
    assert two_way_interval(1.0, (0.0, 3), (0.0, 10)) == (1.0, 1.0)  # a difference, the same on every text


@pytest.mark.parametrize(("seed_spread", "text_spread"), [(1.0, 0.1), (0.1, 3.0), (0.5, 3.0)])
def test_intervals_hold_as_often_as_they_say(seed_spread: float, text_spread: float) -> None:
    """Seeds and texts drawn anew: the truth, 0, lies inside at least 93 of 100 times."""
    rng, hits, k, n = np.random.default_rng(1), 0, 4, 50
    for _ in range(2000):
        values = seed_spread * rng.normal(size=(k, 1)) + text_spread * rng.normal(size=(1, n))
        low, high = two_way_mean(values + 0.3 * rng.normal(size=(k, n)))[1]
        hits += low <= 0 <= high
    assert 0.93 <= hits / 2000 <= 0.99


def test_means_over_pairs_hold_as_often_as_they_say() -> None:
    """|z_i - z_j| has mean 2/sqrt(pi)."""
    rng, hits, k = np.random.default_rng(1), 0, 6
    blank = np.zeros((k, 5))
    told = Seeds(tuple(range(k)), (), blank, blank, blank, blank, blank, blank, np.zeros(5), np.zeros(5), 0.5)
    for _ in range(1000):
        z = rng.normal(size=k)
        among = np.abs(z[:, None] - z[None])[..., None].repeat(5, 2)
        low, high = told.between(among)[1]
        hits += low <= 2 / math.sqrt(math.pi) <= high
    assert 0.9 <= hits / 1000 <= 0.995


def test_distances_are_those_of_the_maps(small: Any) -> None:
    model = small(7)
    data = rows(model, TEXTS, [0, 1, 0])
    students = [fresh(model, 1), fresh(model, 2), fresh(model, 3)]
    found = seeds(model, data, data, (1, 2, 3), students=students)

    def alpha(own: Any, text: str) -> torch.Tensor:
        x = own.encode(text)
        return own.trace(x, own.target(x, 0)).attentions[0].mean(0)[0]

    for n, text in enumerate(TEXTS):
        maps = [alpha(own, text) for own in (model, *students)]
        uniform = torch.full_like(maps[0], 1 / len(maps[0]))
        assert found.largest[n] == pytest.approx(float(maps[0].max()), rel=1e-5)
        for i in range(3):
            assert found.own[i, n] == pytest.approx(float(jsd(maps[0], maps[i + 1])), rel=1e-3, abs=1e-7)
            assert found.from_uniform[i, n] == pytest.approx(
                float(jsd(uniform, maps[i + 1])), rel=1e-3, abs=1e-7
            )
            for j in range(3):
                expected = float(jsd(maps[i + 1], maps[j + 1]))
                assert found.among[i, j, n] == pytest.approx(expected, rel=1e-3, abs=1e-7)
        pairs = [found.among[0, 1, n], found.among[0, 2, n], found.among[1, 2, n]]
        assert found.medians()[n] == pytest.approx(np.median(pairs))
    own = [int(model.logits(model.encode(text)).argmax()) for text in TEXTS]
    np.testing.assert_array_equal(found.own_right, np.array(own) == [0, 1, 0])


def test_the_same_model_is_nowhere(small: Any) -> None:
    model = small(7)
    data = rows(model, TEXTS, [0, 1, 0])
    found = seeds(model, data, data, (1, 2), students=[copied(model), copied(model)])
    assert np.abs(found.among).max() < 1e-7
    assert np.abs(found.own_output).max() < 1e-7


def test_bins_hold_every_text_once(small: Any) -> None:
    blank = np.zeros((2, 5))
    among = np.zeros((2, 2, 5))
    among[0, 1] = among[1, 0] = [0.1, 0.2, 0.3, 0.4, 0.5]
    largest = np.array([0.0, 0.25, 0.3, 0.74, 1.0])
    told = Seeds((0, 1), (), blank, among, among, blank, blank, blank, largest, largest, 0.5)
    assert [row["texts"] for row in told.bins()] == [1, 2, 1, 1]
    assert told.bins()[1]["among"] == pytest.approx(0.25)


def test_trained_and_told(small: Any) -> None:
    model = small(0)
    data = rows(model, TEXTS, [0, 1, 0])
    steps: list[tuple[int, int]] = []
    found = seeds(model, data, data, (1, 2, 3), QUICK, progress=lambda a, b: steps.append((a, b)))
    assert steps == [(1, 3), (2, 3), (3, 3)]
    again = seeds(model, data, data, (1, 2, 3), QUICK)
    np.testing.assert_array_equal(found.among, again.among)
    lines = found.findings()
    assert {line.test for line in lines} == {"seeds"}
    assert lines[0].control == pytest.approx(2 / 3)
    assert all(line.interval[0] <= line.value <= line.interval[1] for line in lines)
    json.dumps(found.to_dict(), allow_nan=False)
