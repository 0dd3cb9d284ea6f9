"""Steps that keep a linearised answer: the bound holds, and nothing that keeps it is better."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import optimize, special

from heedful.trials.adversary_steps import Linear


def drawn(seed: int, axes: int) -> tuple[Linear, torch.Tensor, torch.Tensor]:
    """Two rows of four words, one word of the first row not free: (the layer, shares (1, 1, 2, 4), y)."""
    rng = np.random.default_rng(seed)
    free = np.array([[True, True, True, False], [True] * 4])
    own, p = (rng.dirichlet(np.ones(4), 2) * free for _ in range(2))
    own, p = (torch.from_numpy(some / some.sum(-1, keepdims=True)) for some in (own, p))
    jacobian = torch.from_numpy(rng.normal(size=(1, axes, 2, 4)) * free)
    price = torch.tensor([0.3, 0.7], dtype=torch.float64)
    y = torch.from_numpy(0.1 * rng.normal(size=(1, 1, axes)))
    return Linear(own, torch.from_numpy(free), price, jacobian), p[None, None], y


@pytest.mark.parametrize("seed", range(2100, 2106))
@pytest.mark.parametrize(("axes", "eta", "slack"), [(1, 0.5, 0.01), (2, 3.0, 0.05), (2, 0.5, 0.2)])
def test_against_a_general_optimiser(seed: int, axes: int, eta: float, slack: float) -> None:
    linear, p, y = drawn(seed, axes)
    g = linear.upwards(p)
    found = linear.step(p, y, g, torch.tensor([eta]).double(), torch.tensor([slack]).double())[0, 0].numpy()
    j, start, up = (some.numpy() for some in (linear.jacobian[0], p[0, 0], g[0, 0]))
    free = linear.free.numpy()

    def shares(logs: np.ndarray) -> np.ndarray:
        full = np.full(free.shape, -np.inf)
        full[free] = logs
        return special.softmax(full, -1)

    def gain(some: np.ndarray) -> float:
        each = (up * some).sum(-1) - special.rel_entr(some, start).sum(-1) / eta
        return float((linear.price.numpy() * each).sum())

    def left(some: np.ndarray) -> float:
        return slack**2 - float(((y[0, 0].numpy() + np.einsum("mxt,xt->m", j, some - start)) ** 2).sum())

    np.testing.assert_allclose(found.sum(-1), 1, rtol=1e-12)
    assert (found[~free] == 0).all()
    assert left(found) >= -1e-6 * slack**2
    theirs = optimize.minimize(
        lambda logs: -gain(shares(logs)),
        np.log(found[free]) + 0.3 * np.random.default_rng(seed).normal(size=free.sum()),
        constraints={"type": "ineq", "fun": lambda logs: left(shares(logs))},
        method="SLSQP",
        options={"ftol": 1e-13, "maxiter": 500},
    )
    assert theirs.success
    assert gain(found) >= -theirs.fun - 1e-6


def test_without_a_bound_in_the_way_it_is_the_exponential_step() -> None:
    linear, p, y = drawn(2200, 1)
    g = linear.upwards(p)
    found = linear.step(p, y, g, torch.tensor([0.5]).double(), torch.tensor([10.0]).double())
    expected = p * (0.5 * g).exp()
    torch.testing.assert_close(found, expected / expected.sum(-1, keepdim=True), rtol=1e-6, atol=1e-9)


def test_upwards_is_the_gradient_of_the_jsd() -> None:
    from heedful.stats.divergence import jsd

    linear, p, _ = drawn(2300, 1)
    shares = p[0, 0].clone().requires_grad_()
    (grad,) = torch.autograd.grad(jsd(shares, linear.own).sum(), shares)
    # up to a constant per row, which shares that sum to one do not see
    gap = (grad - linear.upwards(p)[0, 0])[linear.free]
    assert float(gap[:3].std() + gap[3:].std()) < 1e-9
