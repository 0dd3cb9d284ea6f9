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
        f"f(0) = {ends[0]:g}, f(2) = {ends[1]:g}, and the slope at 2 is {abs(grads[1, 0].item()):g}. The "
        "only feature changes the output, but the gradient is zero."
    )
    model = saturated_model()
    able = [name for name, entry in registry.explainers().items() if not model.lacks(entry.needs)]
    scores = {name: sensitivity_case(name) for name in able if name != CONTROL}
    rows = [[name, score, "breaks it" if abs(score) < 1e-6 else "keeps it"] for name, score in scores.items()]
    run.table("The score of x = 2, by every method", ["method", "score", "sensitivity"], rows)
    rise = float(ends[1] - ends[0])
    run.claim(
        "Every score based on the gradient at x is zero, although x changes the output.",
        value=max(abs(scores[name]) for name in SLOPES),
        exact=True,
        against=rise,
        control="the change",
        holds=all(abs(scores[name]) < 1e-9 for name in SLOPES) and rise > 0.5,
    )
    run.claim(
        "Integrated gradients, occlusion and Shapley values give x the whole change of the output.",
        value=scores["integrated-gradients"],
        exact=True,
        against=rise,
        control="the change",
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
            "The score along the path",
        ),
        "The score of x as x grows. Where the output is flat, the gradient is zero.",
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
        run.progress(done + 1, count, "drawn units")
    shares = np.array([np.mean(results) for results in blind if results])
    value, span = mean_of(shares, UNIT)
    run.claim(
        "Many features that change the output of a random unit have gradient zero.",
        value=value,
        interval=span,
        holds=span[0] > 0.1,
        against=0.0,
        control="integrated gradients",
    )
    value, span = mean_of(off, POSITIVE)
    run.claim(
        "Integrated gradients give each such feature exactly the change of the output.",
        value=value,
        interval=span,
        holds=max(off) < 1e-4,
    )
    value, span = mean_of(gap, POSITIVE)
    run.claim(
        "From zero, the scores of all features together sum to the change of the output.",
        value=value,
        interval=span,
        holds=max(gap) < 1e-4,
    )
