"""What smoothing alone does to a metric: each method with its own scores smoothed over neighbours, and random
scores with the same, text by text.

    gain      mean over texts of (smoothed - own), with the sign that a gain is good
    interval  95 % of the gain, over texts drawn again with repetition

Smoothing adds no information about the model. Where it improves the number, differences of that size are no
evidence for a method. Song et al. 2023 found this for ROAR and for ROAD.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from heedful.core import registry
from heedful.core.arrays import Floats
from heedful.core.defaults import CONTROL
from heedful.core.phrases import listed
from heedful.core.result import NotebookRepr
from heedful.metrics.score import Score
from heedful.modalities.neighbours import SMOOTHED
from heedful.stats.intervals import UNKNOWN, Interval, bootstrap, percentile_interval


@dataclass(frozen=True)
class SmoothedControl(NotebookRepr):
    """One metric of one method (or of random scores), and of the same scores smoothed."""

    metric: str
    method: str
    value: float  # means over texts: of the scores as they are,
    smoothed: float  # and smoothed
    gain: float  # more than 0: smoothing improves it
    interval: Interval  # 95 %, of the gain; (nan, nan) for a single text
    n: int

    @property
    def name(self) -> str:
        """What a sentence calls it."""
        return "random scores" if self.method == CONTROL else self.method

    @property
    def improved(self) -> bool:
        return bool(self.interval[0] > 0)


def without_smoothed(scores: Sequence[Score]) -> list[Score]:
    """Scores of one text that are those of methods as they are."""
    return [score for score in scores if not _is_smoothed(score)]


def smoothed_controls(texts: Sequence[Sequence[Score]], seed: int = 0) -> list[SmoothedControl]:
    """By metric and method, random scores last; [] where nothing was smoothed."""
    pairs: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for scores in texts:
        own = {(s.metric, s.method): s.value for s in scores if not _is_smoothed(s)}
        for s in filter(_is_smoothed, scores):
            key = (s.metric, s.method.removesuffix(SMOOTHED))
            before = s.control if key[1] == CONTROL else own.get(key)
            if before is not None:
                pairs.setdefault(key, []).append((before, s.value))
    controls = [_control(*key, np.array(values), seed) for key, values in pairs.items()]
    return sorted(controls, key=lambda one: (one.metric, one.method == CONTROL))


def _is_smoothed(score: Score) -> bool:
    return score.method.endswith(SMOOTHED) and registry.is_smoothed(score.metric)


def _control(metric: str, method: str, values: Floats, seed: int) -> SmoothedControl:
    """values (n, 2): as they are, smoothed."""
    sign = 1.0 if registry.better_and_family(metric)[0] == "high" else -1.0
    gains, interval = sign * (values[:, 1] - values[:, 0]), UNKNOWN
    if len(gains) > 1:
        interval = percentile_interval(
            bootstrap(lambda counts: counts @ gains / counts.sum(-1), len(gains), seed)
        )
    own, smooth = (float(each) for each in values.mean(0))
    return SmoothedControl(metric, method, own, smooth, float(gains.mean()), interval, len(gains))


def smoothing_sentences(controls: Sequence[SmoothedControl]) -> list[str]:
    """One per metric."""
    sentences = []
    for metric in dict.fromkeys(one.metric for one in controls):
        here = [one for one in controls if one.metric == metric]
        if names := [one.name for one in here if one.improved]:
            sentences.append(
                f"Smoothing alone improves {metric} of {listed(names)}, although it adds no information. "
                "Differences of that size are no evidence for a method."
            )
        else:
            said = f"Smoothing alone is not shown to improve {metric} of a method or of random scores."
            sentences.append(said)
    return sentences
