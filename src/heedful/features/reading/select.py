"""Which features to look at: by a rule that anybody can repeat, not by taste.

    random:N        N of the features that fire, each with the same chance
    most-active:N   those that fire on most tokens
    strongest:N     those of the greatest activation * length of the decoder row
    spread:N        evenly over the ranks of firing rates, from the rarest to the most frequent
    any:N           N of all features, whether they fire or not: shows how many are dead

All but `any` look at the texts once before.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from heedful.core.errors import HeedfulError
from heedful.core.whole_numbers import whole_number

RULES = ("random", "most-active", "strongest", "spread", "any")
FEATURE_COUNT = 10


@dataclass(frozen=True)
class SelectionRule:
    name: str
    count: int

    @property
    def looks(self) -> bool:
        return self.name != "any"


@dataclass
class FiringRates:
    """How often each feature fires, and how strongly at most."""

    times: npt.NDArray[np.int64]  # (F,)
    most: npt.NDArray[np.float64]  # (F,)
    tokens: int = 0

    @classmethod
    def none(cls, features: int) -> FiringRates:
        return cls(np.zeros(features, np.int64), np.zeros(features))

    def add(self, values: npt.NDArray[np.float32]) -> None:
        """values (n, F)"""
        self.times += (values > 0).sum(0)
        self.most = np.maximum(self.most, values.max(0, initial=0.0))
        self.tokens += len(values)


def parse(text: str) -> SelectionRule:
    """random:10 or random"""
    name, _, count = text.strip().partition(":")
    number = whole_number(count) if count else FEATURE_COUNT
    if name not in RULES or not number:
        raise HeedfulError(f"features cannot be chosen by {text!r}", fix=f"Use {', '.join(RULES)} with :N")
    return SelectionRule(name, number)


def among(rule: SelectionRule, firing: FiringRates, lengths: npt.NDArray[np.float64], seed: int) -> list[int]:
    """lengths (F,) of the decoder rows; fewer than asked for where fewer fire."""
    rng = np.random.default_rng(seed)
    if rule.name == "any":
        total = len(firing.times)
        return sorted(rng.choice(total, min(rule.count, total), replace=False).tolist())
    alive = np.flatnonzero(firing.times)
    if not len(alive):
        raise HeedfulError(
            "no feature is active on these texts", f"{firing.tokens:,} tokens were read", "Use any:N"
        )
    count = min(rule.count, len(alive))
    if rule.name == "random":
        return sorted(rng.choice(alive, count, replace=False).tolist())
    if rule.name == "spread":
        ranked = alive[np.argsort(firing.times[alive], kind="stable")]
        return [int(f) for f in ranked[np.round(np.linspace(0, len(ranked) - 1, count)).astype(int)]]
    by = firing.times if rule.name == "most-active" else firing.most * lengths
    return [int(f) for f in alive[np.argsort(-by[alive], kind="stable")][:count]]
