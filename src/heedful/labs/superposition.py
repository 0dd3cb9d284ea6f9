"""Superposition: a layer keeps more features than it has dimensions, once features are sparse enough.

Toy model: n features, m < n dimensions, the rows of W (n, m) are the directions features are given.

    x_i = 0 with probability S, else uniform in [0, 1]           S: sparsity, p = 1 - S: density
    x' = ReLU(W Wᵀ x + b),    loss = E sum_i I_i (x_i - x'_i)²   I_i: importance
    features per dimension    ||W||² / m
    dimensionality of i       D_i = ||W_i||² / sum_j (W_i·W_j / ||W_i||)²    1 alone, 1/2 in an opposite pair

Two features of importance 1 and r in one dimension have two candidates, whose losses are integrals:

    keep one     W = (1, 0), b = (0, p/2):   loss = r (p/3 - p²/4)
    opposite     W = (1, -1), b = 0:         loss = (1 + r) p²/6
    so they share the dimension below the density p* = 4r / (2 + 5r)

Some starts end in a worse minimum, and some are not done when training ends: as in the paper, a toy is the
best by loss of several restarts. Many toys train at once, one batched product.

Polysemantic without superposition: one neuron, four features (heedful.labs.models.one_neuron). Draws: the
directions by density, features per dimension, two features in one dimension.

Elhage et al., Toy Models of Superposition, 2022; Bricken et al. 2023 (the neuron and four features).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor

from heedful.core.charts import Arrows, Curve, Curves, Panel
from heedful.labs.base.claims import claim_all, claim_mean
from heedful.labs.base.registry import LabRun, lab
from heedful.labs.models.one_neuron import one_neuron
from heedful.stats.intervals import UNIT

DENSITIES = (1.0, 0.3, 0.1, 0.03, 0.01)
MIN_KEPT_LENGTH = 0.5  # a direction longer than this
RESTARTS = 4


@dataclass(frozen=True, eq=False)
class Toys:
    """M trained models of one shape."""

    directions: Tensor  # W (M, n, m)
    bias: Tensor  # (M, n)

    @property
    def per_dimension(self) -> Tensor:
        """(M,) ||W||² / m"""
        return self.directions.square().sum((1, 2)) / self.directions.shape[2]


@lab(
    "superposition",
    title="Toy models of superposition",
    minutes=3.0,
    cite="Elhage et al. 2022; Bricken et al. 2023",
)
def superposition(run: LabRun) -> None:
    by_density(run)
    shapes(run)
    sweep(run)
    two_in_one(run)
    one_neuron(run)


# --- the toy model ---------------------------------------------------------------------------------


def train(density: Tensor, importance: Tensor, m: int, steps: int, seed: int, batch: int = 256) -> Toys:
    """density (M,), importance (M, n): every toy its own; Adam, the rate falling to zero."""
    rng = torch.Generator().manual_seed(seed)
    count, n = importance.shape
    w = (torch.randn(count, n, m, generator=rng) / math.sqrt(n)).requires_grad_()
    b = torch.zeros(count, 1, n, requires_grad=True)
    adam = torch.optim.Adam([w, b], lr=1e-2, fused=True)
    p, weight = density[:, None, None], importance[:, None] / density[:, None, None]
    for step in range(steps):
        adam.param_groups[0]["lr"] = 5e-3 * (1 + math.cos(math.pi * step / steps))
        draw = torch.rand(count, batch, n, generator=rng)
        x = torch.where(draw < p, draw / p, 0.0)  # uniform where it is below p: one draw does for both
        loss = (weight * (x - output(x, w, b)).square()).sum(2).mean(1)  # (M,)
        adam.zero_grad()
        loss.sum().backward()  # type: ignore[no-untyped-call]
        adam.step()
    return Toys(w.detach(), b.detach()[:, 0])


def output(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    """ReLU(W Wᵀ x + b) of rows x (M, B, n)."""
    return torch.relu(x @ w @ w.mT + b)


def dimensionality(w: Tensor) -> Tensor:
    """W (..., n, m) -> D (..., n); 0 of a feature that is not kept."""
    length = w.norm(dim=-1, keepdim=True)
    overlap = (w / length.clamp(min=1e-12)) @ w.mT  # (..., n, n)
    tensor: Tensor = length[..., 0].square() / overlap.square().sum(-1).clamp(min=1e-12)
    return tensor


# --- what is kept, by density ----------------------------------------------------------------------


def by_density(run: LabRun) -> None:
    """Five features of falling importance in two dimensions."""
    run.say(
        "Five features share two dimensions. Each feature is 0.8 times as important as the one before. If "
        "all features are active at once, there is only room for two. If they are rarely active together, "
        "they rarely disturb each other, and the ReLU removes most of the disturbance. Then the model keeps "
        "more than two features."
    )
    run.progress(0, 4, "training toy models")
    toys = 8 if run.fast else 12
    density = torch.tensor(DENSITIES).repeat_interleave(toys)
    importance = (0.8 ** torch.arange(5.0)).expand(len(density), 5)
    trained = train(density, importance, 2, 1500 if run.fast else 4000, run.seed)
    w = trained.directions.view(len(DENSITIES), toys, 5, 2)
    kept = (w.norm(dim=3) > MIN_KEPT_LENGTH).sum(2).double()  # (densities, toys)
    panels = [
        Panel(f"p = {p:g}", w[k, 0].tolist(), f"{int(kept[k, 0])} features kept")
        for k, p in enumerate(DENSITIES)
    ]
    run.figure(
        "directions",
        Arrows(panels, "Directions of five features in two dimensions"),
        "The directions of five features, by density p: the share of inputs in which a feature is active.",
    )
    share = w.square().sum(3)[..., :2].sum(2) / w.square().sum((2, 3))
    claim_mean(
        run,
        "Dense features (always active): more than four fifths of ||W||² belong to the two most important "
        "features.",
        share[0].double().numpy(),
        above=0.8,
        against=float(share[-1].mean()),
        control="this share if features are sparse",
        limits=UNIT,
    )
    claim_mean(
        run,
        "Sparse features (rarely active): the model keeps more features than it has dimensions (value: "
        "number of features kept).",
        kept[-1].numpy(),
        above=3.0,
        limits=(0.0, 5.0),
        against=float(kept[0].mean()),
        control="features kept if all are always active",
    )


# --- regular shapes --------------------------------------------------------------------------------


def shapes(run: LabRun) -> None:
    """Features of one importance repel each other: pairs and pentagons."""
    toys, steps = (5, 1500) if run.fast else (10, 4000)
    run.progress(1, 4, "training toy models")
    six = best_equal(6, 3, 0.1, toys, steps, run.seed + 1)
    five = best_equal(5, 2, 0.05, toys, steps, run.seed + 2)
    chance = torch.Generator().manual_seed(run.seed)
    run.say(
        "The directions of features of equal importance are as far from each other as possible. The "
        "dimensionality of a feature is the share of a dimension that it gets. It shows the shape: one "
        "half in opposite pairs, two fifths in a pentagon."
    )
    claim_all(
        run,
        "Six sparse features in three dimensions form opposite pairs: the cosine of every feature with its "
        "partner is near -1.",
        opposite(six).double().numpy(),
        below=-0.95,
        against=float(opposite(torch.randn(200, 6, 3, generator=chance)).mean()),
        control="mean for six random directions",
    )
    claim_all(
        run,
        "Each feature in such a pair has a dimensionality of one half, with an error of at most a hundredth "
        "(value: largest error).",
        (dimensionality(six) - 1 / 2).abs().double().numpy(),
        below=0.01,
    )
    claim_all(
        run,
        "Five sparse features in two dimensions form a pentagon: all angles between neighbours differ from "
        "72 degrees by less than 5 (value: largest difference).",
        unevenness(five).double().numpy(),
        below=5.0,
        against=float(unevenness(torch.randn(200, 5, 2, generator=chance)).mean()),
        control="mean of the largest difference for five random directions",
    )
    claim_all(
        run,
        "Each feature in the pentagon has a dimensionality of two fifths, with an error of at most a "
        "hundredth (value: largest error).",
        (dimensionality(five) - 2 / 5).abs().double().numpy(),
        below=0.01,
    )


def best_equal(n: int, m: int, p: float, toys: int, steps: int, seed: int) -> Tensor:
    """(toys, n, m) directions of n equal features, each toy the best of several restarts by loss."""
    count = toys * RESTARTS
    trained = train(torch.full((count,), p), torch.ones(count, n), m, steps, seed)
    rng = torch.Generator().manual_seed(seed)
    draw = torch.rand(1, 20_000, n, generator=rng)  # the same inputs for all
    x = torch.where(draw < p, draw / p, 0.0)
    missed = x - output(x, trained.directions, trained.bias[:, None])  # (M, B, n)
    best = missed.square().sum(2).mean(1).view(toys, RESTARTS).argmin(1)
    return trained.directions.view(toys, RESTARTS, n, m)[torch.arange(toys), best]


def opposite(w: Tensor) -> Tensor:
    """(M, n, m) -> (M, n) the cosine of every feature with the most opposed other one."""
    unit = torch.nn.functional.normalize(w, dim=2)
    return (unit @ unit.mT).amin(2)


def unevenness(w: Tensor) -> Tensor:
    """(M, n, 2) -> (M,) by how many degrees the angle between neighbours is off 360/n, at most."""
    angles = torch.atan2(w[..., 1], w[..., 0]).sort(1).values
    gaps = torch.cat([angles, angles[:, :1] + 2 * math.pi], 1).diff(dim=1)
    return (gaps.rad2deg() - 360 / w.shape[1]).abs().amax(1)


# --- many features ---------------------------------------------------------------------------------


def sweep(run: LabRun) -> None:
    """Features per dimension as they get sparser."""
    n, m, toys, steps = (20, 5, 3, 600) if run.fast else (40, 10, 3, 3000)
    levels = torch.logspace(0, -2, 7 if run.fast else 15)
    run.progress(2, 4, "training toy models")
    density = levels.repeat_interleave(toys)
    trained = train(density, torch.ones(len(density), n), m, steps, run.seed + 3)
    each = trained.per_dimension.view(len(levels), toys)
    points = list(zip((1 / levels).tolist(), each.mean(1).tolist(), strict=True))
    low, high = each.amin(1).tolist(), each.amax(1).tolist()
    run.figure(
        "features-per-dimension",
        Curves(
            [Curve("trained models", points, low, high)],
            "1 / density",
            "features per dimension",
            "Features per dimension by sparsity",
            log="x",
        ),
        f"{n} features of equal importance in {m} dimensions: ||W||²/m by sparsity, with the range over "
        f"{toys} models. A direction may be longer than one, so ||W||²/m may be larger than {n // m}.",
    )
    claim_mean(
        run,
        "Dense features of equal importance: by the paper's measure, ||W||²/m, there is one feature per "
        "dimension.",
        each[0].double().numpy(),
        above=0.9,
        below=1.1,
    )
    claim_mean(
        run,
        "Sparse features of equal importance: by the same measure, there are several features per dimension.",
        each[-1].double().numpy(),
        above=2.5,
        against=float(each[0].mean()),
        control="features per dimension if all are always active",
    )


# --- two features, one dimension -------------------------------------------------------------------


def two_in_one(run: LabRun) -> None:
    """Of several toys the one of least loss shares the dimension below p*, and drops a feature above."""
    run.say(
        "Two features compete for one dimension. The first has importance 1, the second importance r. "
        "Either the second feature is dropped, or it takes the opposite direction, and the two disturb each "
        "other when both are active. The losses of these two solutions can be computed as integrals. They "
        "are equal at the density p* = 4r/(2 + 5r)."
    )
    run.progress(3, 4, "training toy models")
    groups, again = (3, 8) if run.fast else (6, 10)
    ratios = (0.2, 0.4, 0.6)
    scale = torch.linspace(0.6, 1.5, 13 if run.fast else 19)  # of p*
    shape = (len(ratios), len(scale), groups, again)
    wanted = torch.tensor([shared_below(r) for r in ratios])[:, None] * scale
    density = wanted[..., None, None].expand(shape).flatten()
    second = torch.tensor(ratios)[:, None, None, None].expand(shape).flatten()
    importance = torch.stack([torch.ones_like(second), second], 1)
    trained = train(density, importance, 1, 500 if run.fast else 2000, run.seed + 4, batch=128)
    least = exact_loss(trained, density, importance).view(shape).argmin(3, keepdim=True)
    weaker = trained.directions[:, 1, 0].abs().view(shape).gather(3, least)[..., 0]  # (ratios, scale, groups)
    lines = [
        Curve(f"r = {r:g}", list(zip(scale.tolist(), weaker[k].mean(1).tolist(), strict=True)))
        for k, r in enumerate(ratios)
    ]
    run.figure(
        "two-in-one",
        Curves(
            lines, "density / p*", "length of the weaker feature's direction", "Two features in one dimension"
        ),
        "Length of the weaker feature's direction, in the best of several models, by density divided by p*.",
    )
    both = (weaker > MIN_KEPT_LENGTH) * scale[:, None]
    claim_mean(
        run,
        "The weaker feature is dropped near the density p*, at which the losses of the two solutions are "
        "equal (value: largest density at which both features are kept, divided by p*).",
        both.amax(1).flatten().double().numpy(),
        above=0.9,
        below=1.2,
        against=1.0,
        control="in theory",
    )


def shared_below(r: float) -> float:
    """p* = 4r / (2 + 5r)"""
    return 4 * r / (2 + 5 * r)


def exact_loss(toys: Toys, density: Tensor, importance: Tensor, nodes: int = 40) -> Tensor:
    """(M,) of two features: both, one or none active, each an integral by the midpoint rule."""
    line, zero = (torch.arange(nodes) + 0.5) / nodes, torch.zeros(1)
    total = torch.zeros(len(density))
    for first, second in product((True, False), repeat=2):
        x = torch.cartesian_prod(line if first else zero, line if second else zero)  # (G, 2)
        missed = (x - output(x, toys.directions, toys.bias[:, None])).square()  # (M, G, 2)
        chance = (density if first else 1 - density) * (density if second else 1 - density)
        total += chance * (missed.mean(1) * importance).sum(1)
    return total
