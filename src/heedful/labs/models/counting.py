"""A one-layer transformer that counts: for every place of a sequence, how often its letter occurs.

    x_i = [letter_i | place_i]                                   two halves of the width, both learned
    A   = softmax(Q z K z' / sqrt(d))                            z: the half, or both, that attention may read
    out = W2 relu(W1 LayerNorm(A V x))                           logits of 0 ... L; no residual

Attention that reads letters alone is called semantic, places alone positional. V reads both halves always, so
either model sees the whole sequence; only where it looks is bound.

`freed` writes the same function as a model whose attention may read both halves: the columns of Q and K for
the other half start at zero, plus noise. `further` trains it on.

What attention depends on is measured by `spread`, `moved` and `on_copies`.

Cui, Behrens, Krzakala & Zdeborova, NeurIPS 2024.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from heedful.core.arrays import Floats

SOFT = 0.2  # of Q and K as drawn: attention that starts peaked on a few letters stays there for long


@dataclass(frozen=True)
class CountConfig:
    """Sizes of the task and the model; the defaults are the paper's."""

    length: int = 10
    letters: int = 15
    half: int = 32  # of the width: letters, places
    hidden: int = 128
    reads: str = "both"  # what attention may read


@dataclass(frozen=True)
class Recipe:
    """How it is trained: Adam, warm-up, level, then linear to zero."""

    steps: int = 2000
    batch: int = 256
    rate: float = 3e-3
    warmup: int = 100
    level: float = 0.4  # of the steps, before the rate falls


