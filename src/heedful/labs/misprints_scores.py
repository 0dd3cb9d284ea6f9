"""Misprints about scores and axioms: the gradient theorem, norms, sensitivity, complexity, Lipschitz
(E3, E7, E8, E9, E11)."""

from __future__ import annotations

import numpy as np

import heedful
from heedful import registry
from heedful.evidence.axioms import saturated_model
from heedful.evidence.robustness import lipschitz
from heedful.labs.gradient_theorem import drawn as drawn_gradients
from heedful.labs.misprint import Misprint, distance, texts


def e3_class_token(seed: int, n: int) -> Misprint:
    cases = [drawn_gradients(6, 1000 * seed + i) for i in range(n)]
    return Misprint(
        "E3",
        "E3: the gradient theorem lacks the path of the query, which the class token's row needs.",
        "∂f/∂e_t = α_t W_v'W_l' + α_t (u_t − ū) W_k'q/√d, for every t",
        "for the class token, W_q' Σ_s α_s (u_s − ū) k_s/√d besides",
        "autograd, class token's row",
        np.array([case.published[0] for case in cases]),
        np.array([case.ours[0] for case in cases]),
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
        right.append(distance(entry(model, x, target).scores, truth))
    return Misprint(
        "E7",
        "E7: the mean square of a gradient weighs tokens differently from its norm.",
        "‖g‖₂ := 1/d Σ |g_i|²",
        "‖g‖₂ = √(Σ g_i²); likewise ‖g‖₁ = Σ |g_i|, without 1/d",
        "numpy's norm of autograd's gradient, zoo:one-layer on film reviews; both of length one",
        np.array(wrong),
        np.array(right),
    )


def e8_axiom(seed: int, n: int) -> Misprint:
    """What each wording asks of the one score that is complete, f(x) - f(baseline), of one feature."""
    model, entry = saturated_model(), registry.get("integrated-gradients")
    x = model.encode("two")
    rising, falling = (
        float(entry(model, x, model.target(x, name), baseline="zero", tolerance=1e-6).scores[0])
        for name in ("f", "minus f")
    )
    constant = rising + falling  # f + (-f) has the same output everywhere; attributions add up
    printed = [constant > 0, rising > 0, falling > 0]  # same output: positive
    ours = [abs(rising) > 1e-9, abs(falling) > 1e-9, abs(constant) < 1e-9]  # output differs: not zero
    return Misprint(
        "E8",
        "E8: sensitivity asks for a score that is not zero where outputs differ, not for a positive one, nor"
        " where they are the same.",
        "x, y differ in one feature but have the same output: its score is positive",
        "they differ in one feature and in the output: its score is not zero",
        "f = 1 − ReLU(1 − x), −f, their sum: the share of cases in which integrated gradients break it",
        np.array([1 - np.mean(printed)]),
        np.array([1 - np.mean(ours)]),
    )


def e9_complexity(seed: int, n: int) -> Misprint:
    """A linear rule that reads r of d features: how many must be fixed until it is known?"""
    rng, d = np.random.default_rng(seed), 12
    wrong, right = [], []
    for _ in range(n):
        r = int(rng.integers(3, 8))
        w = np.concatenate([rng.uniform(0.5, 1, r) * rng.choice([-1, 1], r), np.zeros(d - r)])
        x, others = rng.normal(size=d), rng.normal(size=(400, d))
        loss = []
        for k in range(d + 1):
            fixed = np.argsort(-np.abs(w), kind="stable")[:k]
            drawn = others.copy()
            drawn[:, fixed] = x[fixed]
            loss.append(float(np.square(drawn @ w - x @ w).mean()))
        bounded = next(k for k, value in enumerate(loss) if value < 0.01)
        unbounded = min(range(d + 1))  # a constraint without a right-hand side excludes nothing
        wrong.append(abs(unbounded - r) / r)
        right.append(abs(bounded - r) / r)
    return Misprint(
        "E9",
        "E9: effective complexity needs a bound on the expected loss; without one the empty set is enough.",
        "k* = argmin |M_k| s.t. E[loss | x_M]",
        "k* = min k s.t. E[loss | x_M] < ε",
        "rules that read a known number of features",
        np.array(wrong),
        np.array(right),
    )


def e11_lipschitz(seed: int, n: int) -> Misprint:
    """An explanation phi(x) = W x whose scores always sum to the same: as one number it never moves."""
    rng, d = np.random.default_rng(seed), 5
    wrong, right = [], []
    for _ in range(n):
        w = rng.normal(size=(d, d))
        w -= w.mean(0)
        x = rng.normal(size=d)
        _, _, vt = np.linalg.svd(w)
        near = x + 0.1 * np.concatenate([vt, -vt])  # the steepest direction among them
        steps = np.linalg.norm(near - x, axis=1)
        truth = float(np.linalg.norm(w, 2))
        wrong.append(distance(np.max(np.abs((near - x) @ w.sum(0)) / steps), truth))
        right.append(distance(lipschitz(w @ x, near @ w.T, steps), truth))
    return Misprint(
        "E11",
        "E11: an explanation is a vector: as one number, its Lipschitz constant can be zero while it moves.",
        "F: R^d → R, argmax of the ratio",
        "F: R^d → R^d, max |F(x) − F(y)|/|x − y|",
        "the spectral norm of a linear explanation",
        np.array(wrong),
        np.array(right),
        least=0.9,
    )


CHECKS = (e3_class_token, e7_norm, e8_axiom, e9_complexity, e11_lipschitz)
