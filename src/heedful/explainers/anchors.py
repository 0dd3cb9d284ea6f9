"""Anchors: the shortest set of words that, kept, holds the prediction whatever happens to the others.

    perturb     every unit outside the anchor A is removed with probability 1/2, independently
    precision   prec(A) = P(prediction unchanged | A kept)
    coverage    cov(A) = P(A happens to be kept) = 2^-|A|, exactly, under that law

Among anchors with prec(A) >= threshold (with confidence 1 - delta) the one with the largest coverage, so the
shortest. Sizes are tried in turn; at each, KL-LUCB (Kaufmann & Kalyanakrishnan 2013) finds the `beam` most
precise extensions of the last beam with as few rows as it can; each is then sampled until surely in or out.

Bounds are the true Kullback-Leibler ones (bisection to convergence). Needs: rows and a class to keep.
Ribeiro, Singh & Guestrin 2018.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import log

import numpy as np

from heedful.errors import HeedfulError
from heedful.models.base import Model
from heedful.registry import explainer
from heedful.rows import spread
from heedful.types import Attribution, Encoded, Target

EPSILON = 0.15  # how near in precision two candidates may be and still be told apart no further
SLACK = 0.05  # an anchor is accepted when its lower bound is above threshold - SLACK
BATCH = 32


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
    """Draws perturbations and asks the model; every row asked counts against `most`."""

    count: int
    holds: Callable[[np.ndarray], np.ndarray]  # (n, d) masks -> (n,) prediction unchanged
    rng: np.random.Generator
    most: int
    asked: int = field(default=0)

    def draw(self, arm: Arm, rows: int = BATCH) -> None:
        keep = self.rng.random((rows, self.count)) < 0.5
        keep[:, list(arm.units)] = True
        arm.hits += int(self.holds(keep).sum())
        arm.trials += rows
        self.asked += rows

    @property
    def spent(self) -> bool:
        return self.asked >= self.most


def _rows(d: int, beam: int, samples: int) -> tuple[int, int]:
    """The text and a batch at least; at most `samples`, which a last round of first looks may overshoot."""
    return 1 + BATCH, 1 + samples + max(2 * BATCH, BATCH // 4 * beam * d)


@explainer(
    "anchors",
    needs={"rows"},
    cite="Ribeiro, Singh & Guestrin 2018",
    signed=False,
    dear=True,
    rows=lambda x, target, p: _rows(len(x.units(p["unit"])), p["beam"], p["samples"]),
)
def anchors(
    model: Model,
    x: Encoded,
    target: Target,
    *,
    threshold: float = 0.95,
    delta: float = 0.1,
    beam: int = 4,
    samples: int = 4000,
    unit: str = "word",
    seed: int = 0,
) -> Attribution:
    """The shortest set of words that keeps the prediction: score 1 inside the anchor, 0 outside."""
    if not (0 < delta < 1 and 0 < threshold <= 1 and beam >= 1 and samples >= BATCH):
        raise HeedfulError(
            "anchors need 0 < delta < 1, 0 < threshold <= 1, a beam of at least 1",
            f"and at least {BATCH} samples",
        )
    margin = _margin(model, target)
    groups = x.units(unit)
    operator = model.operators[0]
    sampler = Sampler(
        len(groups),
        lambda keep: model.rows(x, margin, keep, operator, unit) > 0,
        np.random.default_rng(seed),
        samples,
    )
    if not sampler.holds(np.ones((1, len(groups)), dtype=bool))[0]:
        raise HeedfulError(
            f"{target.label!r} is not what the model predicts for this text",
            "an anchor holds a prediction in place",
            "Leave out the target, or name the predicted label",
        )
    arm, sure = find(sampler, threshold, delta, beam)
    values = np.zeros(len(groups))
    values[list(arm.units)] = 1.0
    level = log(1 / delta)
    low, high = kl_lower(arm.mean, level / arm.trials), kl_upper(arm.mean, level / arm.trials)
    spans = [(x.offsets[groups[u][0]][0], x.offsets[groups[u][-1]][1]) for u in sorted(arm.units)]
    rule = " AND ".join(x.text[slice(*span)].strip() for span in spans)
    told = (
        f"rule: {rule or '(nothing: the prediction holds by itself)'}; precision {arm.mean:.3f} "
        f"[{low:.3f}, {high:.3f}] from {arm.trials} samples; coverage {2.0 ** -len(arm.units):.3g} (exact)"
    )
    notes = (told,) if sure else (told, f"not verified: precision {threshold:g} was not reached for sure")
    return Attribution(x, target, spread(values, groups, len(x)), params={"operator": operator}, notes=notes)


def _margin(model: Model, target: Target) -> Target:
    """The number that is positive while the prediction stands."""
    if target.contrasted:
        return target
    if target.kind in ("class", "token") or (model.kind == "function" and len(model.labels) > 1):
        return replace(target, kind="margin")
    if target.kind == "label":
        return target  # multi-label: the logit itself
    raise HeedfulError(
        "anchors need a class to hold in place", f"a {target.kind} has none", "Use occlusion or lime instead"
    )


def find(sampler: Sampler, threshold: float, delta: float, beam: int) -> tuple[Arm, bool]:
    """(anchor, whether it surely reaches the threshold). Unsure: the most precise one met."""
    empty = Arm(())
    sampler.draw(empty)
    level = log(1 / (delta / (1 + (beam - 1) * sampler.count)))
    if _verify(sampler, empty, threshold, level):
        return empty, True
    best, front = empty, [empty]
    for _ in range(sampler.count):
        arms = _extensions(front, sampler.count)
        front = top_arms(sampler, arms, min(beam, len(arms)), delta)
        passed = [arm for arm in front if _verify(sampler, arm, threshold, level)]
        if passed:
            return max(passed, key=lambda arm: arm.mean), True
        best = max([best, *front], key=lambda arm: (arm.mean, -len(arm.units)))
        if sampler.spent:
            break
    return best, False


def _extensions(front: list[Arm], count: int) -> list[Arm]:
    sets = {tuple(sorted({*arm.units, u})) for arm in front for u in range(count) if u not in arm.units}
    return [Arm(units) for units in sorted(sets)]


def _verify(sampler: Sampler, arm: Arm, threshold: float, level: float) -> bool:
    """Sample until the lower bound is in or the upper bound is out."""
    while not sampler.spent:
        low, high = kl_lower(arm.mean, level / arm.trials), kl_upper(arm.mean, level / arm.trials)
        if arm.mean >= threshold and low > threshold - SLACK:
            return True
        if arm.mean < threshold and high < threshold:
            return False
        sampler.draw(arm)
    return False


def top_arms(sampler: Sampler, arms: list[Arm], size: int, delta: float) -> list[Arm]:
    """KL-LUCB: sample the weakest of the top and the strongest of the rest until they are EPSILON apart."""
    for arm in arms:
        sampler.draw(arm, BATCH // 4)
    for turn in range(1, sampler.most):
        ranked = sorted(arms, key=lambda arm: -arm.mean)
        inside, outside = ranked[:size], ranked[size:]
        if not outside or sampler.spent:
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