class Counter(nn.Module):
    """Weights are drawn from `rng`: N(0, 1) for letters and places, N(0, 1/width) for matrices."""

    def __init__(self, config: CountConfig, rng: torch.Generator) -> None:
        super().__init__()
        self.config = config
        width, read = 2 * config.half, config.half * (1 + (config.reads == "both"))
        self.letter = nn.Embedding(config.letters, config.half)
        self.place = nn.Parameter(torch.empty(config.length, config.half))
        self.query = nn.Linear(read, config.half, bias=False)
        self.key = nn.Linear(read, config.half, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.norm = nn.LayerNorm(width)
        inner, outer = nn.Linear(width, config.hidden), nn.Linear(config.hidden, config.length + 1)
        self.mlp = nn.Sequential(inner, nn.ReLU(), outer)
        with torch.no_grad():
            for table in (self.letter.weight, self.place):
                table.normal_(generator=rng)
            for layer in (self.query, self.key, self.value, inner, outer):
                layer.weight.normal_(std=layer.in_features**-0.5, generator=rng)
            for layer in (self.query, self.key):
                layer.weight.mul_(SOFT)
            for layer in (inner, outer):
                layer.bias.zero_()

    def embed(self, ids: Tensor) -> Tensor:
        """(B, L) -> (B, L, half)"""
        tensor: Tensor = self.letter(ids)
        return tensor

    def forward(
        self, letters: Tensor, mask: Tensor | None = None, queries: slice = slice(None)
    ) -> tuple[Tensor, Tensor]:
        """Embedded letters (B, L, half) -> logits (B, Q, L + 1), attention (B, Q, L), at the places asked."""
        places = self.place[: letters.shape[1]].expand(len(letters), -1, -1)
        both = torch.cat([letters, places], -1)  # (B, L, width)
        z = {"semantic": letters, "positional": places, "both": both}[self.config.reads]
        scores = self.query(z[:, queries]) @ self.key(z).mT / math.sqrt(self.config.half)
        if mask is not None:
            scores = scores.masked_fill(mask[:, None] == 0, -torch.inf)
        weights = scores.softmax(-1)
        logits: Tensor = self.mlp(self.norm(weights @ self.value(both)))
        return logits, weights


def counts(x: Tensor) -> Tensor:
    """(B, L) -> (B, L): how often the letter at each place occurs."""
    return (x[:, :, None] == x[:, None]).sum(-1)


def sequences(config: CountConfig, most: int, rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """Uniform sequences, none twice, cut 70 to 30: train and test."""
    drawn = torch.unique(torch.randint(config.letters, (most, config.length), generator=rng), dim=0)
    drawn = drawn[torch.randperm(len(drawn), generator=rng)]
    cut = int(0.7 * len(drawn))
    return drawn[:cut], drawn[cut:]


def train(
    config: CountConfig,
    x: Tensor,
    recipe: Recipe,
    seed: int,
    told: Callable[[int, Counter], None] = lambda step, model: None,
) -> Counter:
    """Cross-entropy at every place, batches drawn with repetition."""
    rng = torch.Generator().manual_seed(seed)
    model = Counter(config, rng)
    optimiser = torch.optim.Adam(model.parameters(), lr=recipe.rate, betas=(0.9, 0.98), eps=1e-9)
    for step in range(recipe.steps):
        left = (recipe.steps - step) / recipe.steps / (1 - recipe.level)
        for group in optimiser.param_groups:
            group["lr"] = recipe.rate * min(1.0, (step + 1) / recipe.warmup, left)
        descend(model, x, recipe.batch, optimiser, rng)
        told(step, model)
    return model.eval()


def descend(
    model: Counter, x: Tensor, batch: int, optimiser: torch.optim.Optimizer, rng: torch.Generator
) -> None:
    """One step on a batch of x."""
    rows = x[torch.randint(len(x), (batch,), generator=rng)]
    logits = model(model.embed(rows))[0]
    F.cross_entropy(logits.flatten(0, 1), counts(rows).flatten()).backward()  # type: ignore[no-untyped-call]
    optimiser.step()
    optimiser.zero_grad(set_to_none=True)


@torch.no_grad()
def freed(model: Counter, noise: float, seed: int) -> Counter:
    """The same function, attention free to read both halves; what it reads with is shaken by `noise`."""
    rng, half, reads = torch.Generator().manual_seed(seed), model.config.half, model.config.reads
    own = slice(0, half) if reads == "semantic" else slice(half, 2 * half)
    free = Counter(replace(model.config, reads="both"), rng)
    state = copy.deepcopy(model.state_dict())
    for name in ("query.weight", "key.weight"):
        wide = torch.zeros(half, 2 * half)
        wide[:, own] = state[name]
        state[name] = wide
    for name in ("query.weight", "key.weight", "letter.weight", "place"):
        state[name] += noise * torch.randn(state[name].shape, generator=rng)
    free.load_state_dict(state)
    return free.eval()


def further(
    model: Counter,
    x: Tensor,
    batch: int,
    optimiser: Callable[[Iterable[Tensor]], torch.optim.Optimizer],
    steps: int,
    noise: float,
    seed: int,
) -> Counter:
    """`freed`, then trained on by another optimiser; the model that was given stays as it is."""
    free, rng = freed(model, noise, seed), torch.Generator().manual_seed(seed)
    made = optimiser(free.parameters())
    for _ in range(steps):
        descend(free, x, batch, made, rng)
    return free


@torch.no_grad()
def answers(model: Counter, x: Tensor) -> tuple[Tensor, Tensor]:
    """Whether each place is counted right (n, L), and attention (n, L, L)."""
    logits, weights = model(model.embed(x))
    return logits.argmax(-1) == counts(x), weights


def moved(model: Counter, x: Tensor, rng: torch.Generator) -> float:
    """Largest change of any weight when a sequence is permuted and attention is permuted with it.

    Zero if and only if A_ij is a function of (x_i, x_j) and of the multiset of the letters alone.
    """
    order = torch.randperm(x.shape[1], generator=rng)
    before, after = answers(model, x)[1], answers(model, x[:, order])[1]
    return float((after - before[:, order][:, :, order]).abs().max())


def spread(model: Counter, x: Tensor) -> float:
    """Largest variance, over sequences, of any attention weight."""
    return float(answers(model, x)[1].double().var(0).max())


def on_copies(model: Counter, x: Tensor) -> Floats:
    """(n,) attention on another copy of the query's letter, in even shares; only sequences that have one."""
    same = (x[:, :, None] == x[:, None]) & ~torch.eye(x.shape[1], dtype=torch.bool)
    weights, pairs = answers(model, x)[1], same.sum((1, 2))
    share = (weights * same).sum((1, 2)) / pairs * x.shape[1]
    return share[pairs > 0].double().numpy()


def apart(one: Tensor, other: Tensor) -> Floats:
    """(n,) total variation between the rows of maps (n, L, L), mean over rows."""
    return ((one - other).abs().sum(-1).mean(-1) / 2).double().numpy()
