"""Bracket sequences of bounded depth, and models of them, many seeds trained as one.

Words: `types` kinds of brackets, never deeper than `depth`. Below full depth a word goes on with an opening
bracket (any type) or the closing bracket that fits, 1 : 1; at depth 0 it opens, at full depth it closes.

    token    2 type + (0 opens, 1 closes); `start` comes first
    state    (opens or closes, type, depth) of a token, a matched pair having the same depth; 0 is `start`

Every parameter has a leading dimension of seeds and every product is batched over it: ten models cost little
more than one. Adam works weight by weight, so each is trained as if it were alone.

    layers    two layers, one head each, residuals, LayerNorm, MLP, learned places: nothing is given away
    minimal   what the second layer has to do when the first is perfect: it reads states, attends once, no
              residual, no MLP:  logits = W LayerNorm(sum_s c_s exp(theta_qs) v_s / sum_s c_s exp(theta_qs))
              theta and v depend on states alone, c_s is how often state s was read: a prefix of any length is
              a row of counts

Wen, Li, Liu & Risteski, NeurIPS 2023; Yao et al., ACL 2021 (bounded Dyck).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from heedful.nn.attention import attention, causal_mask


@dataclass(frozen=True)
class Grammar:
    types: int = 2
    depth: int = 4

    @property
    def tokens(self) -> int:
        return 2 * self.types

    @property
    def states(self) -> int:
        return 1 + 2 * self.types * self.depth

    def state(self, closes: int, kind: int, depth: int) -> int:
        """Depths count from 1."""
        return 1 + 2 * (self.types * (depth - 1) + kind) + closes


@dataclass(frozen=True, eq=False)
class Words:
    """n words of T tokens; place 0 of what was read is `start`."""

    tokens: Tensor  # (n, T)
    states: Tensor  # (n, T + 1) what was read last
    odds: Tensor  # (n, T + 1, tokens) of the next token
    top: Tensor  # (n, T + 1) type of the innermost open bracket, -1: none


def draw(grammar: Grammar, n: int, length: int, seed: int) -> Words:
    """Words are cut at `length`, closed or not."""
    rng, k = np.random.default_rng(seed), grammar.types
    stack, depth, rows = np.full((n, grammar.depth + 1), -1), np.zeros(n, dtype=np.int64), np.arange(n)
    tokens, states = np.zeros((n, length), np.int64), np.zeros((n, length + 1), np.int64)
    odds, top = np.zeros((n, length + 1, 2 * k), np.float32), np.full((n, length + 1), -1)
    for t in range(length + 1):
        inner = top[:, t] = np.where(depth > 0, stack[rows, depth], -1)
        open_odds = np.where(depth == 0, 1.0, np.where(depth == grammar.depth, 0.0, 0.5))
        odds[:, t, 0::2] = open_odds[:, None] / k
        odds[rows, t, 2 * np.maximum(inner, 0) + 1] += np.where(depth > 0, 1 - open_odds, 0.0)
        if t == length:
            break
        opens: npt.NDArray[np.bool_] = rng.random(n) < open_odds
        kind = np.where(opens, rng.integers(k, size=n), inner)
        depth = depth + opens
        stack[rows[opens], depth[opens]] = kind[opens]
        tokens[:, t] = 2 * kind + ~opens
        states[:, t + 1] = 1 + 2 * (k * (depth - 1) + kind) + ~opens
        depth = depth - ~opens
    return Words(*map(torch.from_numpy, (tokens, states, odds, top)))


def counted(grammar: Grammar, words: Words) -> Tensor:
    """(n, T + 1, states): how often each state was read so far."""
    return F.one_hot(words.states, grammar.states).cumsum(1).float()


def accuracy(logits: Tensor, words: Words) -> Tensor:
    """(S,) share of closing brackets whose type is told right, of logits (S, n, T + 1, tokens)."""
    result = logits[:, :, :-1, 1::2].argmax(-1)  # (S, n, T)
    return (result == words.top[:, :-1])[:, words.tokens % 2 == 1].double().mean(1)


Params = dict[str, Tensor]
Loss = Callable[[Params, torch.Generator], Tensor]  # (S,) of a batch


def fit(
    params: Params, loss: Loss, steps: int, rate: float, seed: int, told: Callable[[int], None]
) -> Params:
    """Adam, cosine to zero; the seeds' losses are summed and do not feel each other."""
    rng = torch.Generator().manual_seed(seed)
    for weights in params.values():
        weights.requires_grad_(True)
    optimiser = torch.optim.Adam(params.values(), lr=rate)
    for step in range(steps):
        for group in optimiser.param_groups:
            group["lr"] = rate * min(1.0, (step + 1) / 50) * 0.5 * (1 + math.cos(math.pi * step / steps))
        loss(params, rng).sum().backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        told(step + 1)
    return {name: weights.detach() for name, weights in params.items()}


def surprise(logits: Tensor, odds: Tensor) -> Tensor:
    """(S,) cross-entropy with the true odds of the next token."""
    return -(odds * logits.log_softmax(-1)).sum(-1).flatten(1).mean(1)


def normal(seeds: int, *shape: int, std: float, rng: torch.Generator) -> Tensor:
    return std * torch.randn(seeds, *shape, generator=rng)


def norm(x: Tensor, gain: Tensor, shift: Tensor) -> Tensor:
    """LayerNorm over the last dimension, with gain and shift (S, d) of each seed."""
    wide = (len(gain), *[1] * (x.ndim - 2), x.shape[-1])
    return F.layer_norm(x, x.shape[-1:]) * gain.view(wide) + shift.view(wide)


