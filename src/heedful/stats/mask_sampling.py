"""Rows for sampled explanations: pairs of masks, stratified by size, and a fit with standard errors.

A pair is a set of removed words and its complement, in strata {s, d - s}: interactions of even order cancel.
Each stratum gets its quota, without repetition, so that asking for more rows only adds to those already run
and asking for all of them enumerates every mask (the standard errors are then 0).
With few rows a word there is little to cancel and much to learn, and a complement says half of what a set of
its own would: a pair is then two independent sets of one size, in strata {s}. On a text of 45 words and 128
rows that has a quarter of the error variance.

Weighted least squares b = (X'WX)^-1 X'Wy over pairs g, with e = y - Xb and H = the hat matrix of sqrt(W)X:

    Cov b = A (sum_g (1 - f_g) X_g' W_g^1/2 R_g W_g^1/2 X_g) A,    r_g = (I - H_gg)^-5/8 W_g^1/2 e_g

A = (X'WX)^-1, f_g the share of the stratum that was drawn. The pair is the unit of sampling. R_g is r_g r_g',
or its mean over the stratum: the first knows that some words make f erratic, the second varies less from draw
to draw, and the larger variance counts, because one that is small by chance would stop sampling too soon.
Standard errors are scaled by Student's quantile: +-1.96 of them is a 95 % interval with few pairs, too.

Bell & McCaffrey 2002 (clustered standard errors in small samples).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from math import comb

import numpy as np
from scipy import special

from heedful.core.errors import HeedfulError
from heedful.stats import interval_reliability, lime_limit
from heedful.stats.control_variates import MIN_SURROGATE_SPREAD, Controls, least_squares
from heedful.stats.intervals import NORMAL_QUANTILE
from heedful.stats.lime_limit import Floats, Indices, Masks

Ask = Callable[[Masks], Floats]

# strata up to this size are listed and shuffled; larger ones are drawn, repetitions refused
MAX_LISTED_SETS = 4096
SINGULAR_TOLERANCE = 1e-10
SPARE_ROWS = 4  # rows a fit needs beside one per word
# Leverage correction of a pair's residuals, (I - H)^POWER: -1/2 is unbiased if rows were alike, and measured
# intervals are then a little short; -1 is the jackknife, and with few rows a word they are far too long.
POWER = -0.625
PAIRED_ROWS_PER_WORD = 6  # rows a word from which a complement tells more than another set
# words up to which complements are always drawn: few rows are then many of those there are
MAX_PAIRED_WORDS = 12


class MaskPairs:
    """A reproducible sequence of pairs of masks over d >= 2 words; each pair occurs once."""

    def __init__(self, d: int, share: Floats, seed: int, complements: bool = True) -> None:
        """share[s - 1]: how large a part of the pairs should remove s (and d - s) words, s = 1 .. d // 2; or,
        without complements, s words each, s = 1 .. d - 1."""
        self.d, self.share, self.complements = d, share / share.sum(), complements
        self.rng = np.random.default_rng(seed)
        strata = range(1, len(share) + 1)
        size = stratum_size if complements else _halves
        self.sizes = np.array([float(size(d, s)) for s in strata])
        self.counts = np.zeros(len(share), dtype=np.int64)
        self._streams = [self._stratum(s) if complements else self._apart(s) for s in strata]
        self._rows: list[Masks] = []  # pairs (2, d)
        self._strata: list[int] = []

    @cached_property
    def total(self) -> int:
        """How many pairs there are."""
        if self.complements:
            return (1 << (self.d - 1)) - 1
        return sum(_halves(self.d, s) for s in range(1, self.d))

    def first(self, count: int) -> tuple[Masks, Floats]:
        """The first `count` pairs as rows (2 count, d), and the share of its stratum drawn (count,)."""
        while len(self._rows) < min(count, self.total):
            stratum = self._next_stratum()
            self.counts[stratum] += 1
            self._rows.append(next(self._streams[stratum]))
            self._strata.append(stratum)
        strata = np.array(self._strata[:count], dtype=np.int64)
        drawn = np.bincount(strata, minlength=len(self.sizes)) / self.sizes
        return np.concatenate(self._rows[:count]), drawn[strata]

    def _next_stratum(self) -> int:
        """One pair to each stratum, then to whichever lags its quota most."""
        deficit = self.share * (len(self._rows) + 1) - self.counts
        deficit[self.counts >= self.sizes] = -np.inf
        if self.complements:
            deficit[self.counts == 0] = np.inf
        return int(deficit.argmax())

    def _stratum(self, s: int) -> Iterator[Masks]:
        if self.sizes[s - 1] <= MAX_LISTED_SETS:
            removed = np.array(list(combinations(range(self.d), s)))
            if 2 * s == self.d:  # a set and its complement are one pair
                removed = removed[: len(removed) // 2]
            for gone in self.rng.permutation(removed):
                yield _pair(self.d, gone)
        results: set[bytes] = set()
        while True:
            gone = self.rng.choice(self.d, s, replace=False)
            pair = _pair(self.d, gone)
            keys = {np.packbits(row).tobytes() for row in pair}
            if not keys & results:
                results |= keys
                yield pair

    def _apart(self, s: int) -> Iterator[Masks]:
        """Two sets of s words that have nothing to do with each other; none comes twice."""
        results: set[bytes] = set()
        fresh: list[Masks] = []
        while True:
            keep = np.ones(self.d, dtype=bool)
            keep[self.rng.choice(self.d, s, replace=False)] = False
            if (key := keep.tobytes()) not in results:
                results.add(key)
                fresh.append(keep)
            if len(fresh) == 2:
                yield np.stack(fresh)
                fresh = []


def pairs_for(d: int, rows: int, nu: float, seed: int, planned: int = 0) -> MaskPairs:
    """The pairs of a run of at most `rows` rows for a limit of this bandwidth: the same for LIME and
    KernelSHAP, so that side by side they are run once. An interrupted run goes on reading what it drew."""
    rows = max(rows, planned)
    if rows >= PAIRED_ROWS_PER_WORD * d or d <= MAX_PAIRED_WORDS:
        return MaskPairs(d, lime_limit.pair_share(d, nu), seed)
    return MaskPairs(d, lime_limit.size_share(d, nu), seed, complements=False)


def _halves(d: int, s: int) -> int:
    """Pairs of sets of s words that can be drawn before one comes twice."""
    return min(comb(d, s) // 2, 10**300)


def stratum_size(d: int, s: int) -> int:
    """Pairs that remove s or d - s words; what no float can hold counts as the most it can."""
    return min(comb(d, s) // 2 if 2 * s == d else comb(d, s), 10**300)


def _pair(d: int, gone: Indices) -> Masks:
    keep = np.ones(d, dtype=bool)
    keep[gone] = False
    return np.stack([keep, ~keep])


def law_weights(keep: Masks, law: Floats) -> Floats:
    """Weights of rows (n, d) that stand for `law` (d + 1,), the mass of each number of words kept. Rows of
    the nearest number stand for one that was not drawn."""
    kept = keep.sum(1)
    counts = np.bincount(kept, minlength=len(law))
    drawn = np.flatnonzero(counts)
    nearest = drawn[np.abs(np.arange(len(law))[:, None] - drawn).argmin(1)]
    mass = np.bincount(nearest, law, minlength=len(law))
    return np.asarray((mass / np.maximum(counts, 1))[kept])


@dataclass(frozen=True)
class Fit:
    """What least squares says of the design's columns."""

    coefficients: Floats  # (k,)
    stderr: Floats  # (k,)
    left_out: Floats  # (G, 2): weighted residuals of each pair by a fit without it
    beyond_line: float = 0.0  # share of the variance of f that a line in the words leaves


