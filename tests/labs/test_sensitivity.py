"""Sensitivity: the lab's quadrature against the known integral, and a bug that its claims must catch."""

from __future__ import annotations

import pytest
import torch

from heedful.core.lab_report import Claim
from heedful.labs import sensitivity as lab
from heedful.labs.base.registry import LabRun


def test_integrated_gradients_of_the_unit() -> None:
    """The path from 0 to x crosses the bend at 1: the integral is min(x, 1)."""
    f, zero = lab.unit(torch.ones(1, dtype=torch.float64)), torch.zeros(1, dtype=torch.float64)
    for x in (0.3, 0.9, 1.7, 5.0):
        found = lab.integrated(f, torch.tensor([x], dtype=torch.float64), zero)
        assert found[0] == pytest.approx(min(x, 1.0), abs=1e-5)


def test_the_slope_is_autograds() -> None:
    f = lab.unit(torch.tensor([0.5, 0.25], dtype=torch.float64))
    values, grads = lab.slope(f, torch.tensor([[1.0, 1.0], [4.0, 1.0]], dtype=torch.float64))
    assert values.tolist() == [0.75, 1.0]
    assert grads.tolist() == [[0.5, 0.25], [0.0, 0.0]]


def failed(run: LabRun) -> list[str]:
    return [part.sentence for part in run.parts if isinstance(part, Claim) and not part.holds]


def test_a_gradient_in_place_of_the_integral_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab, "integrated", lambda f, x, base: (lab.slope(f, x[None])[1][0] * x).numpy())
    run = LabRun(fast=True)
    lab.drawn_units(run, 20)
    assert len(failed(run)) == 2


def test_a_method_that_sees_nothing_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab, "sensitivity_case", lambda name: 0.0)
    run = LabRun(fast=True)
    lab.the_case(run)
    assert [sentence[:10] for sentence in failed(run)] == ["Integrated"]
