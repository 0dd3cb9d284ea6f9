"""Scores of many texts as evidence: one line a metric, operator and method, with an interval over texts.

    value, control, best   means over texts
    skill                  mean(value - control) / mean(best - control): 0 chance, 1 the best found. A ratio
                           of means, so that a text on which all orders do alike does not blow it up
    interval               95 % of skill over texts drawn again with repetition

The spread over operators is the same line under each: how much of a number is the removal itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from heedful import registry
from heedful.evidence.verdict import Verdict, judge
from heedful.evidence.weigh import Score
from heedful.types import CONTROL, Evidence, Floats

DRAWS, CHUNK = 2000, 200  # a chunk at a time: many texts would need a lot of memory


Texts = Sequence[Sequence[Score]]  # text by text


def summarise(texts: Texts, seed: int = 0) -> list[Evidence]:
    """Evidence for every metric, operator and method, in the order of the first text."""
    keys = dict.fromkeys((s.metric, s.operator, s.method) for scores in texts for s in scores)
    table = {key: [s for scores in texts for s in scores if _key(s) == key] for key in keys}
    return [_evidence(key, found, seed) for key, found in table.items()]


def _key(score: Score) -> tuple[str, str, str]:
    return score.metric, score.operator, score.method


def _evidence(key: tuple[str, str, str], scores: Sequence[Score], seed: int) -> Evidence:
    gain = np.array([s.value - s.control for s in scores])
    room = np.array([s.best - s.control for s in scores])
    skill = _ratio(gain.mean(), room.mean())
    interval = (float("nan"), float("nan"))
    if len(scores) > 1:
        n = len(scores)
        rng, again = np.random.default_rng(seed), list[float]()
        for _ in range(0, DRAWS, CHUNK):
            times = rng.multinomial(n, np.full(n, 1 / n), CHUNK)
            again += [_ratio(a, b) for a, b in zip(times @ gain, times @ room, strict=True)]
        low, high = np.quantile(again, [0.025, 0.975])
        interval = (float(low), float(high))
    names = ("value", "control", "best", "low", "high")
    value, control, best, *band = (float(np.mean([getattr(s, name) for s in scores])) for name in names)
    chance = (band[0], band[1])
    return Evidence(*key, value, control, best, skill, interval, len(scores), chance, scores[0].circular)


def _ratio(gain: float, room: float) -> float:
    return float(gain / room) if room else 0.0


def verdicts(texts: Texts, seed: int = 0) -> list[Verdict]:
    """A verdict for every metric under every operator; circular methods do not take part."""
    pairs = dict.fromkeys((s.metric, s.operator) for scores in texts for s in scores)
    return [_verdict(metric, operator, texts, seed) for metric, operator in pairs]


def _verdict(metric: str, operator: str, texts: Texts, seed: int) -> Verdict:
    rows = [
        {s.method: s for s in scores if (s.metric, s.operator) == (metric, operator) and not s.circular}
        for scores in texts
    ]
    methods = list(dict.fromkeys(method for row in rows for method in row))
    entry = registry.get_metric(metric)
    sign = 1.0 if entry.better == "high" else -1.0
    values = np.array([[sign * v for v in _line(row, methods)] for row in rows])
    found = judge(values, [*methods, CONTROL], metric=metric, operator=operator, seed=seed)
    return replace(found, faithful=entry.asks == "rows")


def _line(row: dict[str, Score], methods: Iterable[str]) -> Floats:
    """Values of one text, the control's last; a method that did not run there is nan. A method with a control
    of its own stands as far from the common one as from its own."""
    common = float(np.mean([s.control for s in row.values()])) if row else np.nan
    apart = (row[m].value - row[m].control + common if m in row else np.nan for m in methods)
    return np.array([*apart, common])
