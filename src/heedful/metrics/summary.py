"""Scores of many texts as evidence: one line per metric, operator and method, with an interval over texts.

    value, control, best   means over texts
    skill                  mean(value - control) / mean(best - control): 0 chance, 1 the best found. A ratio
                           of means, so that a text on which all orders do alike does not blow it up
    interval               95 % of skill over texts drawn again with repetition

The spread over operators is the same line under each: how much of a number is the removal itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from heedful.core import registry
from heedful.core.arrays import Floats
from heedful.core.evidence import Evidence
from heedful.metrics.random_orders import MetricCell, Pools
from heedful.metrics.score import Score
from heedful.stats.intervals import UNKNOWN, bootstrap, percentile_interval

Texts = Sequence[Sequence[Score]]  # text by text


def summarise(texts: Texts, seed: int = 0) -> list[Evidence]:
    """Evidence for every metric, operator and method, in the order of the first text."""
    keys = dict.fromkeys((s.metric, s.operator, s.method) for scores in texts for s in scores)
    table: dict[tuple[str, str, str], list[Score]] = {key: [] for key in keys}
    for scores in texts:
        here: dict[tuple[str, str, str], list[Score]] = {}
        for score in scores:
            here.setdefault(_key(score), []).append(score)
        for key, each in here.items():
            table[key].append(_mean(each))
    return [_evidence(key, result, seed) for key, result in table.items()]


def _mean(scores: Sequence[Score]) -> Score:
    """Of a method that was fitted by several operators in turn: one score per text."""
    if len(scores) == 1:
        return scores[0]

    def mean(name: str) -> float:
        return float(np.mean([getattr(score, name) for score in scores]))

    return replace(
        scores[0],
        value=mean("value"),
        control=mean("control"),
        low=mean("low"),
        high=mean("high"),
        best=mean("best"),
    )


def _key(score: Score) -> tuple[str, str, str]:
    return score.metric, score.operator, score.method


def _evidence(key: tuple[str, str, str], scores: Sequence[Score], seed: int) -> Evidence:
    gain = np.array([s.value - s.control for s in scores])
    room = np.array([s.best - s.control for s in scores])
    skill = float(_ratio(gain.mean(), room.mean()))
    interval = UNKNOWN
    if len(scores) > 1:
        skills = bootstrap(lambda counts: _ratio(counts @ gain, counts @ room), len(scores), seed)
        interval = percentile_interval(skills)
    names = ("value", "control", "best", "low", "high")
    value, control, best, *band = (float(np.mean([getattr(s, name) for s in scores])) for name in names)
    metric, operator, method = key
    return Evidence(
        metric=metric,
        operator=operator,
        method=method,
        value=value,
        control=control,
        best=best,
        skill=skill,
        interval=interval,
        n=len(scores),
        chance=(band[0], band[1]),
        circular=scores[0].circular,
        orders=scores[0].orders if len(scores) == 1 else (),
        better=registry.better_and_family(metric)[0],
        family=_family(metric),
    )


def _ratio(gain: npt.ArrayLike, room: npt.ArrayLike) -> Floats:
    """0 where there is no room."""
    gain, room = np.asarray(gain, dtype=np.float64), np.asarray(room, dtype=np.float64)
    ratio: Floats = np.divide(gain, room, out=np.zeros_like(gain), where=room != 0)
    return ratio


def pools_of(texts: Texts, methods: Sequence[str], operators: Sequence[str]) -> Pools:
    """What the verdict is made of: metrics that have a family, under the operators that may judge.

    A method or a random order without a value in a cell has NaN there; a cell that no text has is left out.
    """
    scored = [[s for s in scores if s.operator in operators and _family(s.metric)] for scores in texts]
    cells = tuple(dict.fromkeys(_cell(s) for scores in scored for s in scores))
    draws = max((len(s.orders) for scores in scored for s in scores), default=0)
    values = np.full((len(texts), len(methods), len(cells)), np.nan)
    orders = np.full((len(texts), draws, len(cells)), np.nan)
    places, at = {name: i for i, name in enumerate(methods)}, {cell: i for i, cell in enumerate(cells)}
    for row, scores in enumerate(scored):
        for s in scores:
            cell, sign = at[_cell(s)], 1.0 if registry.better_and_family(s.metric)[0] == "high" else -1.0
            orders[row, : len(s.orders), cell] = sign * np.array(s.orders)
            if s.method in places:
                values[row, places[s.method], cell] = sign * s.value
    return Pools(tuple(methods), cells, values, orders)


def _family(metric: str) -> str:
    return registry.better_and_family(metric)[1]


def _cell(score: Score) -> MetricCell:
    return MetricCell(_family(score.metric), score.metric, score.operator, score.fit)
