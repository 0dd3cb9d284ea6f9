"""Activations made of known features: the ground truth against which dictionaries are tried.

    x = sum_i on_i m_i w_i (+ noise),   w_i unit vectors in R^d,   m_i = |1 + spread · normal|

    superposition  more features than dimensions: random directions. Without it: an orthonormal set, F <= d
    Zipf           P(on_i) is proportional to rank^-zipf, and sums to `active`, the mean number a row
    correlation    Gaussian copula of low rank: on_i = [g_i > t_i], g = s L u + sqrt(1 - s²) z, rows of L of
                   length one. P(on_i) stays what it was; corr(g_i, g_j) = s² <L_i, L_j>
    hierarchy      the first `roots` features have `branching` children each, these as many again, `depth`
                   levels deep. A child is on only if its parent is, siblings exclude each other, and a
                   parent that is on has a child that is on with chance `goes_on`:
                   P(child) = P(parent) goes_on / branching

PLAIN has superposition and Zipf alone. After SynthSAEBench-16k (2026: 16,384 features in R^768, exponent .5,
rank 25, 128 roots × 4 children × 3 levels), at a size for one core. Deterministic: batch t of a size
and seed is always the same. Cost: F normal numbers and a product of d·F a row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from heedful.core.errors import HeedfulError
from heedful.core.numbers import percent
from heedful.io.json_codec import to_jsonable


@dataclass(frozen=True)
class PlantedPlan:
    """What is planted."""

    features: int = 512
    d: int = 64
    active: float = 3.0  # mean number of features a row
    zipf: float = 0.5  # 0: all equally often
    superposed: bool = True
    spread: float = 0.25  # of the magnitudes
    noise: float = 0.0  # standard deviation of each coordinate
    rank: int = 0  # of the correlations; 0: independent
    strength: float = 0.6  # s, of the correlations
    roots: int = 0  # of the hierarchy; 0: none
    branching: int = 3
    depth: int = 2
    goes_on: float = 0.8
    seed: int = 0  # of the directions

    def to_dict(self) -> dict[str, Any]:
        return dict(to_jsonable(self))


PLAIN = PlantedPlan()
QUICK = PlantedPlan(features=128, d=32, active=2.0)


def correlated(plan: PlantedPlan) -> PlantedPlan:
    """With low-rank correlations."""
    return replace(plan, rank=max(2, plan.features // 40))


def hierarchical(plan: PlantedPlan) -> PlantedPlan:
    """With trees that hold about 40 % of the features."""
    tree = sum(plan.branching**level for level in range(plan.depth + 1))
    return replace(plan, roots=max(1, round(0.4 * plan.features / tree)))


def full(plan: PlantedPlan) -> PlantedPlan:
    """With both."""
    return hierarchical(correlated(plan))


@dataclass(frozen=True, eq=False)
class Synthetic:
    """An endless stream of activations with known features, to train on like a harvested store."""

    plan: PlantedPlan
    rows: int = 1_000_000  # what counts as once through the data

    def __post_init__(self) -> None:
        _check(self.plan)
        if float(self.chances.max()) > 0.5:
            raise HeedfulError(
                f"a feature would be on in {percent(float(self.chances.max()))} of the samples",
                "that is not sparse",
                "Use a smaller `active` or more features",
            )

    @property
    def d(self) -> int:
        return self.plan.d

    @cached_property
    def directions(self) -> Tensor:
        """(F, d) unit rows."""
        plan = self.plan
        draw = torch.Generator().manual_seed(plan.seed)
        free = torch.randn(plan.features, plan.d, generator=draw, dtype=torch.float64)
        if plan.superposed:
            return torch.nn.functional.normalize(free, dim=1).float()
        basis: Tensor = torch.linalg.qr(free.T).Q.T.float().contiguous()
        return basis

    @cached_property
    def levels(self) -> list[tuple[int, int]]:
        """First and last + 1 feature of each level of the hierarchy; roots first."""
        plan, results, first = self.plan, [], 0
        for level in range(plan.depth + 1 if plan.roots else 0):
            size = plan.roots * plan.branching**level
            results.append((first, first + size))
            first += size
        return results

    @cached_property
    def parents(self) -> Tensor:
        """(F,) the parent of each feature; -1: none."""
        parents = torch.full((self.plan.features,), -1)
        for (above, _), (first, last) in zip(self.levels, self.levels[1:], strict=False):
            parents[first:last] = above + torch.arange(last - first) // self.plan.branching
        return parents

    @cached_property
    def chances(self) -> Tensor:
        """(F,) P(on_i), exactly."""
        plan, chances = self.plan, torch.zeros(self.plan.features, dtype=torch.float64)
        top = self.parents < 0
        chances[top] = torch.arange(1, int(top.sum()) + 1, dtype=torch.float64) ** -plan.zipf
        for first, last in self.levels[1:]:
            chances[first:last] = chances[self.parents[first:last]] * plan.goes_on / plan.branching
        return chances * (plan.active / chances.sum())

    @cached_property
    def _loadings(self) -> Tensor:
        """(F, rank) unit rows of L."""
        draw = torch.Generator().manual_seed(self.plan.seed + 1)
        free = torch.randn(self.plan.features, self.plan.rank, generator=draw)
        return torch.nn.functional.normalize(free, dim=1)

    def codes(self, rows: int, draw: torch.Generator) -> Tensor:
        """(rows, F) how strongly each feature is on; 0: it is not."""
        plan = self.plan
        on = self._fired(rows, draw)
        size = 1 + plan.spread * torch.randn(rows, plan.features, generator=draw)
        return on * size.abs()

    def _fired(self, rows: int, draw: torch.Generator) -> Tensor:
        plan = self.plan
        level = torch.randn(rows, plan.features, generator=draw)
        if plan.rank:
            shared = torch.randn(rows, plan.rank, generator=draw) @ self._loadings.T
            level = plan.strength * shared + (1 - plan.strength**2) ** 0.5 * level
        on: Tensor = level > -torch.special.ndtri(self.chances).float()
        for (above, below), (first, last) in zip(self.levels, self.levels[1:], strict=False):
            # one number a parent decides which child follows, if any
            which = torch.rand(rows, below - above, generator=draw) * plan.branching / plan.goes_on
            child = torch.arange(last - first) % plan.branching
            chosen = which.repeat_interleave(plan.branching, dim=1).floor() == child
            on[:, first:last] = chosen & on[:, self.parents[first:last]]
        return on

    def draw(self, rows: int, seed: int) -> tuple[Tensor, Tensor]:
        """Activations (rows, d) and the codes (rows, F) they are made of."""
        draw = torch.Generator().manual_seed(seed)
        codes = self.codes(rows, draw)
        x = codes @ self.directions
        if self.plan.noise:
            x = x + self.plan.noise * torch.randn(x.shape, generator=draw)
        return x, codes

    def batches(self, size: int, seed: int = 0, *, start: int = 0) -> Iterator[Tensor]:
        """Endless new batches (size, d); number `start` is the first one given."""
        while True:
            yield self.draw(size, _mixed(self.plan.seed, seed, start))[0]
            start += 1


def _mixed(*numbers: int) -> int:
    """One seed of several: streams of neighbouring seeds must not share batches."""
    state = 0
    for number in numbers:
        state = (state ^ (number + 1)) * 0x9E3779B97F4A7C15 % 2**63
        state ^= state >> 29
    return state


def _check(plan: PlantedPlan) -> None:
    tree = plan.roots * sum(plan.branching**level for level in range(plan.depth + 1))
    if tree > plan.features:
        raise HeedfulError(
            f"the hierarchy needs {tree} features", f"there are {plan.features}", "Use fewer roots"
        )
    if not plan.superposed and plan.features > plan.d:
        what = f"{plan.features} features do not fit {plan.d} dimensions without superposition"
        raise HeedfulError(what, fix="Use superposed=True or features <= d")
    if min(plan.features, plan.d) < 1 or not 0 < plan.active < plan.features or plan.zipf < 0:
        raise HeedfulError("a benchmark without features, dimensions or active features cannot be made")
    if not (0 <= plan.strength < 1 and 0 < plan.goes_on <= 1 and plan.rank >= 0):
        raise HeedfulError("strength is in [0, 1), goes_on in (0, 1], and the rank is not negative")
