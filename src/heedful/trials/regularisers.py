"""Terms that change where heads look while a model learns; each is one number per text, to be minimised.

    sharper      H = -sum_t a_t ln a_t             entropy: 0 for one token, ln T for uniform attention
    flatter      -H
    diverse      -D,  D = H(mean_h a^h) - mean_h H(a^h)
                 Jensen-Shannon divergence of a layer's heads: 0 if all look alike, at most ln(heads)
    rationales   -ln sum_t m_t a_t                 m: tokens people marked; nothing for a text without marks

Entropy and diversity are means over layers, (heads,) and the text's own queries. The rationale term reads
what a reader is shown: the last layer, mean over heads, at the rows the answer is read from; elsewhere heads
are free. Cost: sums over weights that are there anyway.

Entropy: Zhai et al. 2023, Stabilizing transformer training by preventing attention entropy collapse.
Diversity: Li et al. 2018, Multi-head attention with disagreement regularization. Marks: Bao et al. 2018,
Deriving machine attention from human rationales; Mathew et al. 2021 (HateXplain).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from heedful.trials.training import Passed, read

FLOOR = 1e-8  # of the marked mass: a text whose marks get nothing pulls hard, not infinitely


def entropy(passed: Passed) -> Tensor:
    """(B,) mean entropy of a row."""
    return _mean(_entropy(passed.heads).mean(2), passed)


def diversity(passed: Passed) -> Tensor:
    """(B,) how differently the heads of a layer look, in nats."""
    heads = passed.heads  # (B, L, H, Q, T)
    return _mean(_entropy(heads.mean(2)) - _entropy(heads).mean(2), passed)


def marked_mass(passed: Passed, marks: Tensor, place: str) -> Tensor:
    """(B,) share of the shown attention that lies on marked tokens; marks (B, T)."""
    shown = read(passed, place)[:, -1].mean(1)  # (B, T)
    return (shown * marks.to(shown.dtype)).sum(-1)


def off_marks(passed: Passed, marks: Tensor, place: str) -> Tensor:
    """(B,) -ln of the marked mass; zero, without a gradient, for a text without marks."""
    some = marks.any(-1)
    mass = torch.where(some, marked_mass(passed, marks, place), 1.0)
    return -mass.clamp_min(FLOOR).log()


TERMS: dict[str, Callable[[Passed], Tensor]] = {
    "sharper": entropy,
    "flatter": lambda passed: -entropy(passed),
    "diverse": lambda passed: -diversity(passed),
}
KINDS = ("none", *TERMS, "rationales")


def _entropy(weights: Tensor) -> Tensor:
    """(..., T) -> (...); 0 ln 0 = 0, in gradients too."""
    some = weights > 0
    safe = torch.where(some, weights, 1.0)
    return -(safe * safe.log()).sum(-1)


def _mean(values: Tensor, passed: Passed) -> Tensor:
    """(B, L, Q) -> (B,) over layers and the text's own queries."""
    real = passed.queries[:, None].to(values.dtype).expand_as(values)
    return (values * real).sum((1, 2)) / real.sum((1, 2))
