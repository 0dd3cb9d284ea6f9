"""What an adversary may move in one layer of one text, and how far it has moved it.

Special tokens keep the weight they have, and so do rows that do not matter: in the last layer those the
answer is not read from. What words get may be dealt out in any way among the words a row may look at.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from heedful.stats.divergence import jsd, largest_jsd


@dataclass(frozen=True, eq=False)
class Movable:
    """One layer of one text: what may move, and from where."""

    layer: int
    own: Tensor  # (H, Q, T) the model's weights
    free: Tensor  # (H, Q, T) bool
    importance: Tensor  # (Q,) of the rows, sums to one; zeros if nothing can move

    @property
    def mass(self) -> Tensor:
        """(H, Q, 1) what words get."""
        return (self.own * self.free).sum(-1, keepdim=True)

    def weights(self, logs: Tensor) -> Tensor:
        """(K, H, Q, T) log-weights of any size -> weights; what is not free stays."""
        dealt = logs.masked_fill(~self.free, -1e9).softmax(-1) * self.mass
        return torch.where(self.free, dealt, self.own)

    def over_words(self, weights: Tensor) -> Tensor:
        """(..., H, Q, T): the distribution over what is free."""
        return weights * self.free / self.mass.clamp_min(1e-30)

    def apart(self, some: Tensor, others: Tensor) -> Tensor:
        """(...): mean JSD over heads and rows, in float64: it is a small difference of large terms."""
        each = jsd(self.over_words(some.double()), self.over_words(others.double()))  # (..., H, Q)
        return (each.mean(-2) * self.importance).sum(-1)

    def farthest(self) -> Tensor:
        """(H, Q, T): all that words get, on the one that had least."""
        least = self.own.masked_fill(~self.free, torch.inf).argmin(-1, keepdim=True)
        corner = torch.zeros_like(self.own).scatter(-1, least, self.mass)
        return torch.where(self.free, corner, self.own)

    @property
    def stuck(self) -> bool:
        """Nothing can move: no row that matters sees two words."""
        return not bool(self.free.any())

    def words(self) -> float:
        """Share of the attention that can move, over heads and rows that matter."""
        return float((self.mass[..., 0].mean(0) * self.importance).sum())

    def largest(self) -> float:
        """The most that `apart` can be from the model's own."""
        least = self.over_words(self.own).masked_fill(~self.free, 1.0).amin(-1)  # (H, Q)
        return float((largest_jsd(least).mean(0) * self.importance).sum())


def movable(layer: int, own: Tensor, allowed: Tensor, words: Tensor, rows: Tensor) -> Movable:
    """own (H, Q, T), allowed (H, Q, T), words (T,), rows (Q,): how much each row matters, zero for not."""
    free = allowed & words & (own * words).sum(-1, keepdim=True).gt(0)
    live = (free.sum(-1) > 1).all(0) & (rows > 0)  # (Q,) one word alone has nothing to be dealt out
    importance = rows * live
    total = importance.sum()
    return Movable(layer, own, free & live[:, None], importance / total if total > 0 else importance)
