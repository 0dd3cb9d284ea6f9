"""How far two distributions are apart, along the last axis; natural logarithms.

    KL(p || q)   sum p ln(p / q)                              0 to infinity; infinite where q lacks what p has
    JSD(p, q)    (KL(p || m) + KL(q || m)) / 2, m = (p + q)/2  0 to ln 2; 0 only for p = q
    TVD(p, q)    1/2 sum |p - q|                               0 to 1

0 ln 0 = 0, in values and in gradients. The largest JSD that any q can have from a given p is that of a q with
all its weight on the key p likes least, a = min p (JSD is convex in q, so its maximum is at a corner):

    1/2 [(1 - a) ln 2 + a ln(2a / (1 + a)) + ln(2 / (1 + a))]

The functions take torch tensors (differentiable) or numpy arrays, and return what they were given.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from scipy import special

if TYPE_CHECKING:
    from torch import Tensor

Distribution = TypeVar("Distribution")  # numpy array or torch tensor
LN2 = float(np.log(2))


def kl(p: Distribution, q: Distribution) -> Distribution:
    """(..., T), (..., T) -> (...)"""
    result: Any = _kl_terms(p, q)
    return result.sum(-1)  # type: ignore[no-any-return]


def jsd(p: Distribution, q: Distribution) -> Distribution:
    """(..., T), (..., T) -> (...), at most ln 2"""
    middle: Any = (p + q) / 2  # type: ignore[operator]
    both: Any = _kl_terms(p, middle) + _kl_terms(q, middle)
    return both.sum(-1) / 2  # type: ignore[no-any-return]


def tvd(p: Distribution, q: Distribution) -> Distribution:
    """(..., T), (..., T) -> (...), at most 1"""
    gap: Any = p - q  # type: ignore[operator]
    return abs(gap).sum(-1) / 2  # type: ignore[no-any-return]


def _kl_terms(p: Any, q: Any) -> Any:
    """p ln(p / q), zero where p is zero."""
    if isinstance(p, np.ndarray):
        return special.rel_entr(p, q)
    import torch

    some = p > 0
    safe = torch.where(some, p, 1.0)  # no gradient of 0 ln 0
    return torch.where(some, safe * (safe.log() - torch.where(some, q, 1.0).log()), 0.0)


def largest_jsd(least: Distribution) -> Distribution:
    """Most that any distribution can be from one whose smallest weight is `least`."""
    a: Any = least
    log: Any = np.log if isinstance(least, np.ndarray) else _torch_log
    some = a + (a == 0)  # 0 ln 0 = 0
    return ((1 - a) * LN2 + a * log(2 * some / (1 + a)) + log(2 / (1 + a))) / 2  # type: ignore[no-any-return]


def _torch_log(x: Tensor) -> Tensor:
    return x.log()
