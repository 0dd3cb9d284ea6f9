"""Misprints about attention as an explanation: words, rollout, relevance, raw attention
(E13, E18, E19, E20)."""

from __future__ import annotations

from functools import reduce

import numpy as np
import torch
from torch import Tensor

import heedful
from heedful.explainers.relevance import felt
from heedful.heads.maps import Side
from heedful.heads.words import merged
from heedful.labs.misprint import Misprint, distance, texts
from heedful.theory.mixing import with_residual
from heedful.types import Floats

LAYERS, T = 3, 6


def drawn_maps(rng: np.random.Generator, layers: int = LAYERS, size: int = T) -> Floats:
    """(layers, size, size) rows that sum to one."""
    return np.asarray(rng.dirichlet(np.full(size, 0.5), (layers, size)))


def e13_special_tokens(seed: int, n: int) -> Misprint:
    """Split words put together: does [SEP] get more than it had? Only if pieces are averaged, not added."""
    rng = np.random.default_rng(seed)
    side = Side(
        ("a", "##b", "##c", "d", "e", "[SEP]"), (False,) * 5 + (True,), (0, 0, 0, 1, 2, -1), (0,) * 5 + (-1,)
    )
    pieces = np.array([3.0, 1, 1, 1])
    wrong, right = [], []
    for _ in range(n):
        tokens = drawn_maps(rng)[0]
        truth = tokens[:, -1].mean()
        added = merged(tokens, side, side)  # (4, 4)
        averaged = added / pieces
        averaged /= averaged.sum(1, keepdims=True)
        wrong.append(distance(pieces @ averaged[:, -1] / T, truth))
        right.append(distance(pieces @ added[:, -1] / T, truth))
    return Misprint(
        "E13",
        "E13: adding up the pieces of words leaves what a special token gets; averaging would inflate it.",
        "attention to [SEP] is inflated by word aggregation",
        "columns are added, rows averaged: its share, by tokens, is unchanged",
        "the share of [SEP] among tokens, one word of three pieces",
        np.array(wrong),
        np.array(right),
        least=0.0,
    )


def jacobian(maps: Floats, residual: bool) -> Floats:
    """d output / d input of a network that does nothing but mix tokens: the truth about a rollout."""

    def run(x: Tensor) -> Tensor:
        for layer in torch.from_numpy(maps):
            x = (x + layer @ x) / 2 if residual else layer @ x
        return x

    return np.asarray(torch.func.jacrev(run)(torch.ones(T, dtype=torch.float64)).numpy())


def e18_rollout(seed: int, n: int) -> Misprint:
    rng = np.random.default_rng(seed)
    wrong, right = [], []
    for _ in range(n):
        maps = drawn_maps(rng)
        truth = jacobian(maps, residual=True)
        wrong.append(distance(reduce(np.matmul, maps), truth))
        right.append(distance(reduce(np.matmul, [with_residual(layer) for layer in maps[::-1]]), truth))
    return Misprint(
        "E18",
        "E18: rollout without the residual stream, layers reversed, is not what a mixing network passes on.",
        "S = A¹ × A² × … × A^N",
        "S = Â^N … Â¹, Â = row-normalise(A + I)",
        "the Jacobian of a network that only mixes tokens, by autograd",
        np.array(wrong),
        np.array(right),
    )


def e18_order(seed: int, n: int) -> Misprint:
    rng = np.random.default_rng(seed)
    wrong, right = [], []
    for _ in range(n):
        maps = drawn_maps(rng)
        truth = jacobian(maps, residual=False)
        wrong.append(distance(reduce(np.matmul, maps), truth))
        right.append(distance(reduce(np.matmul, maps[::-1]), truth))
    return Misprint(
        "E18",
        "E18: even without a residual stream, the last layer of a rollout stands leftmost.",
        "A¹ × A² × … × A^N",
        "A^N … A¹, as rows are queries",
        "the same Jacobian, no residual",
        np.array(wrong),
        np.array(right),
    )


def e19_identity(seed: int, n: int) -> Misprint:
    """One of two layers has no weight whose growth would help: what is left of the relevance of the other?"""
    rng = np.random.default_rng(seed)
    eye = torch.eye(T, dtype=torch.float64)
    wrong, right = [], []
    for _ in range(n):
        maps = torch.from_numpy(drawn_maps(rng, 4).reshape(2, 2, T, T))  # two layers of two heads
        grads = torch.from_numpy(rng.normal(size=(2, 2, T, T)))
        grads[0] = -grads[0].abs()
        lower, upper = (felt(a, g) for a, g in zip(maps, grads, strict=True))
        truth = float(upper[0].sum())  # of the first row, beyond itself: all from the upper layer
        wrong.append(abs(float((upper @ lower)[0].sum()) / truth - 1))
        right.append(abs(float(((eye + upper) @ (eye + lower) - eye)[0].sum()) / truth - 1))
    return Misprint(
        "E19",
        "E19: without the identity, one layer that is not felt wipes out the relevance of all others.",
        "Ā = mean_h (∇A ⊙ R)⁺",
        "Ā = I + mean_h (∇A ⊙ R)⁺",
        "two layers, the lower without a positive gradient: what the upper alone gives",
        np.array(wrong),
        np.array(right),
        least=0.9,
    )


def e20_first_layer(seed: int, n: int) -> Misprint:
    """How much of what the answer feels of a layer's attention is in the class token's row?"""
    model = heedful.load("zoo:sentiment")
    missed: dict[int, list[float]] = {0: [], -1: []}
    for text in texts(n, seed):
        x = model.encode(text, long="truncate")
        trace = model.trace(x, model.target(x))
        for layer, found in missed.items():
            row = trace.grad_attentions[layer].double().abs().sum((0, 2))  # (Q,)
            found.append(float(1 - row[0] / row.sum()))
    return Misprint(
        "E20",
        "E20: the answer is read in the class token's row of the last layer, not in that of the first.",
        "raw attention = first layer",
        "raw attention = last layer, class token's row, mean over heads",
        "zoo:sentiment on film reviews: the share of |∂f/∂A| outside that row",
        np.array(missed[0]),
        np.array(missed[-1]),
        least=0.1,
    )


CHECKS = (e13_special_tokens, e18_rollout, e18_order, e19_identity, e20_first_layer)
