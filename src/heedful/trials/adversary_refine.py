"""The second half of the adversary's search: along the attention that keeps the answer, wherever that leads.

A small epsilon leaves a thin sheet of weights that keep the answer. Gradient steps of a fixed size leave it
at once, and random directions hardly ever lie in it. Here a round, from weights that keep the answer,

    1. differentiates the answer, along the axes in which small random moves shift it: one backward per axis
    2. makes a path of growing steps that keep the linearised answer (heedful.trials.adversary_steps; no
    passes) 3. runs the points of the path, corrects each by the answer it turned out to have, runs it again,
    twice 4. goes on from the farthest point that kept the answer; if none was farther, with smaller steps

The axes stay good, since the answer stays where it is: whatever the attention, it can move in the same
directions. The first round starts from the model's own attention, in several directions with one derivative.
Then the farthest candidates go on, those of the climb among them. What counts was run, and kept the answer.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from heedful.trials.adversary_search import BestCandidates, Search, SearchProblem, starts
from heedful.trials.adversary_steps import Linear
from heedful.trials.free_weights import Movable

AXES, MISSED = 32, 0.1  # of the answer, at most; and the part of the slack that may lie beyond them
PATH, FIRST, GROWTH = 8, 0.003, 3.0  # points of a path, eta of the first, and how it grows
CORRECTIONS = 2
AIMS = 5  # directions from the model's own attention
KEPT = 3  # candidates that go on
UNMOVED_JSD = 1e-9  # JSD of a candidate that has not moved
STEPS = 20  # of the climb, that one round stands for
MARGIN = 0.5  # of epsilon, that a step may use along the axes; the rest is for what they miss
LOCAL = 10.0  # epsilons that the answer moves where its axes are taken
REACH_GROWTH, REACH_DECAY = 1.5, 0.25  # factors after a round that helped, and one that did not
MAX_REACH, MIN_REACH = 1.8, 0.02  # below the least, a candidate is over


class Followed:
    """One layer: the candidates a round begins from, and the path of each."""

    def __init__(
        self, problem: SearchProblem, layer: Movable, drawn: Tensor, aims: Tensor, epsilon: float
    ) -> None:
        """`drawn` (R, C) are answers to small random moves of this layer's weights; aims (k, H, Q, T)."""
        self.layer, self.epsilon = layer, epsilon
        y, change = problem.residuals(drawn).cpu(), problem.cases.apart(drawn, problem.answer).cpu()
        ratios = (y.norm(dim=-1) / change)[change > 0]
        self.slack = MARGIN * epsilon * (float(ratios.median()) if len(ratios) else 1.0)  # in units of y
        _, sizes, rows = torch.linalg.svd(y, full_matrices=False)
        left = (sizes**2).flip(0).cumsum(0).flip(0)  # what random weights move beyond each axis
        missed = len(y) * (MISSED * self.slack) ** 2
        self.axes = rows[: max(1, int((left[:AXES] > missed).sum()))]  # (m, C)
        self.goals = self._shares(aims)  # (k, X, T) where to, from the model's own attention
        self.begin(layer.own[None].double())

    def begin(self, weights: Tensor) -> None:
        """(n, H, Q, T): from here, with full steps."""
        self.weights, self.reach = weights, torch.ones(len(weights), dtype=torch.float64)
        self.distance = self.layer.apart(weights, self.layer.own)

    def farthest(self, more: Tensor) -> None:
        """Begin again from the farthest of these and more weights."""
        weights = torch.cat([self.weights, more.double()])
        self.begin(weights[self.layer.apart(weights, self.layer.own).argsort(descending=True)[:KEPT]])

    def project(self, problem: SearchProblem, answers: Tensor) -> Tensor:
        """(n, C) -> (n, m): y."""
        y: Tensor = problem.residuals(answers) @ self.axes.T.to(answers)
        return y

    def set_out(self, jacobian: Tensor, y: Tensor, first: bool) -> None:
        """Make the paths (n, k, X, T), from J (n, m, H, Q, T) by weights and y (n, m)."""
        layer = self.layer
        price = (layer.importance.double() / len(layer.own)).repeat(len(layer.own))
        free = layer.free.flatten(0, 1)
        self.linear = Linear(
            self._shares(layer.own),
            free,
            torch.where(free.any(-1), price, 1.0),
            (jacobian.double().cpu() * layer.mass * layer.free).flatten(2, 3),
        )
        self.starts = len(self.goals) if first else len(self.weights)
        goals = self.goals[None] if first else self.goals[: self.starts, None]
        p = self._shares(self.weights)[:, None].expand(-1, goals.shape[1], -1, -1)
        y = y[:, None].expand(-1, goals.shape[1], -1)
        still = (self.distance < UNMOVED_JSD)[
            :, None, None, None
        ]  # at the model's own attention nothing leads up
        path = []
        for number in range(PATH):
            g = self.linear.upwards(torch.where(still, goals, p))
            new = self.linear.step(p, y, g, FIRST * GROWTH**number * self.reach, self.slack * self.reach)
            p, y = new, y + self.linear.moved(new - p)
            path.append(new)
        self.paths = torch.stack(path, 2).flatten(1, 2)
        self.weights, self.reach = (
            part.expand(self.starts, *part.shape[1:]) for part in (self.weights, self.reach)
        )
        self.begun = self.distance = self.distance.expand(self.starts)

    def correct(self, y: Tensor) -> None:
        """The paths, back to where the answer is kept; y (n * k, m) is theirs, J that of their start."""
        n = len(self.linear.jacobian)
        ones, none = torch.ones(n, dtype=torch.float64), torch.zeros_like(self.paths)
        y = y.reshape(*self.paths.shape[:2], -1)
        self.paths = self.linear.step(self.paths, y, none, ones, self.slack * self.reach[:n])

    def candidates(self) -> Tensor:
        """(n * k, H, Q, T): the weights of the paths."""
        dealt = self.paths.reshape(-1, *self.layer.own.shape) * self.layer.mass
        return torch.where(self.layer.free, dealt, self.layer.own.double())

    def keep(self, candidates: Tensor, changes: Tensor) -> None:
        """The farthest feasible one of each path, if it is farther than where the path began."""
        apart = self.layer.apart(candidates, self.layer.own).masked_fill(changes > self.epsilon, -1.0)
        apart, place = apart.reshape(self.starts, -1).max(1)
        chosen = candidates.reshape(self.starts, -1, *candidates.shape[1:])[range(self.starts), place]
        farther = apart > self.distance
        self.weights = torch.where(farther[:, None, None, None], chosen, self.weights)
        self.distance = torch.where(farther, apart, self.distance)

    def judge(self) -> None:
        """Shorter steps for candidates that hardly moved."""
        helped = self.distance > 1.01 * self.begun
        self.reach = torch.where(
            helped, (REACH_GROWTH * self.reach).clamp_max(MAX_REACH), REACH_DECAY * self.reach
        )

    def _shares(self, weights: Tensor) -> Tensor:
        """(..., H, Q, T) -> (..., X, T)"""
        return self.layer.over_words(weights.double()).flatten(-3, -2)


