"""Every loss against its formula written out densely, and its gradients by finite differences, in float64."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from heedful.features.sae import architectures
from heedful.features.sae.architectures import batchtopk, jumprelu, relu_tied
from heedful.features.sae.architectures.topk import revival
from heedful.features.sae.base import (
    Params,
    SingleWorker,
    TrainingState,
    geometric_median,
    renormalise_,
    tangent_,
)
from heedful.features.sae.settings import KINDS, TrainSettings, resolve_settings

D, WIDTH, ROWS = 6, 24, 10
TIED = ("relu-tied", "topk", "batchtopk", "matryoshka")


def _settings(kind: str, **wanted: Any) -> TrainSettings:
    given = {"k": 3, "batch": ROWS, "sparsity_rise": 0.0, "bandwidth": 1e-7, **wanted}
    return resolve_settings(kind, D, WIDTH, 100, **given)


def _params(kind: str, seed: int = 0) -> Params:
    draw = torch.Generator().manual_seed(seed)
    made = architectures.get(kind).start(_settings(kind), torch.randn(50, D, generator=draw))
    shaken = {n: p.double() + 0.1 * torch.randn(p.shape, generator=draw).double() for n, p in made.items()}
    if "log_threshold" in shaken:
        shaken["log_threshold"] = torch.linspace(-2.0, 0.0, WIDTH, dtype=torch.float64)
    return shaken


def _x(rows: int = ROWS, seed: int = 1) -> Tensor:
    return torch.randn(rows, D, generator=torch.Generator().manual_seed(seed)).double() + 0.3


def _loss(kind: str, params: Params, x: Tensor, memory: TrainingState | None = None, **wanted: Any) -> Any:
    settings = _settings(kind, **wanted)
    return architectures.get(kind).loss(params, x, settings, 50, memory or TrainingState.new(settings))


def _by_formula(kind: str, p: Params, x: Tensor) -> Tensor:
    """The losses as the papers write them, one row at a time."""
    centred = x - p["b_dec"] if kind in TIED else x
    z = centred @ p["enc"].T + p["b_enc"]
    if kind == "topk":
        f = torch.stack([row * (row >= row.sort().values[-3]) for row in z]).relu()
    elif kind in ("batchtopk", "matryoshka"):
        f = z * (z >= z.flatten().sort().values[-3 * len(x)])
    elif kind == "jumprelu":
        f = z * (z > p["log_threshold"].exp())
    else:
        f = z.relu()
    error = (x - f @ p["dec"] - p["b_dec"]).square().sum(1).mean()
    lengths = p["dec"].square().sum(1).sqrt()
    if kind == "matryoshka":
        upto = [(x - f[:, :m] @ p["dec"][:m] - p["b_dec"]).square().mean() for m in (1, 3, 6, 12, 24)]
        return torch.stack(upto).mean()
    return {
        "relu": lambda: error + 5 * (f * lengths).sum(1).mean(),
        "relu-tied": lambda: error + 5 * f.sum(1).mean(),
        "jumprelu": lambda: error / D + 1e-3 * (f > 0).double().sum(1).mean(),
    }.get(kind, lambda: error / D)()


@pytest.mark.parametrize("kind", KINDS)
def test_the_loss_is_its_formula(kind: str):
    params, x = _params(kind), _x()
    assert _loss(kind, params, x).total.item() == pytest.approx(
        _by_formula(kind, params, x).item(), rel=1e-12
    )


@pytest.mark.parametrize("kind", KINDS)
def test_the_parts_add_up(kind: str):
    found = _loss(kind, _params(kind), _x())
    assert sum(part.item() for part in found.parts.values()) == pytest.approx(found.total.item(), rel=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_by_finite_differences(kind: str):
    params, x = _params(kind), _x()
    names = [name for name in params if name != "log_threshold"]  # that one's gradient is an estimate: below
    leaves = {name: value.requires_grad_(True) for name, value in params.items()}
    grads = torch.autograd.grad(_loss(kind, leaves, x).total, [leaves[n] for n in names])
    for name, grad in zip(names, grads, strict=True):
        direction = torch.randn(grad.shape, generator=torch.Generator().manual_seed(3)).double()
        up, down = (
            _loss(kind, {**params, name: params[name].detach() + sign * 1e-6 * direction}, x).total.item()
            for sign in (1, -1)
        )
        slope = (grad * direction).sum().item()
        assert slope == pytest.approx((up - down) / 2e-6, rel=1e-6, abs=1e-8), name


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_changed_by_looking_at_the_loss(kind: str):
    params, settings = _params(kind), _settings(kind)
    before, memory = {n: p.clone() for n, p in params.items()}, TrainingState.new(settings)
    architectures.get(kind).loss(params, _x(), settings, 0, memory)
    assert all(torch.equal(before[n], params[n]) for n in params)
    assert not memory.silent.any()
    assert memory.threshold == -1


def test_relu_cannot_be_gamed_by_long_decoders():
    params, x = _params("relu"), _x()
    longer = {**params, "dec": 3 * params["dec"], "enc": params["enc"] / 3, "b_enc": params["b_enc"] / 3}
    assert _loss("relu", longer, x).total.item() == pytest.approx(
        _loss("relu", params, x).total.item(), rel=1e-12
    )


@pytest.mark.parametrize("kind", TIED)
def test_a_tied_bias_takes_any_shift_of_the_inputs(kind: str):
    params, x, shift = _params(kind), _x(), torch.arange(D).double()
    moved = _loss(kind, {**params, "b_dec": params["b_dec"] + shift}, x + shift).total.item()
    assert moved == pytest.approx(_loss(kind, params, x).total.item(), rel=1e-10)


@pytest.mark.parametrize("kind", ["relu", "jumprelu"])
def test_an_untied_bias_does_not_reach_the_encoder(kind: str):
    params = _params(kind)
    moved = {**params, "b_dec": params["b_dec"] + 1}
    encode = architectures.get(kind).encode
    assert torch.equal(encode(params, _x(), {}), encode(moved, _x(), {}))


@pytest.mark.parametrize("k", [1, 3, 7])
def test_topk_keeps_k_a_row_and_batchtopk_k_a_row_on_average(k: int):
    params = _params("topk")
    params["b_enc"] += 10  # all above zero: then exactly k are kept
    assert _loss("topk", params, _x(), k=k).fired.sum() == k * ROWS
    assert _loss("batchtopk", params, _x(), k=k).fired.sum() == k * ROWS
    codes = architectures.get("topk").encode(params, _x(), {"k": k})
    assert ((codes > 0).sum(1) == k).all()


def test_batchtopk_looks_at_whole_rows_where_its_candidates_do_not_suffice():
    x = _x(40)
    x[0] *= 100  # nearly all that is kept lies in this row
    enc, b_enc = _params("batchtopk")["enc"], torch.zeros(WIDTH).double()
    values, active = batchtopk.strongest_of_batch(x, enc, b_enc, 1, SingleWorker())
    pre = x @ enc.T
    best = pre.flatten().topk(40)
    expected = torch.zeros_like(pre).flatten().scatter(0, best.indices, best.values).view_as(pre)
    found = active.dense(values)
    assert torch.equal(found > 0, expected > 0)
    assert torch.allclose(found, expected, rtol=1e-14, atol=0)  # some rows are a product of their own
    assert active.starts.diff().max() > 2


def test_what_is_not_positive_never_fires():
    params = _params("topk")
    params["b_enc"] -= 100
    for kind in ("topk", "batchtopk", "matryoshka"):
        found = _loss(kind, params, _x())
        assert found.fired.sum() == 0
        assert torch.allclose(found.residual, _x() - params["b_dec"])


def test_the_smallest_kept_activation():
    params, x = _params("batchtopk"), _x()
    z = (x - params["b_dec"]) @ params["enc"].T + params["b_enc"]
    assert _loss("batchtopk", params, x).smallest == z.flatten().sort().values[-3 * ROWS]
    by_row = z.sort(1).values[:, -3].relu().mean()
    assert _loss("topk", params, x).smallest.item() == pytest.approx(by_row.item(), rel=1e-12)


def _dead(settings: TrainSettings, params: Params, x: Tensor) -> tuple[TrainingState, list[int]]:
    """All but latents 20 and on have been silent for long enough once this batch is over."""
    memory = TrainingState.new(settings)
    memory.silent[:20], memory.silent[20:] = settings.dead_rows - len(x), settings.dead_rows - len(x) - 1
    fired = architectures.get("topk").loss(params, x, settings, 0, TrainingState.new(settings)).fired
    return memory, [i for i in range(20) if fired[i] == 0]


def test_revival_is_the_normalised_error_dead_latents_leave():
    params, x, settings = _params("topk"), _x(4), _settings("topk", k_aux=2, dead_rows=50)
    memory, dead = _dead(settings, params, x)
    assert 2 < len(dead) < 20  # those that fire in this batch are alive
    found = architectures.get("topk").loss(params, x, settings, 0, memory)
    pre = ((x - params["b_dec"]) @ params["enc"].T + params["b_enc"])[:, dead]
    tried = torch.stack([row * (row >= row.sort().values[-2]) for row in pre]).relu() @ params["dec"][dead]
    error = found.residual
    spread = (error - error.mean(0)).square().sum(1).mean()
    expected = (error - tried).square().sum(1).mean() / spread / 32
    assert found.parts["revival"].item() == pytest.approx(expected.item(), rel=1e-12)


def test_revival_moves_dead_latents_alone():
    params, x, settings = _params("topk"), _x(4), _settings("topk", dead_rows=50)
    memory, dead = _dead(settings, params, x)
    leaves = {n: p.requires_grad_(True) for n, p in params.items()}
    part = architectures.get("topk").loss(leaves, x, settings, 0, memory).parts["revival"]
    for grad in torch.autograd.grad(part, [leaves["enc"], leaves["dec"]]):
        assert set(grad.abs().sum(1).nonzero()[:, 0].tolist()) <= set(dead)
        assert grad.any()
    memory.silent[:] = 45  # not yet
    assert set(architectures.get("topk").loss(params, x, settings, 0, memory).parts) == {"error"}


@pytest.mark.parametrize("name", ["enc", "b_enc", "dec", "b_dec"])
def test_gradients_of_the_revival_by_finite_differences(name: str):
    """The error is held fixed, as in the papers: what dead latents make of it is all that moves."""
    params, x, settings = _params("topk"), _x(4), _settings("topk", k_aux=2, dead_rows=50)
    memory, _ = _dead(settings, params, x)
    found = architectures.get("topk").loss(params, x, settings, 0, memory)

    def part(value: Tensor) -> Tensor:
        return revival({**params, name: value}, x, found.residual, found.fired, settings, memory)["revival"]

    leaf = params[name].clone().requires_grad_(True)
    (grad,) = torch.autograd.grad(part(leaf), leaf)
    direction = torch.randn(grad.shape, generator=torch.Generator().manual_seed(3)).double()
    up, down = (part(params[name] + sign * 1e-6 * direction).item() for sign in (1, -1))
    assert grad.any()
    assert (grad * direction).sum().item() == pytest.approx((up - down) / 2e-6, rel=1e-6, abs=1e-9)


def test_jumprelus_kernel_is_the_slope_of_the_smoothed_steps():
    """Averaged over a shift uniform in ± eps / 2, the step is a ramp; its slope is what the kernel gives."""
    eps, z = 0.5, _x().requires_grad_(True)
    theta = torch.full((D,), 0.4, dtype=torch.float64, requires_grad=True)

    def ramp(t: Tensor) -> Tensor:
        return ((z.detach() - t) / eps + 0.5).clamp(0, 1)

    codes, fired = jumprelu.jump(z, theta, eps)
    weights = torch.arange(1.0, D + 1).double()
    to_count = torch.autograd.grad((fired * weights).sum(), theta, retain_graph=True)[0]
    numeric = (ramp(theta.detach() + 1e-6) - ramp(theta.detach() - 1e-6)).sum(0) / 2e-6
    assert torch.allclose(to_count, weights * numeric, atol=1e-6)
    to_theta, to_z = torch.autograd.grad((codes * weights).sum(), (theta, z))
    assert torch.allclose(to_theta, weights * 0.4 * numeric, atol=1e-6)
    assert torch.equal(to_z, weights * (z > 0.4))


def test_jumprelus_threshold_moves_by_both_terms():
    params = {n: p.requires_grad_(True) for n, p in _params("jumprelu").items()}
    found = _loss("jumprelu", params, _x(200), bandwidth=0.1)
    error, penalty = (
        torch.autograd.grad(found.parts[part], params["log_threshold"], retain_graph=True)[0]
        for part in ("error", "sparsity")
    )
    assert (penalty <= 0).all()
    assert (penalty < 0).any()  # a higher threshold means fewer latents
    assert error.abs().sum() > 0


def test_resampling_draws_by_squared_loss():
    params = {n: p.float() for n, p in _params("relu-tied").items()}
    inputs = torch.randn(1000, D, generator=torch.Generator().manual_seed(0))
    errors = torch.full((1000,), 1e-3)
    errors[[10, 20]] = torch.tensor([1.0, 3.0])
    dead, first = torch.arange(WIDTH // 2), 0
    for seed in range(200):
        own = {n: p.clone() for n, p in params.items()}
        relu_tied.resample(own, dead[:1], inputs, errors, seed)
        expected = inputs[20] - own["b_dec"]
        first += bool(torch.allclose(own["dec"][0], expected / expected.norm(), atol=1e-6))
    assert first / 200 == pytest.approx(0.9, abs=0.07)  # 9 : 1, not 3 : 1; 0.07 is 3.3 standard errors


def test_resampled_latents_are_short_and_unbiased():
    params = {n: p.float() for n, p in _params("relu-tied").items()}
    dead = torch.tensor([0, 5])
    alive = params["enc"][[i for i in range(WIDTH) if i not in (0, 5)]].norm(dim=1).mean()
    others = params["enc"][1].clone()
    relu_tied.resample(params, dead, _x().float(), torch.ones(ROWS), 0)
    assert torch.allclose(params["enc"][dead].norm(dim=1), 0.2 * alive.expand(2), rtol=1e-5)
    assert torch.allclose(params["dec"][dead].norm(dim=1), torch.ones(2), rtol=1e-5)
    assert torch.allclose(params["enc"][dead], 0.2 * alive * params["dec"][dead], rtol=1e-5)
    assert not params["b_enc"][dead].any()
    assert torch.equal(params["enc"][1], others)


def test_the_published_schedule_of_resampling():
    settings = replace(_settings("relu-tied"), steps=200_000, batch=8192)
    assert relu_tied.resampling_steps(settings) == [25_000, 50_000, 75_000, 100_000]
    assert relu_tied.patience(settings) == 12_500 * 8192


def test_start():
    x = _x(50).float()
    free, unit = (architectures.get(kind).start(_settings(kind), x) for kind in ("relu", "topk"))
    assert torch.allclose(free["dec"].norm(dim=1), torch.full((WIDTH,), 0.1))
    assert torch.allclose(unit["dec"].norm(dim=1), torch.ones(WIDTH))
    for made in (free, unit):
        assert torch.equal(made["enc"], made["dec"])
        assert not made["b_enc"].any()
    assert not free["b_dec"].any()
    assert torch.equal(unit["b_dec"], geometric_median(x))
    theta = architectures.get("jumprelu").start(_settings("jumprelu", bandwidth=1e-3), x)["log_threshold"]
    assert torch.allclose(theta.exp(), torch.full((WIDTH,), 1e-3 * math.sqrt(D)))


def test_the_geometric_median_has_least_total_distance():
    x = _x(31).pow(3)
    median = geometric_median(x)
    gradient = ((median - x) / (median - x).norm(dim=1, keepdim=True)).sum(0)
    assert gradient.norm() < 1e-3  # a sum of 31 unit vectors
    assert (x.mean(0) - median).norm() > 0.1


def test_decoders_keep_their_length_and_the_gradient_its_tangent():
    dec, grad = _params("topk")["dec"], _params("topk", 5)["dec"]
    renormalise_(dec)
    tangent_(dec, grad)
    assert torch.allclose(dec.norm(dim=1), torch.ones(WIDTH).double())
    assert torch.allclose((dec * grad).sum(1), torch.zeros(WIDTH).double(), atol=1e-12)