def fit(
    design: Floats, values: Floats, weights: Floats, drawn: Floats, controls: Controls | None = None
) -> Fit:
    """The design's columns, beside the controls if there are any.

    The first 2 len(drawn) rows are pairs; later ones are certain. A design of lower rank gets the
    coefficients of least norm.
    """
    root, columns = np.sqrt(weights)[:, None], design.shape[1]
    both = design if controls is None else np.column_stack([design, controls.left_out])
    u, s, vt = np.linalg.svd(both * root, full_matrices=False)
    rank = int((s > SINGULAR_TOLERANCE * s[0]).sum())
    u, back = u[:, :rank], vt[:rank].T / s[:rank]  # back (k, rank)
    coefficients = back @ (u.T @ (values * root[:, 0]))
    errors = ((values - both @ coefficients) * root[:, 0])[: 2 * len(drawn)].reshape(-1, 2)
    back, result = back[:columns], coefficients[:columns]
    if controls is not None:
        moved = (controls.left_out - controls.blended) @ coefficients[columns:]
        result = result + least_squares(design * root, moved * root[:, 0], SINGULAR_TOLERANCE)
    pairs = u[: 2 * len(drawn)].reshape(len(drawn), 2, rank)
    beyond_line = 0.0 if controls is None else controls.beyond_line
    return Fit(result, _stderr(errors, pairs, back, drawn), _corrected(errors, pairs, -1.0), beyond_line)


def _corrected(errors: Floats, pairs: Floats, power: float) -> Floats:
    """(I - H_gg)^power e_g of each pair: (G, 2)."""
    shrunk, turn = np.linalg.eigh(np.eye(2) - pairs @ pairs.transpose(0, 2, 1))
    shrunk = np.maximum(shrunk, 1e-6)  # a pair that determines a coefficient alone
    return np.asarray(np.einsum("gij,gj,gkj,gk->gi", turn, shrunk**power, turn, errors))


