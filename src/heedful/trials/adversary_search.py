"""The search for adversarial attention in some layers of one text; heedful.trials.tests.adversary says what
for.

Layers are searched side by side: a batch holds K candidates of each, and each layer changes its own only.

    minimise  w strain / epsilon^2 - JSD,   strain = 1/4 sum (answer' - answer)^2 / answer  >=  TVD^2

TVD has a kink wherever one of its terms is zero, and a fixed price on it is paid in full or not at all: Adam
then remembers the price, and hardly moves once the answer is kept. Strain is smooth, and each candidate has
a price w of its own, a tenth more after a step with another answer, a tenth less after one that keeps it.
Steps get smaller, so that candidates settle at the border. Only the true change decides what is feasible.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from heedful.models.attention_hooks import AttentionState
from heedful.trials.examples import Cases, Example
from heedful.trials.forward import Change, ask
from heedful.trials.free_weights import Movable

NOISE = 3.0  # standard deviation of the starts
PRICE_GROWTH, PRICE_DECAY, PRICE_RANGE = (
    1.1,
    0.9,
    (1e-3, 1e3),
)  # what a step does to a candidate's price, and its limits
RARE = 1e-3  # added to probabilities below strain's line: rare answers do not count for more than that
END = 0.05  # of the rate, at the last step
BISECTIONS = 10


@dataclass(frozen=True)
class Search:
    """Settings of the search: the allowed change of the answer, and the amount of work."""

    epsilon: float = 0.01
    starts: int = 5  # K
    steps: int = 160  # of the first climb, at most
    rate: float = 1.0
    patience: int = 40  # steps with feasible candidates, but no better one, after which a climb ends
    draws: int = 50  # R


@dataclass(frozen=True, eq=False)
class SearchProblem:
    """One text and the layers that are searched together."""

    cases: Cases
    case: Example
    stack: str
    layers: Sequence[Movable]
    answer: Tensor  # (1, C) the model's own, from a pass like the others

    def changes(self, candidates: Sequence[Tensor]) -> list[Tensor]:
        """Of each layer's candidates (n, H, Q, T), how far they move the answer, (n,)."""
        return self.pulled(candidates)[0]

    def pulled(self, candidates: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """The same, and the strain, (n,)."""
        answers = self.answers(candidates)
        changes = [self.cases.apart(some, self.answer).cpu() for some in answers]
        return changes, [(self.residuals(some) ** 2).sum(-1).cpu() for some in answers]

    def answers(self, candidates: Sequence[Tensor]) -> list[Tensor]:
        """Of each layer's candidates (n, H, Q, T), the answers (n, C)."""
        counts = [len(some) for some in candidates]
        answers = ask(self.cases, self.case, sum(counts), self._put(candidates, counts))
        return list(torch.split(answers, counts))

    def residuals(self, answers: Tensor) -> Tensor:
        """(n, C): how answers differ from the model's own; the sum of squares is the strain."""
        gaps = answers - self.answer
        if self.cases.model.kind == "regression":
            return gaps
        return gaps / (2 * (self.answer + RARE).sqrt())

    def _put(self, candidates: Sequence[Tensor], counts: Sequence[int]) -> Change:
        firsts = {f.layer: sum(counts[:i]) for i, f in enumerate(self.layers)}
        those = {f.layer: some for f, some in zip(self.layers, candidates, strict=True)}

        def change(state: AttentionState, here: slice) -> AttentionState:
            layer = state.site.layer
            if state.site.stack != self.stack or layer not in those:
                return state
            first = firsts[layer]
            low, high = max(first, here.start), min(first + len(those[layer]), here.stop)
            if low >= high:
                return state
            own = state.weights
            parts = [
                own[: low - here.start],
                those[layer][low - first : high - first],
                own[high - here.start :],
            ]
            return state.reweighed(torch.cat([part.to(own) for part in parts]))

        return change


class BestCandidates:
    """The best feasible candidate of each layer so far; at first the model's own attention."""

    def __init__(self, problem: SearchProblem, epsilon: float) -> None:
        self.problem, self.epsilon = problem, epsilon
        self.weights = [layer.own for layer in problem.layers]
        self.distance = [0.0] * len(problem.layers)
        self.change = [0.0] * len(problem.layers)
        self.rested = [0] * len(problem.layers)  # offers of something feasible since the last better one
        self.history: list[list[float]] = []  # distances after each round of heedful.trials.adversary_refine

    def take(self, other: BestCandidates) -> None:
        """Begin with what another has found."""
        self.weights, self.distance = list(other.weights), list(other.distance)

    def offer(self, candidates: Sequence[Tensor], changes: Sequence[Tensor]) -> None:
        for i, (layer, some, moved) in enumerate(zip(self.problem.layers, candidates, changes, strict=True)):
            apart = layer.apart(some, layer.own).masked_fill(moved > self.epsilon, -1.0)
            top = int(apart.argmax())
            farther = float(apart[top]) - self.distance[i]
            if farther > 1e-4:
                self.rested[i] = 0
            elif float(apart[top]) >= 0:  # as long as none is feasible, patience waits
                self.rested[i] += 1
            if farther > 0:
                self.distance[i], self.weights[i] = float(apart[top]), some[top].detach().clone()

    def over(self, patience: int) -> bool:
        """No layer that can move has become better for so long, with candidates that kept the answer."""
        pairs = zip(self.problem.layers, self.rested, strict=True)
        return all(layer.stuck or rested >= patience for layer, rested in pairs)

    def late(self) -> list[float]:
        """Share of each layer's distance that came in the last quarter of the rounds: near 0 if settled."""
        before = self.history[-(len(self.history) // 4) - 1]
        pairs = zip(before, self.distance, strict=True)
        return [max(0.0, 1 - then / now) if now > 0 else 0.0 for then, now in pairs]

    def verify(self) -> None:
        """Run what was found by itself; rounding may have let it pass, then it goes back a little."""
        for i, layer in enumerate(self.problem.layers):
            alone = replace(self.problem, layers=[layer])
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


def ascend(
    problem: SearchProblem, best: BestCandidates, search: Search, rng: torch.Generator
) -> list[Tensor]:
    """Adam on log-weights from every random start, until the steps or the patience end.

    Returns the last candidates of each layer, (K, H, Q, T)."""
    logs = [starts(layer, search.starts, rng).requires_grad_() for layer in problem.layers]
    optimiser = torch.optim.Adam(logs, lr=search.rate, betas=(0.9, 0.99))
    prices = [torch.ones(len(some), dtype=torch.float64) for some in logs]
    best.rested = [0] * len(logs)
    scale = max(search.epsilon, 1e-6) ** 2
    candidates: list[Tensor] = []
    for step in range(search.steps):
        candidates = [layer.weights(some) for layer, some in zip(problem.layers, logs, strict=True)]
        changes, strains = problem.pulled(candidates)
        with torch.no_grad():
            best.offer(candidates, changes)
        if best.over(search.patience):
            break
        loss = torch.zeros((), dtype=torch.float64)
        for i, (layer, some, moved) in enumerate(zip(problem.layers, candidates, changes, strict=True)):
            factor = torch.where(moved.detach() > search.epsilon, PRICE_GROWTH, PRICE_DECAY)
            prices[i] = (prices[i] * factor).clamp(*PRICE_RANGE)
            loss = loss + (prices[i] * strains[i]).sum() / scale - _spread(layer, some)
        for some, grad in zip(logs, torch.autograd.grad(loss, logs), strict=True):
            some.grad = grad
        optimiser.param_groups[0]["lr"] = search.rate * (1 - (1 - END) * step / search.steps)
        optimiser.step()
    return [some.detach() for some in candidates]


def _spread(layer: Movable, some: Tensor) -> Tensor:
    """Of one layer: far from the model's own, and apart from one another."""
    far = layer.apart(some, layer.own).sum()
    if len(some) < 2:
        return far
    first, second = torch.triu_indices(len(some), len(some), 1)
    return far + layer.apart(some[first], some[second]).mean()


def project_back(problem: SearchProblem, candidates: Sequence[Tensor], epsilon: float) -> list[Tensor]:
    """Each candidate moved towards the model's own attention, where nothing changes, until it is feasible.

    JSD grows all along the way out, so the farthest feasible point is looked for, by bisection: a feasible
    one is always found, and is the farthest where the change grows all along, too.
    """
    near = [torch.zeros(len(some), 1, 1, 1) for some in candidates]  # feasible
    far = [torch.ones_like(step) for step in near]
    tried = far
    for _ in range(BISECTIONS):
        changes = problem.changes(_between(problem, candidates, tried))
        for i, moved in enumerate(changes):
            fits = (moved <= epsilon)[:, None, None, None]
            near[i] = torch.where(fits, tried[i], near[i])
            far[i] = torch.where(fits, far[i], tried[i])
        tried = [(low + high) / 2 for low, high in zip(near, far, strict=True)]
    return _between(problem, candidates, near)


def _between(problem: SearchProblem, candidates: Sequence[Tensor], steps: Sequence[Tensor]) -> list[Tensor]:
    return [
        layer.own + step * (some - layer.own)
        for layer, some, step in zip(problem.layers, candidates, steps, strict=True)
    ]
