"""The search for adversarial attention in some layers of one text; heedful.debate.adversary says what for.

Layers are searched side by side: a batch holds K candidates of each, and each layer changes its own only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from heedful.debate.asking import Change, ask
from heedful.debate.cases import Case, Cases
from heedful.debate.movable import Movable
from heedful.models.attending import Seen

PENALTY, NOISE = 500.0, 3.0  # of a change beyond epsilon; standard deviation of the starts
BISECTIONS = 10


@dataclass(frozen=True)
class Search:
    """How hard is searched."""

    epsilon: float = 0.01
    starts: int = 5  # K
    steps: int = 80
    rate: float = 1.0
    patience: int = 20  # steps without a better candidate, after which the search ends
    draws: int = 50  # R


@dataclass(frozen=True, eq=False)
class Ground:
    """One text and the layers that are searched together."""

    cases: Cases
    case: Case
    stack: str
    layers: Sequence[Movable]
    answer: Tensor  # (1, C) the model's own, from a pass like the others

    def changes(self, candidates: Sequence[Tensor]) -> list[Tensor]:
        """Of each layer's candidates (n, H, Q, T), how far they move the answer, (n,)."""
        counts = [len(some) for some in candidates]
        found = ask(self.cases, self.case, sum(counts), self._put(candidates, counts))
        return list(torch.split(self.cases.apart(found, self.answer).cpu(), counts))

    def _put(self, candidates: Sequence[Tensor], counts: Sequence[int]) -> Change:
        firsts = {f.layer: sum(counts[:i]) for i, f in enumerate(self.layers)}
        those = {f.layer: some for f, some in zip(self.layers, candidates, strict=True)}

        def change(seen: Seen, here: slice) -> Seen:
            layer = seen.site.layer
            if seen.site.stack != self.stack or layer not in those:
                return seen
            first = firsts[layer]
            low, high = max(first, here.start), min(first + len(those[layer]), here.stop)
            if low >= high:
                return seen
            own = seen.weights
            parts = [
                own[: low - here.start],
                those[layer][low - first : high - first],
                own[high - here.start :],
            ]
            return seen.reweighed(torch.cat([part.to(own) for part in parts]))

        return change


class Best:
    """The best feasible candidate of each layer so far; at first the model's own attention."""

    def __init__(self, ground: Ground, epsilon: float) -> None:
        self.ground, self.epsilon = ground, epsilon
        self.weights = [layer.own for layer in ground.layers]
        self.distance = [0.0] * len(ground.layers)
        self.change = [0.0] * len(ground.layers)
        self.rested = 0  # offers since the last better one

    def take(self, other: Best) -> None:
        """Begin with what another has found."""
        self.weights, self.distance = list(other.weights), list(other.distance)

    def offer(self, candidates: Sequence[Tensor], changes: Sequence[Tensor]) -> None:
        self.rested += 1
        for i, (layer, some, moved) in enumerate(zip(self.ground.layers, candidates, changes, strict=True)):
            apart = layer.apart(some, layer.own).masked_fill(moved > self.epsilon, -1.0)
            top = int(apart.argmax())
            if float(apart[top]) > self.distance[i]:
                if float(apart[top]) > self.distance[i] + 1e-4:
                    self.rested = 0
                self.distance[i], self.weights[i] = float(apart[top]), some[top].detach().clone()

    def verify(self) -> None:
        """Run what was found by itself; rounding may have let it pass, then it goes back a little."""
        for i, layer in enumerate(self.ground.layers):
            alone = replace(self.ground, layers=[layer])
            for _ in range(100):
                self.change[i] = float(alone.changes([self.weights[i][None]])[0][0])
                if self.change[i] <= self.epsilon:
                    break
                self.weights[i] = layer.own + 0.99 * (self.weights[i] - layer.own)
            else:
                self.weights[i], self.change[i] = layer.own, 0.0
            self.distance[i] = float(layer.apart(self.weights[i], layer.own))


def starts(layer: Movable, count: int, rng: torch.Generator) -> Tensor:
    """(n, H, Q, T) log-weights: uniform, and noise."""
    return NOISE * torch.randn(count, *layer.own.shape, generator=rng)


def climb(ground: Ground, best: Best, search: Search, rng: torch.Generator) -> list[Tensor]:
    """Adam from every start; returns the last candidates of each layer, (K, H, Q, T)."""
    logs = [starts(layer, search.starts, rng).requires_grad_() for layer in ground.layers]
    optimiser = torch.optim.Adam(logs, lr=search.rate)
    candidates: list[Tensor] = []
    for _ in range(search.steps):
        candidates = [layer.weights(some) for layer, some in zip(ground.layers, logs, strict=True)]
        changes = ground.changes(candidates)
        with torch.no_grad():
            best.offer(candidates, changes)
        if best.rested >= search.patience:
            break
        losses = [
            _loss(layer, some, moved, search.epsilon)
            for layer, some, moved in zip(ground.layers, candidates, changes, strict=True)
        ]
        for some, grad in zip(logs, torch.autograd.grad(torch.stack(losses).sum(), logs), strict=True):
            some.grad = grad
        optimiser.step()
    return [some.detach() for some in candidates]


def _loss(layer: Movable, some: Tensor, moved: Tensor, epsilon: float) -> Tensor:
    """Of one layer: far from the model's own, the answer kept, and apart from one another."""
    far = layer.apart(some, layer.own)  # (K,)
    total = (PENALTY * (moved - epsilon).clamp_min(0) - far).sum()
    if len(some) < 2:
        return total
    first, second = torch.triu_indices(len(some), len(some), 1)
    return total - layer.apart(some[first], some[second]).mean()


def drawn_back(ground: Ground, candidates: Sequence[Tensor], epsilon: float) -> list[Tensor]:
    """Each candidate moved towards the model's own attention, where nothing changes, until it is feasible.

    JSD grows all along the way out, so the farthest feasible point is looked for, by bisection: a feasible
    one is always found, and is the farthest where the change grows all along, too.
    """
    near = [torch.zeros(len(some), 1, 1, 1) for some in candidates]  # feasible
    far = [torch.ones_like(step) for step in near]
    tried = far
    for _ in range(BISECTIONS):
        changes = ground.changes(_between(ground, candidates, tried))
        for i, moved in enumerate(changes):
            fits = (moved <= epsilon)[:, None, None, None]
            near[i] = torch.where(fits, tried[i], near[i])
            far[i] = torch.where(fits, far[i], tried[i])
        tried = [(low + high) / 2 for low, high in zip(near, far, strict=True)]
    return _between(ground, candidates, near)


def _between(ground: Ground, candidates: Sequence[Tensor], steps: Sequence[Tensor]) -> list[Tensor]:
    return [
        layer.own + step * (some - layer.own)
        for layer, some, step in zip(ground.layers, candidates, steps, strict=True)
    ]