def _stderr(errors: Floats, pairs: Floats, back: Floats, drawn: Floats) -> Floats:
    """From residuals (G, 2), the basis' rows (G, 2, rank), the way back to coefficients (k, rank): (k,)."""
    errors = _corrected(errors, pairs, POWER)
    part = (pairs @ back.T) * np.sqrt(1 - drawn)[:, None, None]  # a row's part in each coefficient (G, 2, k)
    own = np.square(np.einsum("gi,gik->gk", errors, part)).sum(0)
    _, stratum, size = np.unique(drawn, return_inverse=True, return_counts=True)  # a share tells the stratum
    products = np.zeros((len(size), 2, 2))
    np.add.at(products, stratum, errors[:, :, None] * errors[:, None, :])
    typical = (products / size[:, None, None])[stratum]  # (G, 2, 2)
    pooled = np.einsum("gik,gij,gjk->k", part, typical, part)
    return np.asarray(np.sqrt(np.maximum(own, pooled)) * _carried(np.square(part).sum(1)))


def _carried(reach: Floats) -> Floats:
    """Student's factor for as many pairs as carry a coefficient, which may be few."""
    freedom = reach.sum(0) ** 2 / np.maximum(np.square(reach).sum(0), 1e-300)
    return student(np.maximum(freedom - 1, 3))


def student(freedom: Floats | float) -> Floats:
    """Student's 97.5 % quantile in units of the normal one."""
    return np.asarray(special.stdtrit(freedom, 0.975) / NORMAL_QUANTILE)


@dataclass(frozen=True)
class Estimate:
    """Scores, standard errors, the pairs they took, and why their interval is not reliable, or ""."""

    values: Floats  # (d,)
    stderr: Floats  # (d,)
    pairs: int
    doubt: str = ""

    @property
    def precision(self) -> float:
        """Relative standard error: norm of the standard errors / norm of the scores."""
        size, error = float(np.linalg.norm(self.values)), float(np.linalg.norm(self.stderr))
        return error / size if size else np.inf if error else 0.0


def estimate_of(found: Fit, values: Floats, stderr: Floats, keep: Masks, drawn: Floats) -> Estimate:
    """Scores and errors made of a fit to pairs of rows (2 len(drawn), d), and what its residuals say of them.
    Of errors that are rounding, they say nothing."""
    plain = Estimate(values, stderr, len(drawn))
    if plain.precision <= MIN_SURROGATE_SPREAD:
        return plain
    complements = bool((keep[::2] != keep[1::2]).all())
    residuals = interval_reliability.Residuals(found.left_out[drawn < 1], complements, found.beyond_line)
    return replace(plain, doubt=interval_reliability.reason(residuals, plain.precision))


def until_precise(estimate: Callable[[int], Estimate], start: int, most: int, precision: float) -> Estimate:
    """Double the pairs until the relative standard error is at most `precision`, or there are `most`."""
    count = min(start, most)
    result = estimate(count)
    while count < most and result.precision > precision:
        count = min(2 * count, most)
        result = estimate(count)
    return result


def growing(ask: Ask) -> Ask:
    """Values of rows that only ever grow at the end: what was asked before is not asked again."""
    known = np.zeros(0)

    def values(keep: Masks) -> Floats:
        nonlocal known
        if len(keep) > len(known):
            known = np.concatenate([known, ask(keep[len(known) :])])
        return known[: len(keep)]

    return values


def least_rows(d: int) -> int:
    """Rows without which a fit makes no sense: the text, the empty text, and a few more than one per word."""
    return 2 * min(d + SPARE_ROWS, (1 << max(d - 1, 0)) - 1) + 2


def rows_allowed(left: int | None, rows: int, d: int, method: str) -> int:
    """At most `rows`, and what the budget still allows; too small a budget is for the run to tell."""
    if rows < least_rows(d):
        raise HeedfulError(
            f"{method} needs at least {least_rows(d):,} model inputs for {d} units",
            f"{rows:,} are allowed",
            "Raise samples",
        )
    return rows if left is None or left < least_rows(d) else min(rows, left)


def notes(found: Estimate, precision: float, most: int) -> tuple[str, ...]:
    """How sampling ended, and whether its interval is to be believed."""
    return (verdict(found, precision, most), *([found.doubt] if found.doubt else []))


def verdict(found: Estimate, precision: float, most: int) -> str:
    """What the reader must know of how sampling ended."""
    rows = f"{2 * found.pairs + 2:,} model inputs"
    if 2 * found.pairs + 2 >= 2 ** len(found.values):
        return f"every mask was run ({rows}): no sampling error"
    if not found.stderr.any():
        text = "a line fits all inputs" if found.values.any() else "all inputs without some words are equal"
        return f"{text}: no sampling error seen after {rows}"
    reached = f"relative standard error {found.precision:.2g} after {rows}"
    if found.precision <= precision:
        return reached
    return f"{reached}, not the {precision:g} asked for: samples= allows {2 * most + 2:,}"
