"""Which explanation to use: one verdict from all measurements that remove words.

    better than random   an exchange test of the share of random orders beaten, Holm over methods, 2.5 %
                         (heedful.stats.exchange_test)
    which to use         certified: better than random, and no method is better by more than DELTA
                         random-order standard deviations (heedful.stats.best_comparison, 2.5 %). Of the
                         certified methods the one with the fewest model inputs; if none is certified the
                         highest mean, "not certified"
    controls             methods that do not look at the model (core.defaults.CONTROLS) take no part. Each
                         method is compared with each of them, input by input: one-sided, Holm over methods
                         and controls, 2.5 % (heedful.stats.paired_test)

Metrics speak through their family: remove-the-top and keep-the-top have one voice each, and within a family
all cells (metric × operator) count alike. Other metrics take no part. A cell counts whoever leads in it.
Everything is judged by removal operators that fitted none of the methods.

Below MIN_TEXTS texts nothing is claimed, below MIN_COMPARED nothing between methods.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy import special

from heedful.core.arrays import Floats
from heedful.core.defaults import CONTROLS, MIN_COMPARED_TEXTS, MIN_TEXTS
from heedful.metrics.random_orders import MetricCell, Pools, beaten, by_family, exchanged, standard
from heedful.metrics.verdict_types import ControlVerdict, MethodVerdict, Verdict
from heedful.stats import sequential_tests
from heedful.stats.best_comparison import ALPHA, BestComparison, best_methods
from heedful.stats.exchange_test import DRAWS, exchange_p, holm
from heedful.stats.paired_test import paired_p, paired_p_at_all_times

DELTA = 0.3  # random-order standard deviations: a smaller difference does not decide which to use
MIN_TEXT_SHARE = 0.8  # of the texts: a method that ran on fewer takes no part
POWER = 0.8
BELOW_LEVEL = 0.05  # of one method's share, on one side: it ends the search for it and claims nothing
# the first that fitted no method judge by default; a model offers those of its kind of input
JUDGES = ("delete", "swap", "blur", "inpaint", "noise", "mask", "unk", "pad", "mean")


TYPICAL_SHARE, TYPICAL_GAP = 0.25, 0.7  # standard deviations over texts, before anything is measured


@dataclass(frozen=True)
class MethodFacts:
    """What a verdict needs to know of the methods beside their values."""

    inputs: Mapping[str, float] = field(default_factory=dict)  # model inputs per text
    fitted_by: Mapping[str, tuple[str, ...] | None] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)


def judge(
    pools: Pools,
    facts: MethodFacts | None = None,
    *,
    seed: int = 0,
    always: bool = False,
    exchanges: int = DRAWS,
) -> Verdict:
    """The verdict on simulated or measured values.

    always      texts were looked at one by one and could have been the last: tests that allow it
    exchanges   drawn for each p value; the test is exact with any number
    """
    facts = facts or MethodFacts()
    pools, controls = split_controls(pools)
    pools, missing = _present(pools)
    controls, blank = _present(controls)
    missing |= blank
    facts = MethodFacts(facts.inputs, facts.fitted_by, {**facts.left_out, **missing})
    n = len(pools)
    if not pools.methods or not n or not pools.cells:
        return Verdict(n=n, cells=pools.cells, left_out=facts.left_out, looked_always=always)
    whole = np.isfinite(pools.values).all((1, 2)) & np.isfinite(pools.orders).all((1, 2))
    shares = beaten(pools.values, pools.orders)  # (n, M, C)
    w = by_family(shares, pools.cells)  # (n, M)
    z = by_family(standard(pools.values, pools.orders), pools.cells)[whole]
    unknown = [name for name in pools.methods if facts.fitted_by.get(name, ()) is None]
    p, spread = _random_p(pools, seed, 0 if always else exchanges, unknown)
    flat = not spread
    enough = np.isfinite(w).sum(0) >= MIN_TEXTS
    better = [bool(here and value <= ALPHA) for here, value in zip(enough, p, strict=True)]
    compared = len(z) >= MIN_COMPARED_TEXTS and len(pools.methods) > 1 and any(better)
    again = max(exchanges // 5, 1000)
    best = (
        (sequential_tests.best_at_all_times(z) if always else best_methods(z, seed, again))
        if compared
        else None
    )
    below = sequential_tests.below_p(w[whole]) if always and whole.any() else np.zeros(len(p))
    measured = _Measured(shares=shares, w=w, z=z, p=p, better=better, best=best)
    methods = [_method(place, pools, measured, facts) for place in range(len(pools.methods))]
    settled = (
        [_settled(one, float(low)) for one, low in zip(methods, below, strict=True)] if always else methods
    )
    if tested := _compared(pools, controls, unknown, seed, 0 if always else exchanges):
        settled = [replace(one, against=tested.p[one.method]) for one in settled]
    ordered = sorted(settled, key=lambda one: -one.z)
    use = _use(ordered, compared)
    values = (visible_share(n, len(pools.methods), spread), _visible_gap(best))
    return Verdict(
        n=n,
        methods=tuple(ordered),
        use=use.method if use else "",
        certified=bool(use and use.certified),
        cells=pools.cells,
        draws=pools.orders.shape[1],
        common=len(z),
        compared=compared,
        looked_always=always,
        left_out=facts.left_out,
        flat=flat,
        visible_share=values[0],
        visible_gap=values[1],
        controls=_controls(controls),
        controlled=tested.n if tested else 0,
    )


def split_controls(pools: Pools) -> tuple[Pools, Pools]:
    """Methods, and controls that do not look at the model."""
    every = {cell.operator for cell in pools.cells}
    methods = [name for name in pools.methods if name not in CONTROLS]
    return pools.only(methods, every), pools.only([n for n in pools.methods if n in CONTROLS], every)


def _controls(pools: Pools) -> tuple[ControlVerdict, ...]:
    """What each control reached."""
    w = by_family(beaten(pools.values, pools.orders), pools.cells) if pools.methods else np.zeros((0, 0))
    z = by_family(standard(pools.values, pools.orders), pools.cells) if pools.methods else w
    lines = []
    for place, name in enumerate(pools.methods):
        there = np.isfinite(w[:, place])
        mine = w[there, place]
        won, share = int((mine > 0.5).sum()), _mean(mine)
        lines.append(ControlVerdict(name, int(there.sum()), won, share, _mean(z[there, place])))
    return tuple(lines)


@dataclass(frozen=True)
class _AgainstControls:
    n: int  # inputs on which all have values
    p: Mapping[str, Mapping[str, float]]  # method -> control -> corrected p


def _compared(
    pools: Pools, controls: Pools, unknown: Sequence[str], seed: int, exchanges: int
) -> _AgainstControls | None:
    """Every method with every control, input by input; no exchanges: looked at after every input.

    None where there are no controls, or fewer inputs than a claim needs.
    """
    if not pools.methods or not controls.methods:
        return None
    whole = np.isfinite(pools.values).all((1, 2)) & np.isfinite(controls.values).all((1, 2))
    n = int(whole.sum())
    if n < MIN_COMPARED_TEXTS:
        return None
    operators = list(dict.fromkeys(cell.operator for cell in pools.cells))
    owners, gaps = list[str](), list[Floats]()
    for name in pools.methods:
        # of what fitted it nothing is known: it must be better under every operator by itself
        for judging in [[operator] for operator in operators] if name in unknown else [operators]:
            own, theirs = _z(pools.only([name], judging)), _z(controls.only(controls.methods, judging))
            owners.append(name)
            gaps.append((own - theirs)[whole])  # (n, controls)
    every = np.concatenate(gaps, axis=1)
    raw = paired_p(every, seed, exchanges) if exchanges else paired_p_at_all_times(every)
    each = raw.reshape(len(owners), -1)
    p = np.stack([each[[owner == name for owner in owners]].max(0) for name in pools.methods])
    adjusted = holm(p.ravel()).reshape(p.shape)
    return _AgainstControls(
        n,
        {
            name: dict(zip(controls.methods, row.tolist(), strict=True))
            for name, row in zip(pools.methods, adjusted, strict=True)
        },
    )


def _z(pools: Pools) -> Floats:
    """(n, M) distances from random orders."""
    return by_family(standard(pools.values, pools.orders), pools.cells)


def _present(pools: Pools) -> tuple[Pools, dict[str, str]]:
    """Without texts whose random orders are no numbers, and methods that have values on too few texts, which
    would cost the others theirs."""
    there = np.isfinite(pools.orders).all((1, 2))
    pools = Pools(pools.methods, pools.cells, pools.values[there], pools.orders[there])
    share = np.isfinite(pools.values).all(2).mean(0) if len(pools) else np.ones(len(pools.methods))
    here = share >= MIN_TEXT_SHARE
    names = tuple(name for name, stays in zip(pools.methods, here, strict=True) if stays)
    gone = [name for name in pools.methods if name not in names]
    missing = dict.fromkeys(gone, "it has scores on too few inputs")
    return Pools(names, pools.cells, pools.values[:, here], pools.orders), missing


def _random_p(pools: Pools, seed: int, exchanges: int, unknown: Sequence[str]) -> tuple[Floats, float]:
    """Corrected p values, and the spread of the shares of random orders; no exchanges: by betting.

    The spread is 0 where all orders did the same everywhere. A method of which it is not known what fitted it
    must be better under every operator by itself: only one of them can be its own.
    """
    result, spreads = np.ones(len(pools.methods)), list[float]()
    operators = list(dict.fromkeys(cell.operator for cell in pools.cells))
    for place, name in enumerate(pools.methods):
        parts = (
            [pools.only([name], [op]) for op in operators]
            if name in unknown
            else [pools.only([name], operators)]
        )
        each = [_one_p(part, seed, exchanges) for part in parts]
        result[place] = max(p for p, _ in each)
        spreads += [spread for _, spread in each]
    return holm(result), max(spreads)


def _one_p(pools: Pools, seed: int, exchanges: int) -> tuple[float, float]:
    """Of one method."""
    w = by_family(beaten(pools.values, pools.orders), pools.cells)
    there = np.isfinite(w[:, 0])
    if not exchanges:
        return float(sequential_tests.better_p(w[there])[0]), float(np.any(w[there] != 0.5))
    members = exchanged(pools.values[there, 0], pools.orders[there], pools.cells) - 0.5
    spread = float(np.sqrt(np.square(members).mean())) if there.any() else 0.0
    return exchange_p(members, seed, exchanges), spread


@dataclass(frozen=True, eq=False)
class _Measured:
    """Of all M methods, in the order of the pools."""

    shares: Floats  # (n, M, C) of random orders beaten
    w: Floats  # (n, M) the same, families counting alike
    z: Floats  # (texts with all values, M) distances from random orders
    p: Floats  # (M,)
    better: Sequence[bool]
    best: BestComparison | None


def _method(place: int, pools: Pools, measured: _Measured, facts: MethodFacts) -> MethodVerdict:
    name, w, better, best = pools.methods[place], measured.w, measured.better[place], measured.best
    there = np.isfinite(w[:, place])
    mine = measured.shares[there, place]
    shown = best is not None and (bool(best.inside[place]) or better)
    gap = float(best.gap[place]) if best is not None and shown else math.nan
    return MethodVerdict(
        method=name,
        texts=int(there.sum()),
        won=int((w[there, place] > 0.5).sum()),
        share=_mean(w[there, place]),
        p=float(measured.p[place]),
        better=better,
        z=_mean(measured.z[:, place]),
        gap=gap,
        may_be_best=best is not None and bool(best.inside[place]),
        certified=better and best is not None and gap <= DELTA,
        inputs=float(facts.inputs.get(name, math.nan)),
        by_family=_parts(mine, [cell.family for cell in pools.cells]),
        by_operator=_operators(mine, pools.cells),
        fitted_by=facts.fitted_by.get(name, ()),
    )


def _mean(values: Floats) -> float:
    return float(values.mean()) if len(values) else math.nan


def _parts(shares: Floats, names: Sequence[str]) -> dict[str, float]:
    """Mean share by name; shares (n, C)."""
    return {
        name: float(shares[:, [each == name for each in names]].mean()) if len(shares) else math.nan
        for name in dict.fromkeys(names)
    }


def _operators(shares: Floats, cells: tuple[MetricCell, ...]) -> dict[str, float]:
    """Under each operator, families count alike."""
    values = {}
    for operator in dict.fromkeys(cell.operator for cell in cells):
        here = [cell.operator == operator for cell in cells]
        part = tuple(cell for cell in cells if cell.operator == operator)
        values[operator] = _mean(by_family(shares[:, here], part))
    return values


def _settled(one: MethodVerdict, below: float) -> MethodVerdict:
    return replace(one, settled=one.better or below <= BELOW_LEVEL)


def _use(ordered: Sequence[MethodVerdict], compared: bool) -> MethodVerdict | None:
    """The recommendation: the cheapest certified method, else the best mean of those better than random. Of
    the certified methods, those come first that are shown better than every control."""
    better = [one for one in ordered if one.better]
    if len(ordered) == 1:
        return better[0] if better else None
    if not better or not compared:
        return None
    certified = [one for one in better if one.certified]
    if not certified:
        return better[0]
    above = [one for one in certified if not one.not_shown_better]
    return min(
        above or certified, key=lambda one: (math.inf if math.isnan(one.inputs) else one.inputs, -one.z)
    )


def _visible_gap(best: BestComparison | None) -> float:
    """The difference between two methods that would be claimed in 80 % of audits like this one."""
    if best is None:
        return math.nan
    beside = ~np.eye(len(best.gap), dtype=bool)
    return float((np.median(best.critical) + special.ndtri(POWER)) * np.median(best.error[beside]))


def visible_share(n: int, methods: int, spread: float = TYPICAL_SHARE) -> float:
    """Of random orders beaten: what n texts would show in 80 % of audits; at most 1."""
    reach = -special.ndtri(ALPHA / max(methods, 1)) + special.ndtri(POWER)
    return float(min(1.0, 0.5 + reach * spread / np.sqrt(n))) if n >= MIN_TEXTS else math.nan


def visible_gap(n: int, methods: int, spread: float = TYPICAL_GAP) -> float:
    """Between two methods, in random-order standard deviations; NaN where methods are not compared."""
    if n < MIN_COMPARED_TEXTS or methods < 2:
        return math.nan
    reach = -special.stdtrit(n - 1, ALPHA / (methods - 1)) + special.ndtri(POWER)
    return float(reach * spread / np.sqrt(n))


def judging_operators(
    operators: Sequence[str], fitted_by: Mapping[str, tuple[str, ...] | None]
) -> tuple[tuple[str, ...], dict[str, str]]:
    """Operators that may judge, and the methods that take no part, with the reason.

    Those that fitted no method. If every operator fitted some, the one that fitted fewest judges, and what it
    fitted is left out: a method is never judged by its own removal.
    """
    fitted = {op: [name for name, by in fitted_by.items() if by and op in by] for op in operators}
    free = tuple(op for op in operators if not fitted[op])
    if free or not operators:
        return free, {}
    judge_by = min(operators, key=lambda op: len(fitted[op]))
    why = f"{judge_by} judges here, and fitted it"
    return (judge_by,), dict.fromkeys(fitted[judge_by], why)
