"""heedful.checks.check_metric: every registered metric passes, and each way to be wrong is caught."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import heedful
from heedful.checks import check_metric, linear_model
from heedful.checks import metrics as m
from heedful.core import registry
from heedful.core.registry import Metric

EXPENSIVE = "implementation-invariance"  # builds a hundred networks; its own tests are quick


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow) if name == EXPENSIVE else name
        for name in registry.metrics()
    ],
)
def test_every_metric(name: str) -> None:
    check_metric(name)


Run = Callable[[Any, np.random.Generator], float]


def off(subject: Any) -> float:
    """Distance from the truth: an honest metric of explanations of a sum."""
    true = m.truth(subject.model, subject.item.x, subject.item.target).scores
    scores = subject.item.scores
    norms = np.linalg.norm(scores) * np.linalg.norm(true)
    return float(1 - scores @ true / norms) if norms else float("nan")


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    registry.metrics()

    def add(run: Run, better: str = "low", best: float = 0.0, needs: tuple[str, ...] = ()) -> str:
        entry = Metric("mine", run, "again", better, "us", "", best, frozenset(needs))
        monkeypatch.setitem(registry._metrics, "mine", entry)
        return "mine"

    return add


def test_an_honest_metric_passes(registered: Any) -> None:
    check_metric(registered(lambda subject, rng: off(subject)))


def test_one_that_differs_from_itself(registered: Any) -> None:
    count = itertools.count()
    with pytest.raises(AssertionError, match="differs from itself under one seed"):
        check_metric(registered(lambda subject, rng: off(subject) + next(count)))


def test_one_that_leaves_traces(registered: Any) -> None:
    def marks(subject: Any, rng: np.random.Generator) -> float:
        subject.model.module.seen = True
        return off(subject)

    with pytest.raises(AssertionError, match="left traces in the model: attributes"):
        check_metric(registered(marks))


def test_one_that_divides_by_nothing(registered: Any) -> None:
    def careless(subject: Any, rng: np.random.Generator) -> float:
        found = off(subject)
        return float("inf") if np.isnan(found) else found

    with pytest.raises(AssertionError, match="is infinite for zero"):
        check_metric(registered(careless))


@pytest.mark.parametrize(("better", "best"), [("low", 0.5), ("high", 0.9)])
def test_one_that_is_beaten(better: str, best: float, registered: Any) -> None:
    sign = 1.0 if better == "low" else -1.0
    shift = 0.0 if better == "low" else 1.0
    with pytest.raises(AssertionError, match=f"beyond its best of {best:g}"):
        check_metric(registered(lambda subject, rng: shift + sign * off(subject), better, best))


def test_one_that_minds_the_size(registered: Any) -> None:
    name = registered(
        lambda subject, rng: float(np.square(subject.scores - np.array(TRUE[len(subject.scores)])).sum())
    )
    with pytest.raises(AssertionError, match="minds the size of scores: 0 and"):
        check_metric(name)
    check_metric(name, sized=True)


TRUE = {10: [0, 2, -1, 0.5, 0, 3, 0, -1, 0.5, 3.0], 1: [2.0]}


def test_one_that_is_blind(registered: Any) -> None:
    with pytest.raises(AssertionError, match=r"no better than the truth with noise: -?0$"):
        check_metric(registered(lambda subject, rng: 1.0))


def test_one_that_prefers_chance(registered: Any) -> None:
    """Only ever the first word, which weighs nothing: the truth beats noise, but a large word beats it."""

    def odd(subject: Any, rng: np.random.Generator) -> float:
        return 0.5 if subject.item.method == "random" else 1.0 + off(subject)

    with pytest.raises(AssertionError, match=r"finds random scores better than the truth, by 0\.5"):
        check_metric(registered(odd))


def test_one_that_says_nothing(registered: Any) -> None:
    with pytest.raises(AssertionError, match="says nothing about the truth"):
        check_metric(registered(lambda subject, rng: float("nan")))
    with pytest.raises(AssertionError, match="says nothing about the truth"):
        check_metric(registered(lambda subject, rng: off(subject), needs=("generate",)))


def test_what_is_stuck_is_spoilt_for_those_who_look(registered: Any) -> None:
    """A metric that explains an all-zero model: the truth goes to zero there, what is stuck does not."""
    import torch

    from heedful.models.model_copies import copied

    def moves(subject: Any, rng: np.random.Generator) -> float:
        copy = copied(subject.model)
        with torch.no_grad():
            copy.module.table.weight.zero_()
        left = subject.again(copy.model(), subject.item.x, subject.item.target, 0).scores
        size = np.linalg.norm(subject.item.scores)
        return float(np.linalg.norm(left) / size) if size else float("nan")

    check_metric(registered(moves), spoil="stuck")
    with pytest.raises(AssertionError, match="the truth with silent"):
        check_metric(registered(moves), spoil="silent")


def test_an_unknown_spoil_is_told() -> None:
    with pytest.raises(heedful.HeedfulError, match="cannot be spoilt by 'rain'"):
        check_metric("aopc", spoil="rain")


def test_the_truth_is_the_weights() -> None:
    bench = m.bench_of(registry.get_metric("aopc"), [linear_model()])
    found = m.truth(bench.model, bench.x, bench.target)
    assert found.scores.tolist() == pytest.approx(TRUE[10])
    assert found.base == pytest.approx(0)
    assert found.output == pytest.approx(7.0)
