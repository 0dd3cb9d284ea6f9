"""The two labs of the debate: claims hold on numbers made to fit, and fail on numbers made not to."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from heedful.core.cost import Cost
from heedful.core.lab_report import Claim
from heedful.labs import not_explanation as first
from heedful.labs import not_not_explanation as second
from heedful.labs.base.registry import LabRun
from heedful.labs.data.reviews import reviews
from heedful.labs.models.attention_setup import stage
from heedful.nn.train import TrainConfig
from heedful.trials import training
from heedful.trials.adversary_search import Search
from heedful.trials.examples import Cases
from heedful.trials.tests.adversary import COLUMNS, Adversary
from heedful.trials.tests.guided_classifier import Guided, TokenWise, train_guided
from heedful.trials.tests.permutation import Permutation
from heedful.trials.tests.retrain_uniform import Judged, UniformRetraining
from heedful.trials.tests.seeds import Seeds
from heedful.trials.tests.trained_adversary import LambdaPoint, TrainedAdversary

RNG = np.random.default_rng(0)
N = 30


def held(run: LabRun) -> list[bool]:
    return [part.holds for part in run.parts if isinstance(part, Claim)]


def around(*means: float, spread: float = 0.1) -> Any:
    """(2 seeds, N texts, one a mean)"""
    return np.stack([RNG.normal(mean, spread, (2, N)) for mean in means], -1)


# --- the stage ---------------------------------------------------------------------------------------------


def test_the_stage_draws_by_its_seed_and_keeps_the_vectors() -> None:
    here, again, other = stage(0, 40, 20, 3), stage(0, 40, 20, 3), stage(1, 40, 20, 3)
    assert here.shown == again.shown != other.shown
    assert set(here.shown) <= set(reviews("held"))
    assert torch.equal(here.train.ids, again.train.ids)
    assert here.test.labels.tolist() == [each.label for each in here.shown]
    model = here.model("lstm", 0)
    assert torch.equal(model.module.token.weight, here.vectors)
    assert not torch.equal(model.module.out.weight, here.model("lstm", 1).module.out.weight)
    loss = model.module.attend(here.train.ids[:2], here.train.mask[:2]).logits.sum()
    loss.backward()
    assert model.module.token.weight.grad is None
    assert model.module.keys.weight.grad is not None


# --- not-explanation ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lstm", "average", "expected"),
    [
        ((0.3, 0.3, 0.7, 0.6), (0.7, 0.6, 0.7), [True, True]),
        ((0.3, 0.8, 0.7, 0.6), (0.7, 0.6, 0.7), [False, True]),  # attention is a ranking like the others
        ((0.3, 0.3, 0.7, 0.2), (0.7, 0.6, 0.7), [False, True]),  # leave-one-out is noise
        ((0.7, 0.3, 0.7, 0.6), (0.3, 0.6, 0.7), [True, False]),
    ],
)
def test_claims_of_correlation(lstm: Any, average: Any, expected: list[bool]) -> None:
    run = LabRun()
    first.claim_correlation(run, {"lstm": around(*lstm), "average": around(*average)})
    assert held(run) == expected


def test_sentences_without_a_number_leave_all_models() -> None:
    some, other = around(0.1, 0.2, 0.3), around(0.1, 0.2, 0.3)
    some[0, 3, 1] = other[1, 5, 0] = np.nan
    found = first.whole({"a": some, "b": other})
    assert found["a"].shape == found["b"].shape == (2, N - 2, 3)
    np.testing.assert_array_equal(found["a"], np.delete(some, [3, 5], 1))


def test_leave_one_out_of_the_next_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    """By scipy, special tokens left out; the last seed is held against the first."""
    lost = [[np.append(RNG.normal(size=5), np.nan) for _ in range(3)] for _ in range(3)]
    given = [Cases(None, (), float(i)) for i in range(3)]
    monkeypatch.setattr(first, "leave_one_out", lambda cases: lost[int(cases.scale)])
    expected = [
        [stats.kendalltau(a[:5], b[:5]).statistic for a, b in zip(lost[i], lost[(i + 1) % 3], strict=True)]
        for i in range(3)
    ]
    np.testing.assert_allclose(first.again(given), expected)


def moved(change: float, deleted: float) -> Permutation:
    draw = RNG.normal(0, 0.01, (3, N, 1))
    after, largest, less = change + draw[0], 0.3 + draw[1], deleted + draw[2, :, 0]
    return Permutation(("layer 0",), largest, after, after, less, 100, Cost())


@pytest.mark.parametrize(
    ("lstm", "average", "expected"),
    [(0.03, 0.2, [True, True]), (0.03, 0.01, [False, False]), (0.3, 0.2, [True, False])],
)
def test_claims_of_permutation(
    monkeypatch: pytest.MonkeyPatch, lstm: float, average: float, expected: list[bool]
) -> None:
    monkeypatch.setattr(first, "permutation", lambda cases, **_: moved(cases.scale, 0.05))
    run, changes = LabRun(), {"lstm": lstm, "average": average, "one-layer": 0.2}
    first.tell_permutation(run, {name: [Cases(None, (), change)] for name, change in changes.items()})
    assert held(run) == expected


@pytest.mark.parametrize(
    ("distance", "change", "expected"), [(0.5, 0.009, True), (0.1, 0.009, False), (0.5, 0.02, False)]
)
def test_claims_of_the_adversary(
    monkeypatch: pytest.MonkeyPatch, distance: float, change: float, expected: bool
) -> None:
    columns = dict.fromkeys(COLUMNS, np.full((N, 1), 0.2))
    columns |= {"distance": distance + RNG.normal(0, 0.01, (N, 1)), "largest": np.full((N, 1), 0.6)}
    columns |= {"change": np.full((N, 1), change)}
    monkeypatch.setattr(
        first, "adversary", lambda *_, **__: Adversary(**columns, search=Search(), cost=Cost())
    )
    run = LabRun()
    first.tell_adversary(run, {"lstm": Cases(None, ())}, 3, Search())
    assert held(run) == [expected]


# --- not-not-explanation -----------------------------------------------------------------------------------

TRUTH = np.arange(400) % 2


def judged(accuracy: float, seeds: int = 4) -> Judged:
    said = np.where(RNG.random((seeds, len(TRUTH))) < accuracy, TRUTH, 1 - TRUTH)
    return Judged(said, TRUTH, 2)


@pytest.mark.parametrize(("flat", "expected"), [(0.8, True), (0.6, False)])
def test_claims_of_uniform_attention(flat: float, expected: bool) -> None:
    free, uniform, most = judged(0.8), judged(flat), Judged(np.zeros((1, 400), int), TRUTH, 2)
    run = LabRun()
    second.tell_uniform(run, UniformRetraining((0, 1, 2, 3), (), free, uniform, most, free, uniform), 0.06)
    assert held(run) == [expected]


def point(weight: float, output: float, far: float, right: Any) -> LambdaPoint:
    answers, attention = (np.abs(RNG.normal(mean, 0.01, (1, 400))) for mean in (output, far))
    return LambdaPoint(weight, answers, attention, right[None], ())


@pytest.mark.parametrize(
    ("far", "right", "cost", "expected"),
    [
        (0.5, 0.8, 0.05, [True, True, True]),
        (0.05, 0.8, 0.05, [True, False, True]),  # no farther than a seed
        (0.5, 0.5, 0.05, [True, True, False]),  # answers are wrong
        (0.5, 0.8, 0.01, [False, True, True]),  # it costs nothing
        (0.5, 0.8, 0.2, [True, False, True]),  # answers are not kept
    ],
)
def test_claims_of_the_trained_adversary(far: float, right: float, cost: float, expected: list[bool]) -> None:
    own = (np.arange(400) % 5 > 0).astype(float)  # right in eight tenths
    kept = np.where(RNG.random(400) < right / 0.8, own, 0.0)
    none, most = point(0.0, 0.02, 0.02, own), point(0.1, cost, far, kept)
    pair, flat = np.zeros((2, 2, 400)), np.zeros((2, 400))
    pair[0, 1] = pair[1, 0] = RNG.normal(0.1, 0.05, 400)
    apart = Seeds((0, 1), (), flat, pair, pair, flat, flat, flat, own, own, 0.5)
    run, moved = LabRun(), TrainedAdversary((none, most), "fresh", (0,), own, 0.1, 0.1)
    assert second.chosen(moved, 0.1) is most
    second.claim_adversary(run, apart, moved, most, replace(second.FAST, kept=0.1))
    assert held(run) == expected


def test_the_farthest_that_keeps_its_answers_is_chosen() -> None:
    own = np.ones(400)
    some = tuple(point(*each, own) for each in ((0.0, 0.0, 0.0), (0.01, 0.03, 0.3), (0.03, 0.04, 0.5)))
    wild = point(0.1, 0.3, 0.6, own)
    moved = TrainedAdversary((*some, wild), "fresh", (0,), own, 0.1, 0.1)
    assert second.chosen(moved, 0.05) is some[2]
    assert second.chosen(moved, 0.001) is some[1], "none kept them: the one that moved them least"


def test_zoo_one_layer_that_does_not_need_its_attention_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    here = stage(0, 20, 400, 3)
    run = LabRun(fast=True)
    second.tell_one_layer(run, here, second.FAST)
    assert held(run) == [True]
    real, run = training.answers, LabRun(fast=True)
    monkeypatch.setattr(second, "answers", lambda model, data, flat=False: real(model, data))
    second.tell_one_layer(run, here, second.FAST)
    assert held(run) == [False]


@pytest.mark.parametrize(
    ("far", "right", "expected"), [(0.4, 1.0, True), (0.1, 1.0, False), (0.4, 0.9, False)]
)
def test_claims_of_adversaries_of_zoo_one_layer(far: float, right: float, expected: bool) -> None:
    own, kept = np.ones(400), (RNG.random(400) < right).astype(float)
    moved = TrainedAdversary((point(0.03, 0.04, far, kept),), "copy", (0,), own, 0.1, 0.1)
    run = LabRun()
    second.claim_one_layer(run, moved, 0.03)
    assert held(run) == [expected]


def test_claims_of_guides() -> None:
    good = {
        "uniform": 0.6,
        "trained": 0.75,
        "model": 0.85,
        "shuffled": 0.6,
        second.BASE: 0.8,
        second.ADVERSARY: 0.5,
    }

    def told(**other: float) -> list[bool]:
        run = LabRun()
        made = {name: judged(accuracy) for name, accuracy in (good | other).items()}
        second.claim_guides(run, Guided((0, 1, 2, 3), made, 0.5))
        return held(run)

    assert told() == [True] * 4
    assert told(model=0.6) == [False, False, True, True]
    assert told(trained=0.6) == [True, True, False, True]
    assert told(**{second.BASE: 0.6}) == [True, True, True, False]


def test_a_guided_network_keeps_the_vectors_it_is_given() -> None:
    vectors = torch.randn(30, 7, generator=torch.Generator().manual_seed(0))
    network = TokenWise(30, 2, 0, vectors)
    h = (vectors[torch.tensor([3, 4])] @ network.affine.weight.T + network.affine.bias).tanh()
    expected = network.out.weight @ h.mean(0) + network.out.bias
    found = network(torch.tensor([[3, 4]]), torch.ones(1, 2), torch.full((1, 2), 0.5))[0]
    torch.testing.assert_close(found, expected)
    assert not network.token.weight.requires_grad
    here = stage(0, 60, 40, 3)
    config = TrainConfig(steps=3, batch=8, progress=False)
    before = here.vectors.clone()
    assert len(train_guided(here.one, here.train, here.test, None, 0, config, here.vectors)) == 40
    assert torch.equal(here.vectors, before)