# --- two layers ----------------------------------------------------------------------------------------


def new_layers(grammar: Grammar, seeds: int, width: int, length: int, seed: int) -> Params:
    rng, d = torch.Generator().manual_seed(seed), width
    made = {"token": normal(seeds, grammar.tokens + 1, d, std=1.0, rng=rng)}
    made["place"] = normal(seeds, length + 1, d, std=1.0, rng=rng)
    for layer in (0, 1):
        for name in ("q", "k", "v", "o"):
            made[f"{name}{layer}"] = normal(seeds, d, d, std=d**-0.5, rng=rng)
        made[f"in{layer}"] = normal(seeds, d, 4 * d, std=d**-0.5, rng=rng)
        made[f"out{layer}"] = normal(seeds, 4 * d, d, std=(4 * d) ** -0.5, rng=rng)
        for name in ("a", "m"):
            made |= {f"{name}gain{layer}": torch.ones(seeds, d), f"{name}shift{layer}": torch.zeros(seeds, d)}
    made |= {"gain": torch.ones(seeds, d), "shift": torch.zeros(seeds, d)}
    return made | {"read": normal(seeds, d, grammar.tokens, std=d**-0.5, rng=rng)}


def run_layers(p: Params, tokens: Tensor) -> tuple[Tensor, Tensor]:
    """Tokens (S, n, T), S or 1 -> logits (S, n, T + 1, tokens), maps (S, 2, n, T + 1, T + 1)."""
    seeds, start = len(p["token"]), p["token"].shape[1] - 1
    ids = F.pad(tokens.expand(seeds, -1, -1), (1, 0), value=start)
    x = p["token"][torch.arange(seeds)[:, None, None], ids] + p["place"][:, None, : ids.shape[-1]]
    mask, maps = causal_mask(ids.shape[-1]), []
    for layer in (0, 1):
        h = norm(x, p[f"again{layer}"], p[f"ashift{layer}"])
        q, k, v = (h @ p[f"{name}{layer}"][:, None] for name in "qkv")
        mixed = attention(q, k, v, mask)
        maps.append(mixed.weights)
        x = x + mixed.out @ p[f"o{layer}"][:, None]
        h = norm(x, p[f"mgain{layer}"], p[f"mshift{layer}"])
        x = x + (h @ p[f"in{layer}"][:, None]).relu() @ p[f"out{layer}"][:, None]
    return norm(x, p["gain"], p["shift"]) @ p["read"][:, None], torch.stack(maps, 1)


# --- one layer over states -----------------------------------------------------------------------------


def new_minimal(grammar: Grammar, seeds: int, width: int, seed: int) -> Params:
    """theta = q k' / sqrt(d): queries, keys and values are a table each, one row per state."""
    rng, d, n = torch.Generator().manual_seed(seed), width, grammar.states
    made = {name: normal(seeds, n, d, std=0.5, rng=rng) for name in ("q", "k")}
    made["v"] = normal(seeds, n, d, std=1.0, rng=rng)
    made |= {"gain": torch.ones(seeds, d), "shift": torch.zeros(seeds, d)}
    return made | {"read": normal(seeds, d, grammar.tokens, std=d**-0.5, rng=rng)}


def theta(p: Params) -> Tensor:
    """(S, states, states) attention scores, query by row."""
    return p["q"] @ p["k"].mT / math.sqrt(p["q"].shape[-1])


def run_minimal(p: Params, query: Tensor, counts: Tensor) -> Tensor:
    """Query states (S, N), counts (S, N, states), S or 1 -> logits (S, N, tokens)."""
    seeds = len(p["q"])
    scores = theta(p)[torch.arange(seeds)[:, None], query.expand(seeds, -1)]  # (S, N, states)
    weights = counts * (scores - scores.amax(-1, keepdim=True)).exp()
    weights = weights / weights.sum(-1, keepdim=True)
    return norm(weights @ p["v"], p["gain"], p["shift"]) @ p["read"]


def maps_of_minimal(p: Params, states: Tensor) -> Tensor:
    """(S, n, T + 1, T + 1) attention weights on words of states (n, T + 1)."""
    scores = theta(p)[:, states[:, :, None], states[:, None]]
    return (scores + causal_mask(states.shape[1])).softmax(-1)


def violation(p: Params, grammar: Grammar) -> Tensor:
    """(S,) balance violation: how far matched pairs are from cancelling, beside the signal.

    Query: a bracket that closes with d >= 1 others left open. With u_s = exp(theta_qs) v_s, centred as
    LayerNorm does:   max over pairs |u_open + u_close|  /  min over stacks |u_start + sum_j u_open(t_j, j)|
    """
    results = []
    for left in range(1, grammar.depth):
        for kind in range(grammar.types):
            scores = theta(p)[:, grammar.state(1, kind, left + 1)]  # (S, states)
            u = scores.exp()[..., None] * (p["v"] - p["v"].mean(-1, keepdim=True))  # (S, states, d)
            pairs = (u[:, 1::2] + u[:, 2::2]).norm(dim=-1).amax(1)
            stacks = [
                [0, *(grammar.state(0, t, depth + 1) for depth, t in enumerate(types))]
                for types in itertools.product(range(grammar.types), repeat=left)
            ]
            signal = torch.stack([u[:, stack].sum(1).norm(dim=-1) for stack in stacks]).amin(0)
            results.append(pairs / signal)
    return torch.stack(results).mean(0)
