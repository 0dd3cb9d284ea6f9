"""The superposition lab: its measures on shapes drawn by hand, its integrals by sampling, planted bugs."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from heedful.labs import LabRun
from heedful.labs import superposition as lab
from heedful.labs.models import one_neuron


def circle(n: int) -> torch.Tensor:
    """n directions at equal angles, (1, n, 2), in no order."""
    angles = torch.tensor([2 * math.pi * k / n for k in range(n)])[torch.randperm(n)]
    return torch.stack([angles.cos(), angles.sin()], 1)[None]


@pytest.mark.parametrize(("n", "expected"), [(2, 0.5), (3, 2 / 3), (4, 0.5), (5, 0.4)])
def test_dimensionality_tells_the_regular_shapes(n: int, expected: float) -> None:
    shape = circle(n) if n != 2 else torch.tensor([[[1.0, 0.0], [-1.0, 0.0]]])
    assert lab.dimensionality(shape)[0].tolist() == pytest.approx([expected] * n, abs=1e-6)


def test_dimensionality_of_features_alone_and_not_kept() -> None:
    w = torch.tensor([[2.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    assert lab.dimensionality(w).tolist() == pytest.approx([1.0, 1.0, 0.0])


def test_unevenness_is_zero_for_regular_polygons_only() -> None:
    assert float(lab.unevenness(circle(5))) == pytest.approx(0.0, abs=1e-3)
    angles = torch.deg2rad(torch.tensor([0.0, 72.0, 144.0, 216.0, 308.0]))  # the last is 20 degrees off
    bent = torch.stack([angles.cos(), angles.sin()], 1)[None]
    assert float(lab.unevenness(bent)) == pytest.approx(20.0, abs=1e-3)


def test_opposite_is_minus_one_for_pairs() -> None:
    cross = torch.cat([torch.eye(3), -torch.eye(3)])[None]
    assert lab.opposite(cross)[0].tolist() == pytest.approx([-1.0] * 6)
    assert lab.opposite(torch.eye(3)[None])[0].tolist() == pytest.approx([0.0] * 3)


def test_a_toy_is_the_best_of_its_restarts(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of several restarts is a pentagon, the others keep two features; whichever stands where."""
    pentagon = circle(5)[0] * math.sqrt(0.8)
    poor = torch.zeros(5, 2)
    poor[0, 0] = poor[1, 1] = 1.0

    def planted(density: torch.Tensor, *_: Any) -> lab.Toys:
        w = poor.repeat(len(density), 1, 1)
        for toy in range(len(density) // lab.RESTARTS):
            w[toy * lab.RESTARTS + toy % lab.RESTARTS] = pentagon
        return lab.Toys(w, torch.full((len(density), 5), -0.1))

    monkeypatch.setattr(lab, "train", planted)
    found = lab.best_equal(5, 2, 0.05, 5, 1, 0)
    assert torch.equal(found, pentagon.expand(5, 5, 2))


def test_one_feature_off_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mean over toys would not notice: one of five toys has one pair that is bent."""
    cross = torch.cat([torch.eye(3), -torch.eye(3)]).repeat(5, 1, 1)
    bent = cross.clone()
    bent[2, 0] = torch.tensor([0.98, 0.2, 0.0])
    five = circle(5).expand(5, 5, 2)

    def held(six: torch.Tensor) -> list[bool]:
        monkeypatch.setattr(lab, "best_equal", lambda n, *_: six if n == 6 else five)
        return list(claims(lab.shapes).values())

    assert held(cross) == [True] * 4
    assert held(bent) == [True, False, True, True]


@pytest.mark.parametrize("r", [0.2, 0.6, 1.0])
@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_the_two_candidates_have_the_losses_of_the_formula(p: float, r: float) -> None:
    density, importance = torch.full((2,), p), torch.tensor([[1.0, r]] * 2)
    toys = lab.Toys(torch.tensor([[[1.0], [0.0]], [[1.0], [-1.0]]]), torch.tensor([[0.0, p / 2], [0.0, 0.0]]))
    one, both = lab.exact_loss(toys, density, importance).tolist()
    assert one == pytest.approx(r * (p / 3 - p * p / 4), rel=2e-3)  # the midpoint rule of 40 nodes
    assert both == pytest.approx((1 + r) * p * p / 6, rel=2e-3)


def test_the_losses_meet_at_the_density_the_lab_names() -> None:
    for r in (0.2, 0.5, 1.0):
        p = lab.shared_below(r)
        assert r * (p / 3 - p * p / 4) == pytest.approx((1 + r) * p * p / 6)


def test_the_exact_loss_is_what_sampling_finds() -> None:
    rng = torch.Generator().manual_seed(0)
    toys = lab.Toys(torch.tensor([[[0.9], [-0.7]]]), torch.tensor([[0.05, 0.1]]))
    p, importance = 0.4, torch.tensor([[1.0, 0.3]])
    x = torch.rand(1, 400_000, 2, generator=rng) * (torch.rand(1, 400_000, 2, generator=rng) < p)
    missed = (x - lab.output(x, toys.directions, toys.bias[:, None])).square() @ importance[0]
    error = float(missed.std()) / math.sqrt(missed.numel())
    exact = float(lab.exact_loss(toys, torch.tensor([p]), importance))
    assert abs(float(missed.mean()) - exact) < 4 * error + 1e-4


def test_one_neuron_by_hand() -> None:
    assert one_neuron.loss_of((1, 0, 0, 0), math.log) == pytest.approx(0.75 * math.log(3))  # 0.824
    assert one_neuron.loss_of((1, 0, 1, 0), math.log) == pytest.approx(math.log(2))  # 0.693
    assert one_neuron.loss_of((0, 0, 0, 0), math.log) == pytest.approx(math.log(4))


@pytest.mark.parametrize("wiring", [(1, 0, 0, 0), (1, 1, 0, 0), (1, 1, 1, 0)])
def test_the_counted_losses_are_what_training_comes_to(wiring: tuple[int, ...]) -> None:
    """A read-out of the neuron's state, logits free: four rows, one for each feature."""
    state, feature = torch.tensor(wiring), torch.arange(4)
    logits = torch.zeros(2, 4, requires_grad=True)
    wanted = torch.nn.functional.one_hot(feature)
    losses = {
        math.log: lambda: torch.nn.functional.cross_entropy(logits[state], feature),
        half: lambda: (logits.softmax(1)[state] - wanted).square().sum(1).mean(),
    }
    for doubt, loss in losses.items():
        for _ in range(300):
            (slope,) = torch.autograd.grad(loss(), logits)
            with torch.no_grad():
                logits -= 3 * slope
        assert loss().item() == pytest.approx(one_neuron.loss_of(wiring, doubt), abs=0.01)


def half(size: int) -> float:
    return 1 - 1 / size


def claims(part: Any, seed: int = 0) -> dict[str, bool]:
    run = LabRun(fast=True, seed=seed)
    part(run)
    return {each.sentence: each.holds for each in run.parts if hasattr(each, "holds")}


def test_without_the_relu_there_is_no_superposition(monkeypatch: pytest.MonkeyPatch) -> None:
    """A linear toy is PCA: no pairs, no pentagon."""
    assert all(claims(lab.shapes).values())
    monkeypatch.setattr(lab, "output", lambda x, w, b: x @ w @ w.mT + b)
    assert not any(claims(lab.shapes).values())


def test_a_forgotten_importance_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    real = lab.train
    flat = lambda d, importance, *rest, **more: real(d, torch.ones_like(importance), *rest, **more)  # noqa: E731
    monkeypatch.setattr(lab, "train", flat)
    held = claims(lab.by_density)
    assert not next(holds for sentence, holds in held.items() if sentence.startswith("Dense"))


def test_a_wrong_boundary_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab, "shared_below", lambda r: 2.2 * r / (2 + 5 * r))
    assert not any(claims(lab.two_in_one).values())


def test_a_wrong_loss_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    real = one_neuron.loss_of
    assert all(claims(lab.one_neuron).values())
    monkeypatch.setattr(one_neuron, "loss_of", lambda w, doubt: real(w, doubt) / math.log(2))  # bits
    held = list(claims(lab.one_neuron).values())
    assert held == [False, False, True, True]  # only the published numbers notice the unit
    monkeypatch.setattr(one_neuron, "loss_of", lambda w, doubt: real(w, doubt) / (1 + sum(w)))
    assert not any(claims(lab.one_neuron).values())
