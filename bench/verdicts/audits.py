"""Audits from end to end on models whose reasons are known, with methods of known quality.

Methods: the true worth of each word with noise of 0, 1/2, 1 and 2 times its spread, and what knows nothing:
noise alone, the same score for every word, the order of reading; beside them occlusion and lime, fitted with
one operator and judged with others. Counted over audits:

    false better   a method that knows nothing, or any method on a model without reasons, is called better
    claims         "better than random" of all methods, and how many hold on fresh texts
    gaps           recommendations, and how many are within their printed gap on fresh texts
    power          blurred methods that are called better, beside the same test where an order is worth the
                   true worth of its first words: no model, no removal
    order          Kendall's tau of the mean z with the true order of the blurred methods
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

import heedful
from bench.verdicts.models import Known
from bench.verdicts.rates import EXCHANGES
from heedful.core.arrays import Floats
from heedful.metrics.faithfulness import bin_counts
from heedful.metrics.random_orders import MetricCell, Pools
from heedful.metrics.verdict import judge
from heedful.metrics.verdict_types import Verdict

TEXTS, FRESH = 30, 60
BLURS = {"truth": 0.0, "blur-half": 0.5, "blur-one": 1.0, "blur-two": 2.0}
NOTHING = ("noise", "constant", "reading-order")
OURS = ("occlusion", "lime")


def scores(known: Known, method: str, text: str, seed: int) -> Floats:
    """One score per word."""
    words = text.split()
    rng = np.random.default_rng([seed, zlib.crc32(f"{method} {text}".encode())])
    drawn = rng.normal(size=len(words))
    if method == "constant":
        return np.full(len(words), 0.1)
    if method == "reading-order":
        return -np.arange(len(words), dtype=float)
    if known.truth is None or method == "noise":
        return drawn
    true = known.truth(words)
    return true + BLURS[method] * true.std() * drawn


def methods(known: Known) -> tuple[str, ...]:
    return (*BLURS, *NOTHING) if known.truth is not None else NOTHING


def knows_nothing(known: Known, method: str) -> bool:
    if known.truth is None:
        return True
    return method in NOTHING and not (method == "reading-order" and known.name.startswith("positions"))


def audited(known: Known, seed: int, texts: int = TEXTS, ours: tuple[str, ...] = OURS) -> Verdict:
    """One audit of the model, through everything a user's audit goes through."""
    given = {
        name: (lambda text, name=name: scores(known, name, text, seed).tolist()) for name in methods(known)
    }
    found = heedful.weigh(
        known,
        known.texts(texts, seed),
        given,
        fitted_by="nothing",
        methods=ours,
        seed=seed,
        metrics=["comprehensiveness", "sufficiency", "aopc", "insertion"],
    )
    return found.verdict


def oracle(known: Known, seed: int) -> list[str]:
    """Methods that the same test calls better where an order is worth the true worth of its first words."""
    texts, names = known.texts(TEXTS, seed), tuple(BLURS)
    values, orders = np.empty((TEXTS, len(names), 1)), np.empty((TEXTS, 20, 1))
    for row, text in enumerate(texts):
        assert known.truth is not None
        true = known.truth(text.split())
        rng = np.random.default_rng([seed, row, 99])
        values[row, :, 0] = [_worth(true, scores(known, name, text, seed)) for name in names]
        orders[row, :, 0] = [_worth(true, rng.normal(size=len(true))) for _ in range(20)]
    cells = (MetricCell("remove-top", "worth", "none"),)
    return judge(Pools(names, cells, values, orders), seed=seed, exchanges=EXCHANGES).better


def _worth(true: Floats, given: Floats) -> float:
    first = true[np.argsort(-given, kind="stable")]
    return float(np.mean([first[:count].sum() for count in bin_counts(len(true))]))


@dataclass(frozen=True)
class Outcome:
    """What one audit came to."""

    model: str
    false_better: bool
    reasons: bool  # the model has some
    claims: int = 0
    claims_hold: int = 0
    used: bool = False
    gap_holds: bool = True
    found: int = 0  # blurred methods called better
    findable: int = 0  # by the oracle
    tau: float = float("nan")


def outcome(known: Known, seed: int, fresh: Verdict | None) -> Outcome:
    """`fresh`: a verdict on many other texts of the same model."""
    found = audited(known, seed)
    false = any(knows_nothing(known, name) for name in found.better)
    if known.truth is None or fresh is None:
        return Outcome(known.name, false, known.truth is not None)
    blurs = [found[name].z for name in BLURS]
    hold = [name for name in found.better if fresh[name].share > 0.5]
    return Outcome(
        known.name,
        false,
        True,
        len(found.better),
        len(hold),
        bool(found.use),
        _within(found, fresh),
        len(set(found.better) & set(BLURS)),
        len(oracle(known, seed)),
        float(stats.kendalltau(blurs, [-blur for blur in BLURS.values()]).statistic),
    )


def _within(found: Verdict, fresh: Verdict) -> bool:
    """Whether, on the fresh texts, no method is better than the recommended one by more than was printed."""
    if not found.use:
        return True
    gap = np.ceil(100 * found[found.use].gap - 1e-9) / 100
    return bool(max(one.z for one in fresh.methods) - fresh[found.use].z <= gap + 1e-9)


def run(models: list[Known], seeds: int, tell: Any = None) -> list[Outcome]:
    """`seeds` audits of each model."""
    found = []
    for known in models:
        fresh = audited(known, 10_000, FRESH) if known.truth is not None else None
        for seed in range(seeds):
            found.append(outcome(known, seed, fresh))
            if tell is not None:
                tell(found[-1])
    return found
