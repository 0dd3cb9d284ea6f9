"""What an order of words is worth beside random orders of the same text, as shares and as standard scores.

    pool      on each text, one method and B random orders; the same orders in every cell (metric × operator)
    u[k,c]    share of the other B orders of the pool that order k beats in cell c, ties count one half
    w[k]      mean over families of the mean over their cells of u[k,c]
    z         (v - mean of the random values) / their standard deviation, averaged in the same way

Values that differ by rounding alone are made equal first: ranks would turn one rounding step into a win.

Cost: B^2 comparisons per text and cell. Nothing is run.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata

from heedful.core.arrays import Floats
from heedful.stats.rounding import merged

SCORE_STEP = 1e-6  # of the largest score: smaller differences are none


CONTROLS = 1  # a stream of random numbers of its own, apart from the metrics' own draws


@dataclass(frozen=True)
class MetricCell:
    """One measurement: a metric under the operator that judges, of methods that were fitted by `fit`."""

    family: str
    metric: str
    operator: str
    fit: str = ""


@dataclass(frozen=True)
class Pools:
    """Values of all methods and random orders in all cells; higher is better. NaN: no value."""

    methods: tuple[str, ...]
    cells: tuple[MetricCell, ...]
    values: Floats  # (n, M, C)
    orders: Floats  # (n, B, C)

    def __len__(self) -> int:
        return len(self.values)

    def only(self, methods: Sequence[str], operators: Collection[str]) -> Pools:
        """Some methods, in the cells of some operators."""
        rows = [self.methods.index(name) for name in methods]
        columns = [place for place, cell in enumerate(self.cells) if cell.operator in operators]
        cells = tuple(self.cells[place] for place in columns)
        return Pools(tuple(methods), cells, self.values[:, rows][:, :, columns], self.orders[:, :, columns])


def joined(parts: Sequence[Pools], methods: Sequence[str]) -> Pools:
    """Texts of several pools of the same methods, one after the other; a cell that a part lacks is NaN."""
    cells = tuple(dict.fromkeys(cell for part in parts for cell in part.cells))
    draws = max((part.orders.shape[1] for part in parts), default=0)
    n, at = sum(map(len, parts)), {cell: place for place, cell in enumerate(cells)}
    values = np.full((n, len(methods), len(cells)), np.nan)
    orders = np.full((n, draws, len(cells)), np.nan)
    first = 0
    for part in parts:
        columns, here = [at[cell] for cell in part.cells], slice(first, first + len(part))
        values[here, :, columns] = part.values
        orders[here, : part.orders.shape[1], columns] = part.orders
        first += len(part)
    return Pools(tuple(methods), cells, values, orders)


def merged_scores(scores: Floats) -> Floats:
    """Scores (d,) whose order is no rounding: differences below a millionth of the largest score are none."""
    return merged(scores, SCORE_STEP * float(np.abs(scores).max(initial=0.0)))


def by_family(per_cell: Floats, cells: tuple[MetricCell, ...]) -> Floats:
    """(..., C) -> (...): the mean over families of the mean over their cells, so that twins count once."""
    families = dict.fromkeys(cell.family for cell in cells)
    parts = [per_cell[..., [cell.family == name for cell in cells]].mean(-1) for name in families]
    values: Floats = np.mean(parts, axis=0)
    return values


def beaten(values: Floats, orders: Floats) -> Floats:
    """(n, M, C), (n, B, C) -> (n, M, C): share of the random orders beaten, ties one half."""
    above = values[:, :, None] - orders[:, None]  # (n, M, B, C)
    result: Floats = ((above > 0) + 0.5 * (above == 0)).mean(2)
    whole = np.all(np.isfinite(orders), axis=1, keepdims=True)  # (n, 1, C)
    return np.where(np.isfinite(values) & whole, result, np.nan)


def standard(values: Floats, orders: Floats) -> Floats:
    """(n, M, C), (n, B, C) -> (n, M, C): distance from the mean random order in standard deviations.

    At most 2 sqrt(B): with few orders and long tails the deviation may be far too small on a text. Where all
    random orders are alike, a value that differs is as far out as one of B + 1 can be: sqrt(B).
    """
    count = orders.shape[1]
    away = values - orders.mean(1, keepdims=True)
    spread = orders.std(1, ddof=1, keepdims=True) if count > 1 else np.zeros_like(orders[:, :1])
    flat = spread <= 1e-12 * np.abs(orders).max(1, keepdims=True, initial=0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        text = np.where(flat, np.sign(_round_off(away, orders)) * np.sqrt(count), away / spread)
    limit = float(2 * np.sqrt(count))
    clipped: Floats = np.clip(text, -limit, limit)
    return clipped


def _round_off(away: Floats, orders: Floats) -> Floats:
    """The mean of equal numbers may differ from them by rounding."""
    scale = np.abs(orders).max(1, keepdims=True, initial=0.0)
    return np.where(np.abs(away) <= 1e-12 * scale, 0.0, away)


def exchanged(values: Floats, orders: Floats, cells: tuple[MetricCell, ...]) -> Floats:
    """w of every member of the pool of one method: (n, C), (n, B, C) -> (n, 1 + B), the method first."""
    pool = np.concatenate([values[:, None], orders], axis=1)  # (n, 1 + B, C)
    wins = rankdata(pool, axis=1) - 1  # ties share a rank: one half each
    return by_family(wins / (pool.shape[1] - 1), cells)


def control_rng(seed: int) -> np.random.Generator:
    return np.random.default_rng([seed, CONTROLS])


def random_scores(rng: np.random.Generator, d: int, draws: int) -> list[Floats]:
    """The control of metrics that remove: scores that know nothing."""
    return [rng.normal(size=d) for _ in range(draws)]
