"""Sparse autoencoders as one writes them by hand in torch: dense, autograd, Adam; the same mathematics."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Step = Callable[[Tensor], Tensor]
D, BATCH, K = 384, 4096, 32


def activations(rows: int = 4 * BATCH) -> Tensor:
    """Correlated rows (rows, D) with E||x||² = D."""
    draw = torch.Generator().manual_seed(0)
    mix = torch.randn(D, D, generator=draw) * torch.linspace(1, 0.05, D)[:, None]
    x = torch.randn(rows, D, generator=draw) @ mix
    return x * (D / x.square().sum(1).mean()).sqrt()


def relu(dec: Tensor, lr: float, penalty: float) -> Step:
    """dec (F, d): the first weights; encoders are their transpose."""
    W_enc, W_dec = dec.T.clone().requires_grad_(), dec.clone().requires_grad_()
    b_enc, b_dec = torch.zeros(len(dec), requires_grad=True), torch.zeros(D, requires_grad=True)
    weights = [W_enc, b_enc, W_dec, b_dec]
    optimizer = torch.optim.Adam(weights, lr=lr)

    def step(x: Tensor) -> Tensor:
        codes = torch.relu(x @ W_enc + b_enc)
        error = (x - codes @ W_dec - b_dec).pow(2).sum(-1).mean()
        loss = error + penalty * (codes * W_dec.norm(dim=1)).sum(-1).mean()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
        return loss.detach()

    return step


def topk(dec: Tensor, bias: Tensor, lr: float) -> Step:
    """dec (F, d) and bias (d,): the first weights."""
    W_enc, W_dec = dec.T.clone().requires_grad_(), dec.clone().requires_grad_()
    b_enc, b_dec = torch.zeros(len(dec), requires_grad=True), bias.clone().requires_grad_()
    weights = [W_enc, b_enc, W_dec, b_dec]
    optimizer = torch.optim.Adam(weights, lr=lr)

    def step(x: Tensor) -> Tensor:
        best = ((x - b_dec) @ W_enc + b_enc).topk(K, sorted=False)
        codes = torch.zeros(len(x), len(dec)).scatter(1, best.indices, best.values.relu())
        loss = (x - codes @ W_dec - b_dec).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        with torch.no_grad():
            W_dec.grad -= (W_dec.grad * W_dec).sum(1, keepdim=True) * W_dec
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
        with torch.no_grad():
            W_dec.div_(W_dec.norm(dim=1, keepdim=True))
        return loss.detach()

    return step
