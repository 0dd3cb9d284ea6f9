"""Steps of attention that keep the answer to first order, and go as far from the model's own as they can.

Rows X are heads x queries, p (X, T) their shares over the words, c (X,) what a row counts in the mean JSD.

    y(p + d) = y + J d                                  the answer, linearised; (m,) numbers
    g = 1/2 ln(p / m),  m = (p + own) / 2               where the JSD grows, row by row
    p' = argmax  sum c (g . p' - KL(p' || p) / eta)     subject to  |y + J (p' - p)| <= slack
       ~ p exp(eta (g - J^T nu / c))

nu (m,) minimises the dual, a convex function: Newton steps, no pass of the model. Shares stay positive and
sum to one by construction. Where no shares meet the bound, nu grows until the Newton steps end: p' is then of
no use, which shows when it is run.

    dual(nu) = sum c / eta ln sum p exp(eta (g - J^T nu / c)) + nu . (J p - y) + slack |nu|
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

NEWTON, SHORTER = 15, 6  # steps, and how often one is made four times shorter
ROUNDING = 1e-15  # of the dual: what a step has to promise
TINY = 1e-12  # smallest share that a logarithm is taken of


@dataclass(frozen=True, eq=False)
class Linear:
    """One layer's answer near n shares, to first order; for each of them k are moved at once."""

    own: Tensor  # (X, T) the model's shares
    free: Tensor  # (X, T) bool
    price: Tensor  # (X,) c
    jacobian: Tensor  # (n, m, X, T) J

    def moved(self, step: Tensor) -> Tensor:
        """(n, k, X, T) -> (n, k, m): J d."""
        return torch.einsum("nmxt,nkxt->nkm", self.jacobian, step)

    def upwards(self, p: Tensor) -> Tensor:
        """(..., X, T): g."""
        ratio = 2 * p.clamp_min(TINY) / (p + self.own).clamp_min(TINY)
        return (ratio.log() / 2).masked_fill(~self.free, 0.0)

    def step(self, p: Tensor, y: Tensor, g: Tensor, eta: Tensor, slack: Tensor) -> Tensor:
        """p' (n, k, X, T) from p, y (n, k, m), g like p, eta and slack (n,)."""
        slack, scale = slack[:, None], eta[:, None, None, None]
        live = self.free.any(-1, keepdim=True)
        logs = p.clamp_min(TINY).log().masked_fill(~self.free & live, -torch.inf) + scale * g
        priced = self.jacobian / self.price[:, None]
        fixed = self.moved(p) - y

        def dual(nu: Tensor) -> tuple[Tensor, Tensor]:
            """(shares (n, k, X, T), value (n, k))"""
            z = logs - scale * torch.einsum("nkm,nmxt->nkxt", nu, priced)
            value = (self.price * z.logsumexp(-1)).sum(-1) / eta[:, None]
            return z.softmax(-1) * self.free, value + (nu * fixed).sum(-1) + slack * _length(nu)

        nu = torch.zeros_like(y)
        shares, value = dual(nu)
        for _ in range(NEWTON):
            slope = fixed - self.moved(shares) + slack[..., None] * nu / _length(nu)[..., None]
            curve = scale * self._covariance(shares, priced) + _bend(nu, slack)
            newton = torch.linalg.solve(curve, slope)
            waiting = (newton * slope).sum(-1) > ROUNDING * value.abs()  # the others have arrived
            if not waiting.any():
                break
            for shorter in range(SHORTER):
                tried = nu - newton / 4**shorter
                there, lower = dual(tried)
                better = waiting & (lower < value)
                nu, value = torch.where(better[..., None], tried, nu), torch.where(better, lower, value)
                shares = torch.where(better[..., None, None], there, shares)
                waiting = waiting & ~better
                if not waiting.any():
                    break
        return shares

    def _covariance(self, shares: Tensor, priced: Tensor) -> Tensor:
        """(n, k, m, m): sum over rows of J cov(p') J^T / c; one k after the other, since J is large."""
        parts = []
        for some in shares.unbind(1):
            weighted = self.jacobian * some[:, None]  # (n, m, X, T)
            means = weighted.sum(-1)  # (n, m, X)
            parts.append(weighted.flatten(2) @ priced.flatten(2).mT - (means / self.price) @ means.mT)
        return torch.stack(parts, 1)


def _length(nu: Tensor) -> Tensor:
    return ((nu**2).sum(-1) + 1e-18).sqrt()


def _bend(nu: Tensor, slack: Tensor) -> Tensor:
    """(n, k, m, m): second derivative of slack |nu|, and a trace of the identity."""
    length, eye = _length(nu)[..., None, None], torch.eye(nu.shape[-1], dtype=nu.dtype)
    unit = nu[..., None] / length
    return slack[..., None, None] / length * (eye - unit * unit.mT) + 1e-12 * eye
