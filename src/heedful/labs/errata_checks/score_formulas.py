"""Misprints about scores and axioms: the gradient theorem, norms, sensitivity, complexity, Lipschitz
(E3, E7, E8, E9, E11)."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

import heedful
from heedful.core import registry
from heedful.core.arrays import Floats
from heedful.core.model import Model
from heedful.engine.question import run_explainer
from heedful.explainers.exact_one_layer import gradient
from heedful.labs.errata_checks.formula import Misprint, distance, texts
from heedful.labs.gradient_theorem import drawn as drawn_gradients
from heedful.metrics.axioms import saturated_model
from heedful.metrics.faithfulness import MAX_LOST_SHARE, Ends, curve_counts
from heedful.metrics.metric_input import MetricInput
from heedful.metrics.robustness import RADIUS, SAMPLES, local_lipschitz, neighbours
from heedful.nn.one_layer import OneLayerClassifier


def e3_class_token(seed: int, n: int) -> Misprint:
    cases = [drawn_gradients(6, 1000 * seed + i) for i in range(n)]
    return Misprint(
        number="E3",
        sentence="E3: the gradient theorem omits the path through the query, which changes the gradient of "
        "the class token.",
        printed="∂f/∂e_t = α_t W_v'W_l' + α_t (u_t − ū) W_k'q/√d, for every t",
        correct="for the class token, also + W_q' Σ_s α_s (u_s − ū) k_s/√d",
        judge="the gradient of the class token by autograd",
        wrong=np.array([case.published[0] for case in cases]),
        right=np.array([case.ours[0] for case in cases]),
    )


def e7_norm(seed: int, n: int) -> Misprint:
    model, entry = heedful.load("zoo:one-layer"), registry.get("grad-l2")
    wrong, right = [], []
    for text in texts(n, seed):
        x = model.encode(text, long="truncate")
        target = model.target(x)
        g = model.trace(x, target).grad_embeds.double().numpy()  # (T, d_e)
        truth = np.linalg.norm(g, axis=1)
        square = (g**2).mean(1)
        wrong.append(
            distance(square / np.linalg.norm(square), truth / np.linalg.norm(truth))
        )  # whatever the unit
        right.append(distance(run_explainer(entry, model, x, target).scores, truth))
    return Misprint(
        number="E7",
        sentence="E7: the mean square of a gradient gives tokens other relative scores than its norm.",
        printed="‖g‖₂ := 1/d Σ |g_i|²",
        correct="‖g‖₂ = √(Σ g_i²); likewise ‖g‖₁ = Σ |g_i|, without 1/d",
        judge="numpy's norm of the gradient by autograd, for zoo:one-layer on film reviews; for the printed "
        "form, both vectors of scores are scaled to length one",
        wrong=np.array(wrong),
        right=np.array(right),
    )


def e8_axiom(seed: int, n: int) -> Misprint:
    """What each wording asks of the one score that is complete, f(x) - f(baseline), of one feature."""
    model, entry = saturated_model(), registry.get("integrated-gradients")
    x = model.encode("two")
    rising, falling = (
        float(
            run_explainer(entry, model, x, model.target(x, name), baseline="zero", tolerance=1e-6).scores[0]
        )
        for name in ("f", "minus f")
    )
    constant = rising + falling  # f + (-f) has the same output everywhere; attributions add up
    printed = [constant > 0, rising > 0, falling > 0]  # same output: positive
    ours = [abs(rising) > 1e-9, abs(falling) > 1e-9, abs(constant) < 1e-9]  # output differs: not zero
    return Misprint(
        number="E8",
        sentence="E8: sensitivity requires a non-zero score if the outputs differ. The score does not need "
        "to be positive, and nothing is required if the outputs are the same.",
        printed="if x and y differ in one feature but have the same output, the score of this feature is "
        "positive",
        correct="if x and y differ in one feature and in the output, the score of this feature is not zero",
        judge="integrated gradients for f = 1 − ReLU(1 − x), for −f and for their sum; the error is the "
        "share of these cases that violate the axiom",
        wrong=np.array([1 - np.mean(printed)]),
        right=np.array([1 - np.mean(ours)]),
    )


def e9_complexity(seed: int, n: int) -> Misprint:
    """Rules that answer while r known words are all there: how many must be fixed to hold the answer?"""
    rng, d, metric = np.random.default_rng(seed), 12, registry.get_metric("effective-complexity")
    wrong, right = [], []
    for _ in range(n):
        r = int(rng.integers(3, 8))
        reads = np.isin(np.arange(d), rng.permutation(d)[:r])
        stops, counts = [], []
        for _ in range(5):  # its tosses are few: the median of five
            plan = metric.run(reads * rng.uniform(0.5, 1, d), rng)
            values = plan.keep[:, reads].all(1).astype(float)  # f: 1 with all its words, else 0
            counts.append(d * plan.finish(values, Ends(1.0, 0.0)))
            performance = values.reshape(len(curve_counts(d)), -1).mean(1)
            falls = zip(reversed(curve_counts(d)), reversed(performance.tolist()), strict=True)
            stops.append(next(k for k, value in falls if value < 1 - MAX_LOST_SHARE))
        wrong.append(abs(np.median(stops) - r) / r)
        right.append(abs(np.median(counts) - r) / r)
    return Misprint(
        number="E9",
        sentence="E9: effective complexity is the size of the smallest set whose expected loss is below a "
        "bound. The set at which performance falls below a threshold is too small.",
        printed="fix fewer and fewer words, and stop when performance < threshold",
        correct="k* = min k s.t. E[loss | x_M] < ε",
        judge="rules that read a known number of words; both forms use the model inputs of heedful's "
        "effective-complexity",
        wrong=np.array(wrong),
        right=np.array(right),
        least=0.1,
    )


def e11_lipschitz(seed: int, n: int) -> Misprint:
    """Gradient x input of zoo:one-layer on reviews whose embeddings are moved, and the largest ratio."""
    model, entry = heedful.load("zoo:one-layer"), registry.get("grad-x-input")
    wrong, right = [], []
    for number, text in enumerate(texts(n, seed)):
        x = model.encode(text, long="truncate")
        target = model.target(x)
        subject = MetricInput(
            model,
            run_explainer(entry, model, x, target),
            lambda m, x, target, seed: run_explainer(entry, m, x, target),
        )
        near = neighbours(
            subject, np.random.default_rng(number), lambda rng, shape: rng.standard_normal(shape)
        )
        assert near is not None
        scores, steps, size = near
        truth = float(np.max(moved_by_formula(model, x, target, number)))
        single = np.abs(scores - subject.scores).max(1)  # of the one score that moves most
        wrong.append(distance(np.max(single / steps), truth))
        ratio = local_lipschitz(subject, np.random.default_rng(number))
        right.append(distance(ratio * np.linalg.norm(subject.scores) / size, truth))
    return Misprint(
        number="E11",
        sentence="E11: an explanation is a vector, and no single score of it changes as much as the whole "
        "vector.",
        printed="F: R^d → R",
        correct="F: R^d → R^d, max |F(x) − F(y)|/|x − y|",
        judge="the closed form of gradient × input for zoo:one-layer, with the same changes of the input; "
        "the printed form uses the single score that changes most",
        wrong=np.array(wrong),
        right=np.array(right),
        least=2e-4,  # in some texts nearly all of it is one word's
        most=2e-5,  # the model moves in float32
    )


def moved_by_formula(model: Model, x: Any, target: Any, seed: int) -> Floats:
    """(SAMPLES,) |F(x) - F(y)| / |x - y| of gradient x input, from the closed form of the gradient."""
    rng, groups = np.random.default_rng(seed), x.units("word")
    here = model.lookup(x, target).double()  # (T, d)
    module, words = model.module, ~np.array(x.special)
    assert isinstance(module, OneLayerClassifier)
    scale = RADIUS * float(here[words].square().mean().sqrt())

    def scores(e: Tensor) -> Floats:
        each = (gradient(module, target, e)[0] * e).sum(-1).detach().numpy()
        return np.array([each[group].sum() for group in groups])

    ratios = []
    for _ in range(SAMPLES):
        shift = torch.from_numpy(scale * rng.standard_normal(here.shape) * words[:, None])
        ratios.append(np.linalg.norm(scores(here + shift) - scores(here)) / float(shift.norm()))
    return np.array(ratios)


CHECKS = (e3_class_token, e7_norm, e8_axiom, e9_complexity, e11_lipschitz)
