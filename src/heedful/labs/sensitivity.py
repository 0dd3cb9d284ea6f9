"""Sensitivity: a feature that changes the output must get a score. Gradients fail, integrated ones do not.

    f(x) = 1 - ReLU(1 - x)          f(0) = 0,  f(2) = 1,  f'(2) = 0

f rises until x = 1 and is flat from there on. At x = 2 the slope says that x does not matter, though without
x there would be no output. Integrated gradients ask along the whole way from the baseline b:

    IG_i(x) = (x_i - b_i) int_0^1 df/dx_i (b + a (x - b)) da        sum_i IG_i = f(x) - f(b)

which is why the score cannot be zero where the output differs (Sensitivity(a)). Every method of heedful is
asked about this one number; then units of several features, f(x) = 1 - ReLU(1 - w.x), are drawn, and one
feature after the other is put back to zero.

Drawn: both scores as x grows; integrated gradients are f(x) - f(0) itself.

Sundararajan, Taly & Yan, Axiomatic Attribution for Deep Networks, ICML 2017.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from heedful.core import registry
from heedful.core.arrays import Floats
from heedful.core.charts import Curve, Curves
from heedful.core.defaults import CONTROL
from heedful.explainers.integrated_gradients import Path
from heedful.labs.base.registry import LabRun, lab
from heedful.metrics.axioms import saturated_model, sensitivity_case
from heedful.stats.intervals import POSITIVE, UNIT, mean_of

SLOPES = ("grad-avg", "grad-l1", "grad-l2", "grad-x-input")  # read the gradient at x, and nowhere else
WHOLE = ("integrated-gradients", "occlusion", "kernel-shap")  # compare with the text without x
FEATURES = 3

Function = Callable[[Tensor], Tensor]  # (n, d) -> (n,)


def unit(w: Tensor) -> Function:
    """1 - ReLU(1 - w.x)"""
    return lambda x: 1 - (1 - x @ w).relu()


def slope(f: Function, x: Tensor) -> tuple[Tensor, Tensor]:
    """f and its gradient at each row (n, d), by autograd."""
    x = x.detach().requires_grad_(True)
    values = f(x)
    return values.detach(), torch.autograd.grad(values.sum(), x)[0]


def integrated(f: Function, x: Tensor, base: Tensor) -> Floats:
    """(d,) integrated gradients from base to x, by the adaptive quadrature of the library."""

    def look(shares: list[float]) -> tuple[Floats, Floats]:
        steps = torch.tensor(shares, dtype=x.dtype)[:, None]
        values, grads = slope(f, base + steps * (x - base))
        return values.numpy(), ((x - base) * grads).numpy()

    return Path(look).integrated(tolerance=1e-5, most=2000)[0]


@lab(
    "sensitivity",
    title="Sensitivity: where the gradient is zero",
    minutes=0.1,
    cite="Sundararajan, Taly & Yan 2017",
)
def sensitivity(run: LabRun) -> None:
    the_case(run)
    the_way(run)
    drawn_units(run, 30 if run.fast else 100)


def the_case(run: LabRun) -> None:
    """x = 2 before every method that can be asked."""
    f = unit(torch.ones(1, dtype=torch.float64))
    ends, grads = slope(f, torch.tensor([[0.0], [2.0]], dtype=torch.float64))
    run.say(
        f"For f(x) = 1 - ReLU(1 - x), f(0) is {ends[0]:g}, f(2) is {ends[1]:g}, and the slope at 2 is "
        f"{abs(grads[1, 0].item()):g}. So the only feature changes the output, but its gradient is zero. "
        "Sensitivity is the rule that a feature which changes the output must have a score other than zero."
    )
    model = saturated_model()
    able = [name for name, entry in registry.explainers().items() if not model.lacks(entry.needs)]
    scores = {name: sensitivity_case(name) for name in able if name != CONTROL}
    rows = [[name, score, "violated" if abs(score) < 1e-6 else "satisfied"] for name, score in scores.items()]
    run.table("The score of x = 2, by every method", ["method", "score", "sensitivity"], rows)
    rise = float(ends[1] - ends[0])
    run.claim(
        "Every score that is based on the gradient at x is zero, although x changes the output (value: "
        "largest score).",
        value=max(abs(scores[name]) for name in SLOPES),
        exact=True,
        against=rise,
        control="change of the output",
        holds=all(abs(scores[name]) < 1e-9 for name in SLOPES) and rise > 0.5,
    )
    run.claim(
        "Integrated gradients, occlusion and Kernel SHAP give x the whole change of the output as its score "
        "(value: score by integrated gradients).",
        value=scores["integrated-gradients"],
        exact=True,
        against=rise,
        control="change of the output",
        holds=all(abs(scores[name] - rise) < 1e-4 for name in WHOLE),
    )


def the_way(run: LabRun) -> None:
    """Both scores for x from 0 to 2."""
    f = unit(torch.ones(1, dtype=torch.float64))
    at = torch.linspace(0.025, 1.975, 40, dtype=torch.float64)[:, None]
    _, grads = slope(f, at)
    x, base = at[:, 0].tolist(), torch.zeros(1, dtype=torch.float64)
    lines = {
        "integrated gradients": [float(integrated(f, row, base)[0]) for row in at],
        "gradient × x": (grads[:, 0] * at[:, 0]).tolist(),
    }
    run.figure(
        "way",
        Curves(
            [Curve(name, list(zip(x, y, strict=True))) for name, y in lines.items()],
            "x",
            "score of x",
            "The score of x, by the size of x",
        ),
        "The score of x as x grows. Above 1 the output is constant, so the gradient is zero.",
    )


def drawn_units(run: LabRun, count: int) -> None:
    """Units of three features; each feature is put back to zero alone, so that one thing differs."""
    rng = torch.Generator().manual_seed(run.seed)
    blind, off, gap = [], [], []
    for done in range(count):
        w, x = 0.2 + torch.rand(2, FEATURES, generator=rng, dtype=torch.float64)
        f = unit(w)
        _, grads = slope(f, x[None])
        results = []
        for i in range(FEATURES):
            base = x.clone()
            base[i] = 0
            change = float(f(x[None]) - f(base[None]))
            if change > 1e-9:  # the premise: the output differs
                results.append(float((grads[0, i] * x[i]).abs() < 1e-12))
                off.append(abs(float(integrated(f, x, base)[i]) - change))
        blind.append(results)
        zero = torch.zeros_like(x)
        whole = float(f(x[None]) - f(zero[None]))
        gap.append(abs(float(integrated(f, x, zero).sum()) - whole) / whole)
        run.progress(done + 1, count, "random units")
    shares = np.array([np.mean(results) for results in blind if results])
    value, span = mean_of(shares, UNIT)
    run.claim(
        "In units with random weights, many features that change the output have a gradient of zero (value: "
        "share of these features).",
        value=value,
        interval=span,
        holds=span[0] > 0.1,
        against=0.0,
        control="share for which integrated gradients are zero",
    )
    value, span = mean_of(off, POSITIVE)
    run.claim(
        "Integrated gradients give each feature that changes the output exactly this change as its score "
        "(value: mean error).",
        value=value,
        interval=span,
        holds=max(off) < 1e-4,
    )
    value, span = mean_of(gap, POSITIVE)
    run.claim(
        "With zero as the baseline, the integrated gradients of all features sum to the change of the output "
        "(value: mean relative error).",
        value=value,
        interval=span,
        holds=max(gap) < 1e-4,
    )