def follow(
    problem: SearchProblem,
    best: BestCandidates,
    search: Search,
    ends: Sequence[Tensor],
    drawn: Sequence[tuple[Tensor, Tensor]],
    rng: torch.Generator,
) -> None:
    """Offer `best` what is found from the model's own attention and from feasible weights `ends` (n, H, Q, T)
    of each layer; `drawn` are random weights of each (R, H, Q, T), and how far they move the answer (R,)."""
    small = _small_moves(problem, search, drawn)
    layers = []
    for movable, answers in zip(problem.layers, small, strict=True):
        aims = torch.cat([movable.farthest()[None], movable.weights(starts(movable, AIMS - 1, rng))])
        layers.append(Followed(problem, movable, answers, aims, search.epsilon))
    _round(problem, best, layers, first=True)
    for layer, some in zip(layers, ends, strict=True):
        layer.farthest(some)
    best.history.append(list(best.distance))
    for _ in range(max(1, round(search.steps / STEPS))):
        if all(layer.layer.stuck or bool((layer.reach < MIN_REACH).all()) for layer in layers):
            break
        _round(problem, best, layers)
        best.history.append(list(best.distance))


def _small_moves(
    problem: SearchProblem, search: Search, drawn: Sequence[tuple[Tensor, Tensor]]
) -> list[Tensor]:
    """(R, C) of each layer: answers part of the way to random weights, where they move by a few epsilons."""
    parts = []
    for layer, (weights, changes) in zip(problem.layers, drawn, strict=True):
        share = (LOCAL * search.epsilon / changes.clamp_min(1e-30)).clamp_max(1.0)
        parts.append(layer.own + share[:, None, None, None] * (weights - layer.own))
    return problem.answers(parts)


def _round(
    problem: SearchProblem, best: BestCandidates, layers: Sequence[Followed], first: bool = False
) -> None:
    """A path from every candidate; in the first round, from one candidate to every aim."""
    for layer, (jacobian, y) in zip(layers, _jacobians(problem, layers), strict=True):
        layer.set_out(jacobian, y, first)
    for left in reversed(range(CORRECTIONS + 1)):
        candidates = [layer.candidates() for layer in layers]
        answers = problem.answers(candidates)
        changes = [problem.cases.apart(some, problem.answer).cpu() for some in answers]
        best.offer(candidates, changes)
        for layer, some, moved, reached in zip(layers, candidates, changes, answers, strict=True):
            layer.keep(some, moved)
            if left:
                layer.correct(layer.project(problem, reached).cpu())
    for layer in layers:
        layer.judge()


def _jacobians(problem: SearchProblem, layers: Sequence[Followed]) -> list[tuple[Tensor, Tensor]]:
    """Of each layer, J (n, m, H, Q, T) at its candidates, by their weights, and y (n, m)."""
    axes = max(len(layer.axes) for layer in layers)
    with torch.inference_mode(False), torch.enable_grad():
        leaves = [layer.weights.detach().clone().requires_grad_() for layer in layers]
        answers = problem.answers(leaves)  # counts one backward each
        ys = [layer.project(problem, some) for layer, some in zip(layers, answers, strict=True)]
        rows = []
        with problem.cases.model.meter.counted(backwards=(axes - 1) * sum(map(len, leaves))):
            for axis in range(axes):
                total = torch.stack([y[:, min(axis, y.shape[1] - 1)].sum() for y in ys]).sum()
                rows.append(torch.autograd.grad(total, leaves, retain_graph=axis < axes - 1))
    return [
        (torch.stack([row[i] for row in rows[: y.shape[1]]], 1), y.detach().cpu()) for i, y in enumerate(ys)
    ]
