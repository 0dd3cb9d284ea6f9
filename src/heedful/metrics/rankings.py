"""Do two measures rank the methods alike? Kendall's tau-b: 1 the same ranking, -1 the reverse.

ROAD removes in two orders: the highest scores first (MoRF) and the lowest first (LeRF). The paper claims that
both rank the methods alike. Rong et al. 2022.
"""

from __future__ import annotations

from collections.abc import Sequence

from scipy import stats

from heedful.core.evidence import Evidence


def ranking_tau(first: Sequence[float], second: Sequence[float]) -> float:
    """Of two rankings of the same methods; nan with fewer than two."""
    if len(first) < 2:
        return float("nan")
    return float(stats.kendalltau(first, second).statistic)


def order_agreement(evidence: Sequence[Evidence]) -> float:
    """Between the rankings of methods by `road-morf` and by `road-lerf`, in the table of an audit."""
    morf, lerf = ({e.method: e.value for e in evidence if e.metric == f"road-{o}"} for o in ("morf", "lerf"))
    both = [method for method in morf if method in lerf]
    return ranking_tau([morf[m] for m in both], [-lerf[m] for m in both])
