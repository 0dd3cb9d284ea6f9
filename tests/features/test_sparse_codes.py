"""Sparse codes against the dense formula they stand for, in float64: values, and gradients by gradcheck."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from heedful.features.sae import sparse_codes


def _weights(d: int, width: int, seed: int = 0) -> tuple[Tensor, ...]:
    draw = torch.Generator().manual_seed(seed)
    shapes = ((width, d), (width,), (width, d), (d,))
    return tuple(torch.randn(*shape, generator=draw, dtype=torch.float64) for shape in shapes)


def _select(k: int):
    def select(x: Tensor, enc: Tensor, b_enc: Tensor) -> tuple[Tensor, sparse_codes.Active]:
        values, latents = sparse_codes.search(x, enc, b_enc, k)
        return values.reshape(-1), sparse_codes.regular(latents, len(enc))

    return select


def _dense(x: Tensor, enc: Tensor, b_enc: Tensor, dec: Tensor, b_dec: Tensor, k: int) -> Tensor:
    pre = (x - b_dec) @ enc.T + b_enc
    kept = torch.zeros_like(pre).scatter(1, pre.topk(k).indices, 1.0)
    return (pre * kept).relu() @ dec + b_dec


def _sparse(x: Tensor, enc: Tensor, b_enc: Tensor, dec: Tensor, b_dec: Tensor, k: int) -> Tensor:
    values, active = sparse_codes.encode(_select(k), x, enc, b_enc, b_dec)
    return sparse_codes.decode(values.relu(), active, dec) + b_dec


@pytest.mark.parametrize(("width", "k"), [(7, 3), (64, 1), (640, 5), (640, 19), (640, 20), (1600, 40)])
def test_the_strongest_are_those_a_full_sort_finds(width: int, k: int):
    pre = torch.randn(33, width, generator=torch.Generator().manual_seed(width + k))
    values, places = sparse_codes.strongest(pre, k)
    assert torch.equal(values.sort().values, pre.sort().values[:, -k:])
    assert torch.equal(pre.gather(1, places), values)


def test_ties_give_k_different_places():
    values, places = sparse_codes.strongest(torch.zeros(4, 640), 5)
    assert values.shape == (4, 5)
    assert all(len(set(row)) == 5 for row in places.tolist())


def test_rows_beyond_a_chunk_are_searched_too():
    x = torch.randn(2 * sparse_codes.CHUNK + 3, 4, generator=torch.Generator().manual_seed(0)).double()
    enc, b_enc, _, _ = _weights(4, 10)
    values, latents = sparse_codes.search(x, enc, b_enc, 2)
    expected = (x @ enc.T + b_enc).topk(2)
    assert torch.allclose(values.sort().values, expected.values.sort().values, atol=1e-12)
    assert torch.equal(latents.sort().values, expected.indices.sort().values)


@pytest.mark.parametrize("k", [1, 3, 12])
def test_sparse_and_dense_agree_in_value_and_gradient(k: int):
    x = torch.randn(20, 5, generator=torch.Generator().manual_seed(1)).double()
    found = []
    for way in (_dense, _sparse):
        weights = [w.requires_grad_(True) for w in _weights(5, 12)]
        out = way(x, *weights, k)
        found.append([out.detach(), *torch.autograd.grad((out - x).square().sum(), weights)])
    for dense, ours in zip(*found, strict=True):
        assert torch.allclose(dense, ours, atol=1e-11, rtol=1e-11)


def test_gradients_by_finite_differences():
    x = torch.randn(6, 4, generator=torch.Generator().manual_seed(2)).double()
    weights = [w.requires_grad_(True) for w in _weights(4, 9)]
    assert torch.autograd.gradcheck(lambda *w: _sparse(x, *w, 3), weights)


def test_rows_with_different_numbers_of_latents():
    starts = torch.tensor([0, 2, 2, 5], dtype=torch.int32)
    active = sparse_codes.Active(starts, torch.tensor([1, 3, 0, 2, 3], dtype=torch.int32), 4)
    values = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0], dtype=torch.float64, requires_grad=True)
    full = torch.tensor([[0, 1, 0, 2], [0, 0, 0, 0], [3, 0, 4, 5]], dtype=torch.float64)
    dec = _weights(3, 4)[0].requires_grad_(True)
    assert torch.equal(active.dense(values.detach()), full)
    assert torch.allclose(sparse_codes.decode(values, active, dec), full @ dec)
    assert torch.equal(active.transposed(values.detach()).to_dense(), full.T)
    assert torch.equal(active.sums(values.detach()), full.sum(0))
    kept = active.keep(torch.tensor([True, False, False, True, True]))
    assert torch.equal(
        kept.dense(values.detach()[[0, 3, 4]]), full * (torch.tensor([[0, 1, 0, 0], [0] * 4, [0, 0, 1, 1]]))
    )
    assert torch.autograd.gradcheck(lambda v, w: sparse_codes.decode(v, active, w), (values, dec))
