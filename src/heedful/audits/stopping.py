"""When an audit may stop: looked at after every text, with the tests of heedful.stats.sequential_tests.

It is decided when every method either beats random orders or has a share shown to lie below 0.6, and

    a method is certified as good as the best, or
    no method could be with the texts there are: even if all were read, and all went on as before, the
    interval would stay too wide

Stopping for the second reason claims nothing, so it costs nothing of the promise.
"""

from __future__ import annotations

import numpy as np

from heedful.audits.audit_run import AuditRun
from heedful.audits.result import VerdictInputs
from heedful.audits.settings import AuditSettings
from heedful.core.arrays import Floats
from heedful.core.defaults import MIN_COMPARED_TEXTS, MIN_TEXTS
from heedful.metrics.random_orders import Pools, by_family, standard
from heedful.metrics.verdict import DELTA, MethodFacts, judge, split_controls
from heedful.metrics.verdict_types import Verdict
from heedful.stats.best_comparison import ALPHA, decide, differences, sparse_low
from heedful.stats.sequential_tests import level_of, reach


class EarlyStopping:
    """The texts so far, and whether they are enough."""

    def __init__(self, settings: AuditSettings, total: int | None) -> None:
        self.total = total
        self.texts, self.rows = VerdictInputs(settings.to_dict()), 0

    def add(self, run: AuditRun, number: int) -> None:
        """A shard that is done."""
        self.rows += run.facts(number)["rows"]
        self.texts.add(run, number)

    @property
    def done(self) -> bool:
        """Looked at as the verdict will be: the same texts, methods and operators."""
        if len(self.texts) < MIN_TEXTS:
            return False
        return decided(*self.texts.pools(), self._left())

    def _left(self) -> int | None:
        """Texts that may still come; some rows may hold none."""
        return None if self.total is None else max(0, self.total - self.rows)


def decided(pools: Pools, facts: MethodFacts, left: int | None) -> bool:
    """Whether to stop here, with so many texts left (None: no end is known)."""
    verdict = judge(pools, facts, always=True)
    if not verdict.methods or not all(one.settled for one in verdict.methods):
        return False
    if not verdict.better or len(verdict.methods) == 1:
        return True
    if not verdict.compared:
        return len(pools) + (left or 0) < MIN_COMPARED_TEXTS and left is not None
    return verdict.certified or (left is not None and not _could_be(pools, verdict, left))


def _could_be(pools: Pools, verdict: Verdict, left: int) -> bool:
    """Whether a method that beats random orders could be certified with `left` more texts like these."""
    pools, _ = split_controls(pools)
    z = by_family(standard(pools.values, pools.orders), pools.cells)
    z = z[np.isfinite(z).all(1)]
    n, later = len(z), len(z) + left
    mean, error = differences(z)
    critical = np.full(len(mean), reach(later, level_of(len(mean))))
    gap = decide(mean, error * np.sqrt(n / later), critical, sparse_later(z, later)).gap
    return any(gap[pools.methods.index(name)] <= DELTA for name in verdict.better)


def sparse_later(z: Floats, later: int) -> Floats:
    """The limits of methods that hardly differ, if the texts to come were like these."""
    times = max(1, later // max(len(z), 1))
    return sparse_low(np.concatenate([z] * times), ALPHA)
