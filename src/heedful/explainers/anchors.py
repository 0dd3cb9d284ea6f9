"""Anchors: the shortest set of words that keeps the prediction, whatever happens to the other words.

    perturb     every unit outside the anchor A is removed with probability 1/2, independently
    precision   prec(A) = P(prediction unchanged | A kept)
    coverage    cov(A) = P(A happens to be kept) = 2^-|A|, exactly, for these removals

The result is the shortest anchor with prec(A) >= threshold (with confidence 1 - delta). The shortest anchor
also has the largest coverage. The search goes from small to large sets. At each size, KL-LUCB (Kaufmann &
Kalyanakrishnan 2013) finds the `beam` most precise extensions of the last beam with as few model inputs as
possible. Each extension is then sampled until its precision is certainly above or below the threshold. The
bounds are true Kullback-Leibler bounds (bisection to convergence).

The samples that chose the anchor would overestimate its precision. So the reported precision, with its
Clopper-Pearson interval of level 1 - delta, comes from new samples. Their number is at least a quarter of
`samples` and at most CHECK_ROWS. If there are fewer possible removals, all of them are used. With a small
budget the anchor may be longer or shorter than necessary and the interval is wide; a note says so.

Cost: at least 3 model inputs, at most 1 + `samples`. Needs: values and a class to keep.
Ribeiro, Singh & Guestrin 2018.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import product
from math import log
from typing import Any

import numpy as np

from heedful.core.attribution import Attribution
from heedful.core.errors import HeedfulError
from heedful.core.input import Units
from heedful.core.registry import explainer
from heedful.core.target import Target
from heedful.engine.question import Question

EPSILON = 0.15  # how near in precision two candidates may be and still be told apart no further
SLACK = 0.05  # an anchor is accepted when its lower bound is above threshold - SLACK
BATCH_ROWS = 32
MIN_SAMPLES = 2  # samples: one to choose by, one to judge by
CHECK_ROWS = 200  # rows that judge the rule: 200 that all hold show a precision of 0.985


@dataclass
class Arm:
    """A candidate anchor and what its samples said."""

    units: tuple[int, ...]
    trials: int = 0
    hits: int = 0

    @property
    def mean(self) -> float:
        return self.hits / self.trials if self.trials else 0.0


@dataclass
class Sampler:
    """Draws perturbations and asks the model, never for more than `most` rows."""

    count: int
    holds: Callable[[np.ndarray], np.ndarray]  # (n, d) masks -> (n,) prediction unchanged
    rng: np.random.Generator
    most: int
    asked: int = field(default=0)

    def draw(self, arm: Arm, rows: int = BATCH_ROWS) -> None:
        rows = min(rows, self.left)
        if rows:
            keep = self.rng.random((rows, self.count)) < 0.5
            self.ask(arm, keep)

    def ask(self, arm: Arm, keep: np.ndarray) -> None:
        keep[:, list(arm.units)] = True
        arm.hits += int(self.holds(keep).sum())
        arm.trials += len(keep)
        self.asked += len(keep)

    @property
    def left(self) -> int:
        return self.most - self.asked

    @property
    def spent(self) -> bool:
        return self.left <= 0


@dataclass(frozen=True)
class AnchorPrecision:
    """How precise a rule is, by rows that had no part in choosing it."""

    precision: float
    low: float
    high: float
    rows: int
    exact: bool  # every way to remove the rest was tried

    def told(self, level: float) -> str:
        if self.exact:
            return f"precision {self.precision:.3f} (exact: all {self.rows} ways to remove the rest)"
        where = f"{level:.0%} interval, {self.rows} rows that had no part in choosing the rule"
        return f"precision {self.precision:.3f} [{self.low:.3f}, {self.high:.3f}] ({where})"

    def doubt(self, threshold: float) -> tuple[str, ...]:
        """A note, where the threshold is not reached for sure."""
        if self.low > threshold - SLACK or (self.exact and self.precision >= threshold):
            return ()
        if self.precision < threshold:
            return (f"not verified: precision {threshold:g} was not reached for sure",)
        return (f"not verified: the bound is wide, for {self.rows} rows; more samples or budget narrow it",)


@explainer(
    "anchors",
    needs={"values"},
    takes=("unit", "operator", "seed"),
    cite="Ribeiro, Singh & Guestrin 2018",
    signed=False,
    expensive=True,
    for_classes=True,
    rows=lambda x, target, p: (1 + MIN_SAMPLES, 1 + p["samples"]),
)
def anchors(
    q: Question,
    *,
    threshold: float = 0.95,
    delta: float = 0.1,
    beam: int = 4,
    samples: int = 4000,
) -> Attribution:
    """The shortest set of units (words, patches) that keeps the prediction: score 1 in the set, else 0.

    Limitations: The result is valid only for texts in which words are removed or replaced in the same way.
    Other texts were not tried. If the anchor is the whole text, it only says that the prediction is fragile.
    """
    if not (0 < delta < 1 and 0 < threshold <= 1 and beam >= 1 and samples >= MIN_SAMPLES):
        raise HeedfulError(
            "anchors need 0 < delta < 1, 0 < threshold <= 1, a beam of at least 1",
            f"and at least {MIN_SAMPLES} samples",
        )
    margin, units = _margin(q), q.x.units(q.unit)
    rows = affordable(q.left, samples)
    sampler = Sampler(
        len(units),
        lambda keep: q.values(keep, margin) > 0,
        np.random.default_rng(q.seed),
        rows - min(CHECK_ROWS, max(1, rows // 4)),
    )
    if not sampler.holds(np.ones((1, len(units)), dtype=bool))[0]:
        raise HeedfulError(
            f"{q.target.label!r} is not what the model predicts for this text",
            "an anchor keeps a prediction the same",
            "Leave out the target, or name the predicted label",
        )
    arm = find(sampler, threshold, delta, beam)
    result = judge(replace(sampler, most=rows), arm, delta)
    values = np.zeros(len(units))
    values[list(arm.units)] = 1.0
    coverage = 2.0 ** -len(arm.units)
    text = f"rule: {_rule(units, arm)}; {result.told(1 - delta)}; coverage {coverage:.3g} (exact)"
    measured: dict[str, Any] = {"precision": result.precision, "interval": [result.low, result.high]}
    return q.answer(
        values,
        params={**measured, "coverage": coverage},
        notes=(text, *result.doubt(threshold)),
    )


def affordable(left: int | None, samples: int) -> int:
    """Samples that the budget still allows beside the text; too small a budget is for the run to tell."""
    return samples if left is None or left < 1 + MIN_SAMPLES else min(samples, left - 1)


def _rule(units: Units, arm: Arm) -> str:
    rule = " AND ".join(units.labels[unit].strip() for unit in sorted(arm.units))
    return rule or "(nothing: the prediction holds by itself)"


def judge(sampler: Sampler, arm: Arm, delta: float) -> AnchorPrecision:
    """The precision of a rule by fresh rows, or by all there are."""
    from scipy.stats import beta

    rest = sampler.count - len(arm.units)
    rows, fresh = min(CHECK_ROWS, sampler.left), Arm(arm.units)
    if rest < 31 and 2**rest <= rows:
        keep = np.ones((2**rest, sampler.count), dtype=bool)
        outside = [u for u in range(sampler.count) if u not in arm.units]
        keep[:, outside] = list(product([False, True], repeat=rest))
        sampler.ask(fresh, keep)
        return AnchorPrecision(fresh.mean, fresh.mean, fresh.mean, fresh.trials, exact=True)
    sampler.draw(fresh, rows)
    missed = fresh.trials - fresh.hits
    low = float(beta.ppf(delta / 2, fresh.hits, missed + 1)) if fresh.hits else 0.0
    high = float(beta.ppf(1 - delta / 2, fresh.hits + 1, missed)) if missed else 1.0
    return AnchorPrecision(fresh.mean, low, high, fresh.trials, exact=False)


def _margin(q: Question) -> Target:
    """The number that is positive while the prediction stands."""
    target, model = q.target, q.model
    if target.contrasted:
        return target
    if target.kind in ("class", "token") or (model.kind == "function" and len(model.labels) > 1):
        return replace(target, kind="margin")
    if target.kind == "label":
        return target  # multi-label: the logit itself
    raise HeedfulError(
        "anchors need a predicted class", f"a {target.kind} has none", "Use occlusion or lime instead"
    )


def find(sampler: Sampler, threshold: float, delta: float, beam: int) -> Arm:
    """The shortest anchor that seems to reach the threshold; else the one most surely precise."""
    empty = Arm(())
    sampler.draw(empty, min(BATCH_ROWS, max(1, sampler.left // 4)))
    level = log(1 / (delta / (1 + (beam - 1) * sampler.count)))
    if _verify(sampler, empty, threshold, level):
        return empty
    met, front = [empty], [empty]
    for _ in range(sampler.count):
        if sampler.spent:
            break
        arms = _extensions(front, sampler.count)
        front = top_arms(sampler, arms, min(beam, len(arms)), delta)
        passed = [arm for arm in front if _verify(sampler, arm, threshold, level)]
        if passed:
            return max(passed, key=lambda arm: arm.mean)
        met += front
    tried = [arm for arm in met if arm.trials]
    return max(tried, key=lambda arm: (kl_lower(arm.mean, log(1 / delta) / arm.trials), -len(arm.units)))


def _extensions(front: list[Arm], count: int) -> list[Arm]:
    sets = {tuple(sorted({*arm.units, u})) for arm in front for u in range(count) if u not in arm.units}
    return [Arm(units) for units in sorted(sets)]


def _verify(sampler: Sampler, arm: Arm, threshold: float, level: float) -> bool:
    """Sample until the lower bound is in or the upper bound is out; no candidate eats more than half."""
    reserve = sampler.left // 2
    while arm.trials and sampler.left > reserve:
        low, high = kl_lower(arm.mean, level / arm.trials), kl_upper(arm.mean, level / arm.trials)
        if arm.mean >= threshold and low > threshold - SLACK:
            return True
        if arm.mean < threshold and high < threshold:
            return False
        sampler.draw(arm, min(BATCH_ROWS, sampler.left - reserve))
    return False


def top_arms(sampler: Sampler, arms: list[Arm], size: int, delta: float) -> list[Arm]:
    """KL-LUCB: sample the weakest of the top and the strongest of the rest until they are EPSILON apart.
    Ties would take all rows there are, so a round ends when half of what was left is spent."""
    reserve = sampler.left // 2
    look = max(1, min(BATCH_ROWS // 4, sampler.left // (2 * len(arms))))
    for arm in arms:
        sampler.draw(arm, look)
    for turn in range(1, sampler.most):
        ranked = sorted(arms, key=lambda arm: -arm.mean)
        inside, outside = ranked[:size], ranked[size:]
        if not outside or sampler.left <= reserve:
            break
        rate = _exploration(len(arms), turn, delta)
        weak = min(inside, key=lambda arm: kl_lower(arm.mean, rate / arm.trials))
        strong = max(outside, key=lambda arm: kl_upper(arm.mean, rate / arm.trials))
        gap = kl_upper(strong.mean, rate / strong.trials) - kl_lower(weak.mean, rate / weak.trials)
        if gap < EPSILON:
            break
        sampler.draw(weak)
        sampler.draw(strong)
    return sorted(arms, key=lambda arm: -arm.mean)[:size]


def _exploration(arms: int, turn: int, delta: float) -> float:
    """beta(t) of KL-LUCB with k1 = 405.5, alpha = 1.1."""
    inner = log(405.5 * arms * turn**1.1 / delta)
    return inner + log(inner)


def kl(p: float, q: float) -> float:
    """Kullback-Leibler divergence of two Bernoulli laws."""
    tiny = 1e-15
    p, q = min(max(p, tiny), 1 - tiny), min(max(q, tiny), 1 - tiny)
    return p * log(p / q) + (1 - p) * log((1 - p) / (1 - q))


def kl_upper(p: float, level: float) -> float:
    """Largest q with kl(p, q) <= level."""
    return _bisect(p, 1.0, lambda q: kl(p, q) <= level)


def kl_lower(p: float, level: float) -> float:
    """Smallest q with kl(p, q) <= level."""
    return _bisect(p, 0.0, lambda q: kl(p, q) <= level)


def _bisect(inside: float, outside: float, holds: Callable[[float], bool]) -> float:
    for _ in range(50):
        middle = (inside + outside) / 2
        if holds(middle):
            inside = middle
        else:
            outside = middle
    return inside
