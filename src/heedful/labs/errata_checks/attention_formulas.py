"""Misprints about attention as an explanation: rollout, relevance, raw attention (E18, E19, E20)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import reduce

import numpy as np
import torch
from torch import Tensor

import heedful
from heedful.core import registry
from heedful.core.arrays import Floats
from heedful.core.model import Model
from heedful.core.trace import Trace
from heedful.engine.question import run_explainer
from heedful.explainers.chefer import relevance
from heedful.labs.errata_checks.formula import Misprint, distance, texts

MAPS = 1e-5  # weights are float32, and so are their rows' sums


def read(model: Model, text: str) -> Trace:
    """One pass, and the gradients of its answer."""
    x = model.encode(text, long="truncate")
    trace: Trace = model.trace(x, model.target(x))
    return trace


def mixed_by(trace: Trace) -> Floats:
    """(T,) d output / d input, at the answer's position, of a network that does nothing but mix tokens by
    these maps, residual stream included: the truth about a rollout."""

    def run(x: Tensor) -> Tensor:
        for layer in trace.attentions:
            x = (x + layer.double().mean(0) @ x) / 2
        return torch.tensor(trace.readout, dtype=torch.float64) @ x

    return np.asarray(torch.func.jacrev(run)(torch.ones(len(trace.x), dtype=torch.float64)).numpy())


def e18_rollout(seed: int, n: int) -> Misprint:
    return rolled(
        seed,
        n,
        "E18: rollout without the residual stream and with the layers in reversed order is not what a "
        "network that only mixes tokens computes.",
        "S = A¹ × A² × … × A^N",
        lambda layers: layers,
    )


def e18_order(seed: int, n: int) -> Misprint:
    return rolled(
        seed,
        n,
        "E18: if only the residual stream is added, rollout is still wrong: the last layer must be the "
        "leftmost factor.",
        "S = Â¹ × Â² × … × Â^N",
        lambda layers: [(layer + np.eye(len(layer))) / 2 for layer in layers],
    )


def rolled(
    seed: int, n: int, sentence: str, printed: str, made: Callable[[list[Floats]], list[Floats]]
) -> Misprint:
    """heedful's rollout, and a product of layers from the first to the last, on real maps."""
    model, entry = heedful.load("zoo:sentiment"), registry.get("attention-rollout")
    wrong, right = [], []
    for text in texts(n, seed):
        trace = read(model, text)
        truth = mixed_by(trace)
        product = reduce(np.matmul, made([layer.double().mean(0).numpy() for layer in trace.attentions]))
        wrong.append(distance(np.array(trace.readout) @ product, truth))
        right.append(distance(run_explainer(entry, model, trace.x, trace.target).scores, truth))
    return Misprint(
        number="E18",
        sentence=sentence,
        printed=printed,
        correct="S = Â^N … Â¹, Â = row-normalise(A + I), because rows are queries",
        judge="the Jacobian (by autograd) of a network that only mixes tokens, with the attention maps of "
        "zoo:sentiment",
        wrong=np.array(wrong),
        right=np.array(right),
        most=MAPS,
    )


def e19_identity(seed: int, n: int) -> Misprint:
    """The first layer has no weight whose growth would help: what is left of the relevance of the others?"""
    model = heedful.load("zoo:sentiment")
    wrong, right = [], []
    for text in texts(n, seed):
        trace = read(model, text)
        first, *others = trace.grad_attentions
        trace = replace(trace, grad_attentions=(-first.abs(), *others))
        readout, eye = np.array(trace.readout), np.eye(len(trace.x))
        bars = [
            np.maximum((a * g).double().numpy(), 0).mean(0)  # (T, T)
            for a, g in zip(trace.attentions, trace.grad_attentions, strict=True)
        ]
        above = reduce(
            lambda below, bar: (eye + bar) @ below, bars[1:], eye
        )  # as if there were no first layer
        truth = readout @ (above - eye)
        wrong.append(distance(readout @ reduce(lambda below, bar: bar @ below, bars), truth))
        right.append(distance(relevance(trace), truth))
    return Misprint(
        number="E19",
        sentence="E19: without the identity matrix, one layer without positive gradients removes the "
        "relevance of all other layers.",
        printed="Ā = mean_h (∇A ⊙ R)⁺",
        correct="Ā = I + mean_h (∇A ⊙ R)⁺",
        judge="the relevance from the other layers alone, for zoo:sentiment with all gradients of the first "
        "layer made negative",
        wrong=np.array(wrong),
        right=np.array(right),
        least=0.9,
        most=MAPS,
    )


def e20_first_layer(seed: int, n: int) -> Misprint:
    """How much of what the answer feels of a layer's attention is in the class token's row?"""
    model = heedful.load("zoo:sentiment")
    missed: dict[int, list[float]] = {0: [], -1: []}
    for text in texts(n, seed):
        trace = read(model, text)
        for layer, result in missed.items():
            row = trace.grad_attentions[layer].double().abs().sum((0, 2))  # (Q,)
            result.append(float(1 - row[0] / row.sum()))
        raw = run_explainer("attention-avg", model, trace.x, trace.target).scores  # must be that row
        missed[-1][-1] += distance(raw, trace.attentions[-1].double().mean(0)[0])
    return Misprint(
        number="E20",
        sentence="E20: the model reads its answer from the class token's row of the last layer, not of the "
        "first layer.",
        printed="raw attention = first layer",
        correct="raw attention = last layer, class token's row, mean over heads",
        judge="the share of |∂f/∂A| outside the class token's row, for zoo:sentiment on film reviews",
        wrong=np.array(missed[0]),
        right=np.array(missed[-1]),
        least=0.1,
    )


CHECKS = (e18_rollout, e18_order, e19_identity, e20_first_layer)
