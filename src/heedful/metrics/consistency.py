"""Does a method give the same scores with another seed? The method runs RUNS times with different seeds.

    consistency   sqrt(sum_i var_i) / sqrt(mean over runs of sum_i s_i^2): relative spread over seeds; low
    vsi           100 * mean over pairs of runs of |F_a and F_b| / p,  F the p units a run chose; high
    csi           100 * mean over units chosen in at least two runs of the share of pairs of these runs whose
                  95 % intervals s +- 1.96 se overlap; high. Only for methods that give standard errors

F: for LIME as published, the words it selects; for other methods, the p units with the largest |score|,
where p is half of the units and at most FEATURES (if this is all units, the value is nan). Random scores
have a consistency of about 1 and a vsi of 100 p / d. The control has no standard errors: its intervals are
points, which never overlap, so its csi is 0.

A method without randomness always has the best values, which then say nothing about its quality. For such a
method, `repeated(...).drawn` is False. Wide intervals overlap, so a high csi is only as good as the standard
errors.

csi uses the standard errors of the method. Visani et al. use other standard errors (`ridge_errors`): X has no
column for the intercept, but the residuals come from a fit with an intercept. There are n - p degrees of
freedom, and the kernel weights are not normalised. So their intervals depend on the scale of the weights.
heedful's LIME as published has sandwich errors, which do not depend on this scale.

Cost: RUNS explanations; the metrics share their model inputs through a cache. Visani et al. 2022.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from heedful.core.arrays import Floats
from heedful.core.defaults import CONTROL
from heedful.core.input import Input
from heedful.core.model import Model
from heedful.core.registry import MetricRows, metric
from heedful.core.target import Target
from heedful.metrics.metric_input import MetricInput
from heedful.stats.intervals import NORMAL_QUANTILE
from heedful.stats.lime_limit import Indices

RUNS = 10
FEATURES = 10


@dataclass(frozen=True)
class Repeats:
    """One method, other seeds."""

    scores: Floats  # (n, d)
    stderr: Floats | None  # (n, d)

    @property
    def drawn(self) -> bool:
        """Whether anything differs at all: a deterministic method answers alike, whatever the seed."""
        return bool((self.scores != self.scores[0]).any())


def repeated(subject: MetricInput, rng: np.random.Generator, runs: int = RUNS) -> Repeats:
    """The explanation again with `runs` seeds."""
    item = subject.item
    seeds = rng.choice(2**31, runs, replace=False).tolist()
    results = [subject.again(subject.session, item.x, item.target, seed) for seed in seeds]
    each = [
        [unit.stderr for unit in again.units(subject.units.name)]
        for again in results
        if again.stderr is not None
    ]
    return Repeats(
        np.array([again.unit_scores(subject.units.name) for again in results]),
        np.array(each, dtype=np.float64) if len(each) == runs else None,
    )


def _rows(model: Model, x: Input, target: Target, unit: str) -> MetricRows:
    return MetricRows(again=RUNS * (x,))


@metric(
    "consistency",
    kind="re-explain",
    better="low",
    best=0.0,
    cite="Visani et al. 2022",
    expensive=True,
    rows=_rows,
)
def consistency(subject: MetricInput, rng: np.random.Generator) -> float:
    """Spread of the scores over seeds, relative to their size; 0 for a method without randomness.

    Limitations: Constant scores have the best value. Methods without randomness win by definition.
    """
    return spread_over_seeds(repeated(subject, rng).scores)


def spread_over_seeds(scores: Floats) -> float:
    """(n, d) scores -> root of the summed variances over the root of the mean squared norm."""
    size = float(np.mean(np.square(scores).sum(1)))
    apart = scores - scores[0]  # exactly zero for a method that draws nothing
    return float(np.sqrt(apart.var(0, ddof=1).sum() / size)) if size else float("nan")


@metric(
    "vsi", kind="re-explain", better="high", best=100.0, cite="Visani et al. 2022", expensive=True, rows=_rows
)
def vsi(subject: MetricInput, rng: np.random.Generator) -> float:
    """Variables stability index: how often different seeds choose the same units; 100 without randomness.

    Limitations: A method that always chooses the same wrong units has the best value.
    """
    p = chosen_count(subject)
    if not p:
        return float("nan")
    return variables_stability([chosen(scores, p) for scores in repeated(subject, rng).scores], p)


@metric(
    "csi", kind="re-explain", better="high", best=100.0, cite="Visani et al. 2022", expensive=True, rows=_rows
)
def csi(subject: MetricInput, rng: np.random.Generator) -> float:
    """Coefficients stability index: how often the 95 % intervals of different seeds overlap.

    Limitations: Wide intervals overlap, so an imprecise method looks stable.
    """
    p = chosen_count(subject)
    if not p or (subject.item.stderr is None and subject.item.method != CONTROL):
        return float("nan")
    repeats = repeated(subject, rng)
    errors = np.zeros_like(repeats.scores) if repeats.stderr is None else repeats.stderr
    return coefficients_stability(repeats.scores, errors, [chosen(scores, p) for scores in repeats.scores])


def chosen_count(subject: MetricInput) -> int:
    """p, or 0 where every unit would be chosen."""
    d, params = len(subject.scores), subject.item.params
    p = int(params["features"]) if params.get("variant") == "published" else min(FEATURES, max(1, d // 2))
    return p if p < d else 0


def chosen(scores: Floats, p: int) -> Indices:
    """The p units with the largest |score|, in reading order among equals; one of score 0 was not chosen."""
    best: Indices = np.argsort(-np.abs(scores), kind="stable")[:p]
    return np.asarray(best[scores[best] != 0])


def variables_stability(sets: list[Indices], p: int) -> float:
    """100 * mean over pairs of runs of the share of p they both chose."""
    shares = [len(np.intersect1d(a, b)) / p for a, b in combinations(sets, 2)]
    return 100 * float(np.mean(shares))


def coefficients_stability(scores: Floats, errors: Floats, sets: list[Indices]) -> float:
    """100 * mean over units, chosen in two runs or more, of the share of their pairs whose intervals meet."""
    low, high = scores - NORMAL_QUANTILE * errors, scores + NORMAL_QUANTILE * errors
    shares = []
    for unit in range(scores.shape[1]):
        runs = [run for run, units in enumerate(sets) if unit in units]
        meet = [
            low[a, unit] <= high[b, unit] and low[b, unit] <= high[a, unit] for a, b in combinations(runs, 2)
        ]
        shares += [float(np.mean(meet))] if meet else []
    return 100 * float(np.mean(shares)) if shares else float("nan")


def ridge_errors(data: Floats, values: Floats, weights: Floats, alpha: float = 1.0) -> Floats:
    """(p,) Visani's standard errors of ridge coefficients; `data` (n, p) without a column for the intercept.

    se^2 = diag(s2 (X'WX + aI)^-1 X'WX (X'WX + aI)^-1),  s2 = sum w (y - fit)^2 / (n - p), the fit weighted
    least squares with an intercept.
    """
    n, p = data.shape
    root = np.sqrt(weights)
    full = np.column_stack([np.ones(n), data])
    line = np.linalg.lstsq(full * root[:, None], values * root, rcond=None)[0]
    s2 = float(weights @ np.square(values - full @ line)) / (n - p)
    gram = data.T @ (data * weights[:, None])
    bread = np.linalg.inv(gram + alpha * np.eye(p))
    return np.asarray(np.sqrt(s2 * np.diag(bread @ gram @ bread)))
