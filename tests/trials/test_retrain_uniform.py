"""Training with uniform attention: no loss where none is needed, chance where it is needed."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import f1_score

from heedful.nn.train import TrainConfig
from heedful.trials.batches import rows
from heedful.trials.tests.retrain_uniform import Judged, frozen

FILLER = ["the", "sat", "on", "mat", "ran", "to", "low", "not", "bad", "all"]
BUDGET = TrainConfig(steps=150, batch=32, lr=1e-2, warmup=5, weight_decay=0.01, progress=False)


def texts(n: int, seed: int, kind: str) -> tuple[list[str], list[int]]:
    """present: a cat or a dog decides; first: both are there, and the first word decides."""
    rng = np.random.default_rng(seed)
    labels = [int(label) for label in rng.integers(0, 2, n)]
    found = []
    for label in labels:
        own, other = ("dog", "cat")[label], ("cat", "dog")[label]
        rest = list(rng.choice(FILLER, 4))
        rest.insert(int(rng.integers(0, 5)), other if kind == "first" else "sat")
        found.append(" ".join([own, *rest]))
    return found, labels


@pytest.mark.parametrize("kind", ["present", "first"])
def test_uniform_attention_fails_only_where_attention_is_needed(kind: str, small: Any) -> None:
    """Mixed alike, a bag of the same words has the same value, whichever came first."""
    model = small()
    train, test = rows(model, *texts(300, 0, kind)), rows(model, *texts(100, 1, kind))
    found = frozen(model, train, test, (0, 1), BUDGET)
    free, uniform = found.free.value("accuracy"), found.uniform.value("accuracy")
    gap, reach = found.free.over(found.uniform, "accuracy")
    assert free[0] > 0.95
    assert gap == pytest.approx(free[0] - uniform[0])
    if kind == "first":
        assert abs(uniform[0] - 0.5) < 0.15
        assert reach[0] > 0.2
    else:
        assert uniform[0] > 0.95
        assert reach[0] < 0.05
    assert 0.35 < found.majority.value("accuracy")[0] < 0.65
    lines = {line.what: line for line in found.findings()}
    assert lines["accuracy, trained freely"].control == found.majority.value("accuracy")[0]
    assert lines["accuracy, lost without attention"].value == pytest.approx(gap)
    json.dumps(found.to_dict())


def test_scores_are_scikit_learn_s() -> None:
    rng = np.random.default_rng(0)
    truth, said = rng.integers(0, 3, 50), rng.integers(0, 3, (2, 50))
    judged = Judged(said, truth, 4)  # a class nobody has
    expected = [f1_score(truth, own, average="macro") for own in said]
    np.testing.assert_allclose(judged.scores("macro-F1"), expected)
    np.testing.assert_allclose(judged.scores("accuracy"), (said == truth).mean(1))


def test_intervals_hold_as_often_as_they_say() -> None:
    """Models that are right at rates drawn around 0.8, texts that are hard for all alike."""
    rng, hits = np.random.default_rng(0), 0
    for _ in range(200):
        truth = rng.integers(0, 2, 80)
        rate = np.clip(0.8 + 0.03 * rng.normal(size=(4, 1)), 0, 1)
        luck = rng.random(80)
        right = np.where(rng.random((4, 80)) < 0.5, luck < rate, rng.random((4, 80)) < rate)
        low, high = Judged(np.where(right, truth, 1 - truth), truth, 2).value("accuracy")[1]
        hits += low <= 0.8 <= high
    assert hits >= 180


def test_differences_are_paired() -> None:
    """Two models that err on the same texts differ by nothing, with no doubt about it."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 100)
    said = np.where(rng.random((2, 100)) < 0.7, truth, 1 - truth)
    judged = Judged(said, truth, 2)
    assert judged.over(judged, "accuracy") == (0.0, (0.0, 0.0))
    low, high = judged.value("accuracy")[1]
    assert high - low > 0.05
