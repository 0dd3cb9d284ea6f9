"""RISE: the mean output over random masks that keep a unit, minus the mean over masks that remove it.

    S_u = E[ f(x without random units) | u kept ] - E[ ... | u removed ],   each unit kept with probability p

The paper estimates E[f | u kept]. Because E[f] = p E[f | kept] + (1 - p) E[f | removed], the difference above
is (E[f | u kept] - E[f]) / (1 - p): the same map up to a factor and a constant that are equal for all units,
so the same order, with less noise. The paper draws 7 x 7 masks and enlarges them smoothly. Here masks are
drawn over units and not smoothed, so that a score belongs to a unit, and rows are shared with other methods.
Standard errors come from the spread of the outputs.

Cost: one forward per mask. Needs: values. Petsiuk, Das & Saenko 2018.
"""

from __future__ import annotations

import numpy as np

from heedful.core.attribution import Attribution
from heedful.core.errors import HeedfulError
from heedful.core.registry import explainer
from heedful.engine.question import Question

LEAST = 8  # masks


@explainer(
    "rise",
    needs={"picture", "values"},
    takes=("unit", "operator", "seed"),
    cite="Petsiuk, Das & Saenko 2018",
    rows=lambda x, target, p: (LEAST + 1, max(LEAST, p["samples"]) + 1),
)
def rise(q: Question, *, samples: int = 400, p: float = 0.5) -> Attribution:
    """Mean output over random masks that keep a unit, minus the mean over those that remove it.

    Limitations: It needs many masks: each score contains the noise of all other units. With half of the units
    removed, the inputs are far from what the model was trained on.
    """
    if samples < LEAST or not 0 < p < 1:
        raise HeedfulError(f"rise needs at least {LEAST} samples, and p between 0 and 1")
    allowed = samples if q.left is None else min(samples, q.left - 1)
    if allowed < LEAST:
        raise HeedfulError(f"rise needs at least {LEAST} model inputs", f"the budget has {q.left} left")
    rng, count = np.random.default_rng(q.seed), len(q.units)
    keep = rng.random((allowed, count)) < p
    values = q.values(np.concatenate([np.ones((1, count), dtype=bool), keep]))
    output, drawn = float(values[0]), values[1:]
    kept, removed = keep.sum(0), (~keep).sum(0)
    centred = drawn - drawn.mean()  # less noise, the same difference
    with np.errstate(invalid="ignore", divide="ignore"):
        high, low = (centred @ keep) / kept, (centred @ ~keep) / removed
        scores = np.where((kept > 0) & (removed > 0), high - low, 0.0)
        spread = (np.square(centred) @ keep / kept - high**2) / kept
        spread = spread + (np.square(centred) @ ~keep / removed - low**2) / removed
    stderr = np.sqrt(np.where(np.isfinite(spread), np.maximum(spread, 0), 0.0))
    return q.answer(scores, stderr, output=output)
