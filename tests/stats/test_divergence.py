"""Divergences against scipy, each other, and their limits."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.spatial.distance import jensenshannon
from scipy.stats import entropy

from heedful.stats.divergence import LN2, jsd, kl, largest_jsd, tvd

RNG = np.random.default_rng(0)
P, Q = RNG.dirichlet(np.ones(5), 7), RNG.dirichlet(np.full(5, 0.3), 7)


def test_against_scipy() -> None:
    np.testing.assert_allclose(jsd(P, Q), jensenshannon(P, Q, axis=1) ** 2, rtol=1e-10)
    np.testing.assert_allclose(kl(P, Q), entropy(P, Q, axis=1), rtol=1e-10)
    np.testing.assert_allclose(tvd(P, Q), np.maximum(P - Q, 0).sum(1), rtol=1e-10)


@pytest.mark.parametrize("measure", [jsd, kl, tvd])
def test_torch_and_numpy_agree(measure: object) -> None:
    found = measure(torch.from_numpy(P), torch.from_numpy(Q))  # type: ignore[operator]
    np.testing.assert_allclose(found.numpy(), measure(P, Q), rtol=1e-12)  # type: ignore[operator]


def test_zeros_are_no_trouble_and_disjoint_is_the_most() -> None:
    a, b = torch.tensor([0.5, 0.5, 0.0, 0.0]), torch.tensor([0.0, 0.0, 1.0, 0.0])
    assert float(jsd(a, b)) == pytest.approx(LN2)
    assert float(tvd(a, b)) == 1
    leaf = b.clone().requires_grad_()
    (grad,) = torch.autograd.grad(jsd(leaf, a), leaf)
    assert bool(grad.isfinite().all())
    assert float(kl(a, b)) == np.inf
    assert float(jsd(a, a)) == 0


def test_gradient_of_jsd_is_the_finite_difference() -> None:
    p, q = torch.from_numpy(P[0]), torch.from_numpy(Q[0]).requires_grad_()
    (grad,) = torch.autograd.grad(jsd(p, q), q)
    for i in range(5):
        step = torch.zeros(5, dtype=torch.float64)
        step[i] = 1e-6
        with torch.no_grad():
            slope = (jsd(p, q + step) - jsd(p, q - step)) / 2e-6
        assert float(grad[i]) == pytest.approx(float(slope), rel=1e-5)


def test_no_distribution_is_farther_than_the_corner() -> None:
    """The bound is what the corner has, and nothing drawn exceeds it."""
    for p in P:
        corner = np.eye(5)[p.argmin()]
        bound = float(largest_jsd(p.min()[None])[0])
        assert bound == pytest.approx(float(jsd(p, corner)), rel=1e-12)
        assert float(largest_jsd(torch.tensor([p.min()]))[0]) == pytest.approx(bound, rel=1e-12)
        drawn = RNG.dirichlet(np.full(5, 0.1), 2000)
        assert jsd(np.broadcast_to(p, drawn.shape), drawn).max() <= bound + 1e-12
    assert float(largest_jsd(np.zeros(1))[0]) == pytest.approx(LN2)
    assert float(largest_jsd(torch.zeros(1))[0]) == pytest.approx(LN2)
