"""Codes with few active latents: only those are decoded, and only they get gradients.

    values[b, j] = x_b · W_enc[:, i] + c_i          at the active latents i of row b only
    decoded_b    = sum_j values[b, j] W_dec[i]      a CSR matrix times a dense one

Gradients, with V the values and D the loss's gradient of `decoded`, both exact (the rest is zero):

    dW_dec = V^T D                    transposed CSR times dense
    dvalues[b, j] = D_b · W_dec[i]    a sampled product: n·k dot products instead of n·F
    dW_enc = x^T dvalues              transposed CSR times dense

Cost of a step: one dense product (all latents must be compared to find the strongest) instead of five.
Encoders are held as `enc` = W_enc^T (F, d), so that a latent's weights lie side by side.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, cast

import torch
from torch import Tensor

CHUNK = (
    512  # rows whose pre-activations are held at once: they stay in the cache while the strongest are found
)
GROUPS = 16  # latents compared as one before the strongest are sought among the winners


@dataclass(frozen=True, eq=False)
class Active:
    """Which latents fire in which rows: the pattern of a CSR matrix (n, F)."""

    starts: Tensor  # (n + 1,) int32: where each row's latents begin in `latents`
    latents: Tensor  # (nnz,) int32
    width: int  # F

    @property
    def n(self) -> int:
        return len(self.starts) - 1

    @cached_property
    def rows(self) -> Tensor:
        """The row of each entry (nnz,)."""
        counts = self.starts.diff().long()
        return torch.repeat_interleave(torch.arange(self.n, dtype=torch.int32), counts)

    @cached_property
    def by_latent(self) -> tuple[Tensor, Tensor, Tensor]:
        """The transposed pattern (F, n): the order of its entries, where latents begin, the rows."""
        order = torch.argsort(self.latents, stable=True)
        counts = torch.bincount(self.latents, minlength=self.width)
        starts = torch.zeros(self.width + 1, dtype=torch.int32)
        starts[1:] = counts.cumsum(0)
        return order, starts, self.rows[order]

    def matrix(self, values: Tensor) -> Tensor:
        """(n, F) with these values."""
        return _csr(self.starts, self.latents, values, (self.n, self.width))

    def transposed(self, values: Tensor) -> Tensor:
        """(F, n) with these values, given in the order of the rows."""
        order, starts, rows = self.by_latent
        return _csr(starts, rows, values[order], (self.width, self.n))

    def sums(self, values: Tensor) -> Tensor:
        """Of the values of each latent (F,)."""
        return torch.zeros(self.width, dtype=values.dtype).index_add_(0, self.latents, values)

    def keep(self, wanted: Tensor) -> Active:
        """The entries marked in `wanted` (nnz,) bool."""
        counts = torch.bincount(self.rows[wanted], minlength=self.n)
        return Active(starts_of(counts), self.latents[wanted], self.width)

    def dense(self, values: Tensor) -> Tensor:
        """(n, F), zeros elsewhere."""
        full = torch.zeros(self.n, self.width, dtype=values.dtype)
        return full.index_put((self.rows.long(), self.latents.long()), values)


@cache
def _hush() -> None:
    """Torch says once a process that CSR tensors are new; the three operations used here are tested."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.eye(1).to_sparse_csr()


def _csr(starts: Tensor, columns: Tensor, values: Tensor, size: tuple[int, int]) -> Tensor:
    _hush()
    return torch.sparse_csr_tensor(starts, columns, values, size, check_invariants=False)


def starts_of(counts: Tensor) -> Tensor:
    """Where rows of so many entries (n,) begin (n + 1,)."""
    starts = torch.zeros(len(counts) + 1, dtype=torch.int32)
    starts[1:] = counts.cumsum(0)
    return starts


def strongest(pre: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k greatest of each row of (n, F): values and places (n, k), in no order.

    The k greatest lie in the k groups whose greatest members are the greatest, so one pass finds the greatest
    of each group and the rest is sought among few.
    """
    n, width = pre.shape
    if width % GROUPS or width // GROUPS <= 2 * k:
        values, places = pre.topk(k, sorted=False)
        return values, places
    groups = width // GROUPS
    best = pre.view(n, GROUPS, groups).amax(1).topk(k, sorted=False).indices  # (n, k) of `groups`
    members = torch.arange(0, width, groups)[None, :, None]  # (1, GROUPS, 1)
    places = (best[:, None, :] + members).view(n, -1)  # (n, GROUPS * k)
    values, within = pre.gather(1, places).topk(k, sorted=False)
    return values, places.gather(1, within)


def search(x: Tensor, enc: Tensor, bias: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k strongest pre-activations of x (n, d) under enc (F, d): values and latents (n, k)."""
    values = torch.empty(len(x), k, dtype=x.dtype)
    latents = torch.empty(len(x), k, dtype=torch.int64)
    kept = torch.empty(min(CHUNK, len(x)), len(enc), dtype=x.dtype)
    with torch.no_grad():
        for begin in range(0, len(x), CHUNK):
            part = slice(begin, begin + CHUNK)
            rows = x[part]
            pre = torch.addmm(bias, rows, enc.T, out=kept[: len(rows)])
            values[part], latents[part] = strongest(pre, k)
    return values, latents


def regular(latents: Tensor, width: int) -> Active:
    """The pattern of k latents (n, k) a row."""
    n, k = latents.shape
    return Active(torch.arange(0, n * k + 1, k, dtype=torch.int32), latents.reshape(-1).int(), width)


class _Encode(torch.autograd.Function):
    """values (nnz,) = (x - pre_bias) · enc[latent] + b_enc[latent], already found by `search`."""

    @staticmethod
    def forward(
        ctx: Any, values: Tensor, active: Active, x: Tensor, enc: Tensor, b_enc: Tensor, pre_bias: Tensor
    ) -> Tensor:
        ctx.active = active
        ctx.save_for_backward(x, enc, pre_bias)
        return values.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        x, enc, pre_bias = ctx.saved_tensors
        grad, active = grads[0].contiguous(), ctx.active
        to_enc = active.transposed(grad) @ (x - pre_bias)  # (F, d)
        to_bias = active.sums(grad)  # (F,)
        return None, None, None, to_enc, to_bias, -(to_bias @ enc)


class _Decode(torch.autograd.Function):
    """(n, F) sparse @ dec (F, d)."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, active: Active, dec: Tensor) -> Tensor:
        ctx.active = active
        ctx.save_for_backward(values, dec)
        return active.matrix(values) @ dec

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        values, dec = ctx.saved_tensors
        grad, active = grads[0].contiguous(), ctx.active
        to_values = torch.sparse.sampled_addmm(active.matrix(torch.zeros_like(values)), grad, dec.T, beta=0.0)
        return to_values.values(), None, active.transposed(values) @ grad


Select = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Active]]  # x centred, enc, b_enc -> values, which


def encode(select: Select, x: Tensor, enc: Tensor, b_enc: Tensor, pre_bias: Tensor) -> tuple[Tensor, Active]:
    """Pre-activations (nnz,) of the latents that `select` picks, and which they are; x gets no gradient."""
    with torch.no_grad():
        values, active = select(x - pre_bias, enc, b_enc)
    return cast(Tensor, _Encode.apply(values, active, x, enc, b_enc, pre_bias)), active  # type: ignore[no-untyped-call]


def decode(values: Tensor, active: Active, dec: Tensor) -> Tensor:
    """Sum of the active latents' directions (n, d)."""
    return cast(Tensor, _Decode.apply(values, active, dec))  # type: ignore[no-untyped-call]
