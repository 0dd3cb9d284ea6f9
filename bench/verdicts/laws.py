"""Simulated audits: values of methods and random orders whose law, and so whose truth, is known.

An order of words is one thing with several values: its values in all cells share a latent normal number
(correlation SHARED), which a law turns into a value. A method of quality q is a random order whose latent
number is shifted by q on every text; q = 0 knows nothing.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import special

from heedful.core.arrays import Floats
from heedful.metrics.random_orders import MetricCell, Pools

SHARED = 0.6
ORDERS = 20
CELLS = tuple(
    MetricCell(family, metric, operator)
    for family, metric in (("remove-top", "aopc"), ("keep-top", "insertion"))
    for operator in ("delete", "swap")
)
Law = Callable[[Floats], Floats]  # standard normal numbers -> values


def _student(latent: Floats) -> Floats:
    return special.stdtrit(1, np.clip(special.ndtr(latent), 1e-12, 1 - 1e-12))  # Cauchy


LAWS: dict[str, Law] = {
    "symmetric": lambda x: x,
    "skewed, long tail of wins": lambda x: np.exp(1.5 * x),
    "skewed, long tail of losses": lambda x: -np.exp(-1.5 * x),
    "heavy tails": _student,
    "ties": lambda x: np.round(np.clip(0.8 * x, -1, 1)),
    "rare wins": lambda x: (x > special.ndtri(0.95)).astype(float),
    "rare losses": lambda x: -(x < special.ndtri(0.05)).astype(float),
}


def pools(
    law: Law, quality: Floats, n: int, rng: np.random.Generator, cells: tuple[MetricCell, ...] = CELLS
) -> Pools:
    """One audit. quality (M,) or (n, M): how far each method's latent number is shifted."""
    shift = np.broadcast_to(quality, (n, np.shape(quality)[-1]))
    methods = shift.shape[1]
    latent = np.sqrt(SHARED) * rng.normal(size=(n, methods + ORDERS, 1))
    latent = latent + np.sqrt(1 - SHARED) * rng.normal(size=(n, methods + ORDERS, len(cells)))
    latent[:, :methods] += shift[:, :, None]
    values = law(latent) * np.exp(rng.normal(size=(n, 1, 1)))  # texts differ in how much there is to lose
    names = tuple(f"method-{place}" for place in range(methods))
    return Pools(names, cells, values[:, :methods], values[:, methods:])
