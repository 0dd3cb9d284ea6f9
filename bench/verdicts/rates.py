"""Rates of false claims from simulated audits: how often a verdict says what is not so.

Every audit here has a known truth. Three kinds of error are counted, each over whole audits:

    false better    any method that is not better than random orders is called better
    false use       a method is recommended that is worse than the best by more than the printed gap
    false above     any method that can change places with a control is shown better than it

A rate is given with its Clopper-Pearson interval (95 %); the promise is 5 %, and a null breaks it where the
lower limit is above.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy import stats

from bench.verdicts.laws import CELLS, LAWS, pools
from heedful.audits.stopping import decided
from heedful.core.arrays import Floats
from heedful.core.defaults import AUDIT_CONTROLS
from heedful.metrics.random_orders import MetricCell, Pools, by_family, standard
from heedful.metrics.verdict import MethodFacts, judge
from heedful.metrics.verdict_types import Verdict
from heedful.stats.best_comparison import ALPHA

PROMISE = 0.05
EXCHANGES = 999  # the test is exact with any number
# Laws that grow with the latent number rank alike: shares, and claims of "better", are those of "symmetric".
SAME_RANKS = ("skewed, long tail of wins", "skewed, long tail of losses", "heavy tails")
Draw = Callable[[np.random.Generator], Pools]


@dataclass(frozen=True)
class Null:
    """One kind of audit, with its truth."""

    name: str
    draw: Draw
    better: tuple[bool, ...]  # by method: truly better than random orders
    z: Floats | None = None  # true means, where methods are compared


@dataclass(frozen=True)
class Rate:
    """Errors among audits."""

    name: str
    errors: int
    of: int

    @property
    def interval(self) -> tuple[float, float]:
        low = 0.0 if not self.errors else float(stats.beta.ppf(0.025, self.errors, self.of - self.errors + 1))
        full = self.errors == self.of
        high = 1.0 if full else float(stats.beta.ppf(0.975, self.errors + 1, self.of - self.errors))
        return low, high

    @property
    def holds(self) -> bool:
        return self.interval[0] <= PROMISE

    def __str__(self) -> str:
        low, high = self.interval
        rate = self.errors / self.of if self.of else float("nan")
        return f"{100 * rate:.2f} % ({100 * low:.2f} to {100 * high:.2f})"


def nulls(n: int = 20, methods: int = 4) -> list[Null]:
    """Audits in which nothing, or not everything, is better than random."""
    nothing = (False,) * methods
    found = [
        Null(f"{name} values", partial(_plain, law, n, methods), nothing)
        for name, law in LAWS.items()
        if name not in SAME_RANKS
    ]
    found += [
        Null("right on half, the reverse on half", partial(_half, n, methods), nothing),
        Null("methods that copy each other", partial(_copies, n, methods), nothing),
        Null("twin metrics", partial(_twins, n, methods), nothing),
        Null(
            "one good method, the others know nothing", partial(_one_good, n, methods), (True, *nothing[1:])
        ),
    ]
    return found


def _plain(law: Callable[[Floats], Floats], n: int, methods: int, rng: np.random.Generator) -> Pools:
    return pools(law, np.zeros(methods), n, rng)


def _half(n: int, methods: int, rng: np.random.Generator) -> Pools:
    """Each method beats every random order on a text, or none, by the toss of a coin."""
    found = pools(LAWS["symmetric"], np.zeros(methods), n, rng)
    right = rng.random((n, methods, 1)) < 0.5
    top, low = found.orders.max(1, keepdims=True), found.orders.min(1, keepdims=True)
    return Pools(found.methods, found.cells, np.where(right, top + 1, low - 1), found.orders)


def _copies(n: int, methods: int, rng: np.random.Generator) -> Pools:
    found = pools(LAWS["symmetric"], np.zeros(1), n, rng)
    return Pools(
        tuple(f"method-{place}" for place in range(methods)),
        found.cells,
        found.values.repeat(methods, 1),
        found.orders,
    )


def _twins(n: int, methods: int, rng: np.random.Generator) -> Pools:
    """Ten metrics of one family that say the same, one of the other."""
    found = pools(LAWS["symmetric"], np.zeros(methods), n, rng)
    places = [0] * 10 + [2]
    cells = tuple(MetricCell(CELLS[at].family, f"metric-{k}", "delete") for k, at in enumerate(places))
    return Pools(found.methods, cells, found.values[:, :, places], found.orders[:, :, places])


def _one_good(n: int, methods: int, rng: np.random.Generator) -> Pools:
    return pools(LAWS["symmetric"], np.array([1.5] + [0.0] * (methods - 1)), n, rng)


def duplicated(n: int, methods: int, rng: np.random.Generator) -> tuple[Pools, Pools]:
    """The same null audit with every text once, and with every text four times."""
    found = pools(LAWS["symmetric"], np.zeros(methods), n // 4, rng)
    again = Pools(found.methods, found.cells, found.values.repeat(4, 0), found.orders.repeat(4, 0))
    return found, again


def ranked(law: str, quality: Floats, n: int) -> Null:
    """Methods of known quality: their true means come from many texts."""
    many = pools(LAWS[law], quality, 20_000, np.random.default_rng(12345))
    z = by_family(standard(many.values, many.orders), many.cells).mean(0)
    return Null(
        f"{law} values, methods of {len(quality)} qualities",
        partial(_ranked, LAWS[law], quality, n),
        tuple(quality > 0),
        z,
    )


def _ranked(law: Callable[[Floats], Floats], quality: Floats, n: int, rng: np.random.Generator) -> Pools:
    return pools(law, quality, n, rng)


def controlled(law: str, n: int, rng: np.random.Generator, quality: float = 1.0, methods: int = 4) -> Pools:
    """Methods that can change places with two controls: all beat random orders alike, whoever looks at the
    model."""
    found = pools(LAWS[law], np.full(methods + 2, quality), n, rng)
    return Pools((*found.methods[:methods], *AUDIT_CONTROLS), found.cells, found.values, found.orders)


def false_above(verdict: Verdict) -> bool:
    """Some method is shown better than a control, where none is."""
    return any(p <= ALPHA for one in verdict.methods for p in one.against.values())


def false_better(verdict: Verdict, null: Null) -> bool:
    truth = dict(zip((f"method-{place}" for place in range(len(null.better))), null.better, strict=True))
    return any(not truth[name] for name in verdict.better)


def false_use(verdict: Verdict, null: Null) -> bool:
    """The recommended method is worse than the best by more than the printed gap, or knows nothing."""
    if not verdict.use:
        return False
    place = int(verdict.use.removeprefix("method-"))
    if null.z is None or not verdict.compared:
        return not null.better[place]
    gap = np.ceil(100 * verdict[verdict.use].gap - 1e-9) / 100  # as it is printed
    return bool(null.z.max() - null.z[place] > gap + 1e-9) or not null.better[place]


def judged(pools: Pools, seed: int, always: bool = False) -> Verdict:
    """The better a method, the more it costs: the rule that takes the cheapest is put to the test."""
    inputs = {name: float(len(pools.methods) - place) for place, name in enumerate(pools.methods)}
    return judge(pools, MethodFacts(inputs), seed=seed, always=always, exchanges=EXCHANGES)


def stopped(pools: Pools) -> int:
    """The text at which an audit that stops when it is decided stops."""
    total = len(pools)
    for n in range(10, total):
        if decided(first(pools, n), MethodFacts(), total - n):
            return n
    return total


def first(pools: Pools, n: int) -> Pools:
    """The first n texts."""
    return Pools(pools.methods, pools.cells, pools.values[:n], pools.orders[:n])
