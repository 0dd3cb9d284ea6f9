"""Cost to equal standard error, from runs of both over several seeds.

    V = sum over words of the variance of the score over seeds      S = seconds of a run of n rows, d words
    rows the rival needs for our error:  n' = d + 1 + (n - d - 1) V_theirs / V_ours
    ratio = S_ours / (S_theirs n' / n)

Least squares on n independent rows has an error variance proportional to 1 / (n - d - 1): that is how the
rival's error is carried to other numbers of rows, which favours the rival over the usual 1 / n. Quartiles are
of a bootstrap over the seeds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from bench.timing import Ratio, quartiles, seconds

Explain = Callable[[int], np.ndarray]  # seed -> scores (d,)
RESAMPLES = 400


@dataclass
class Runs:
    """Scores and seconds of one method over the seeds."""

    explain: Explain
    scores: list[np.ndarray] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def run(self, seed: int) -> None:
        self.seconds.append(seconds(lambda: self.scores.append(self.explain(seed))))


def equal_error(
    work: str, rivals: dict[str, tuple[Explain, Explain]], *, rows: int, seeds: int, at_most: float
) -> list[Ratio]:
    """A ratio a rival: name -> (ours at the rival's question, the rival's). Seed by seed, interleaved."""
    mine: dict[Explain, Runs] = {ours: Runs(ours) for ours, _ in rivals.values()}
    other = {name: Runs(theirs) for name, (_, theirs) in rivals.items()}
    for seed in range(seeds):
        for runs in [*mine.values(), *other.values()]:
            runs.run(seed)
    return [_ratio(work, name, mine[ours], other[name], rows, at_most) for name, (ours, _) in rivals.items()]


def _ratio(work: str, rival: str, ours: Runs, theirs: Runs, rows: int, at_most: float) -> Ratio:
    seeds, rng = len(ours.scores), np.random.default_rng(0)
    everyone = np.arange(seeds)
    draws = [rng.integers(0, seeds, seeds) for _ in range(RESAMPLES)]
    draws = [draw for draw in draws if len(set(draw)) > 2]
    low, _, high = quartiles([_cost(ours, theirs, rows, draw) for draw in draws])
    mean = [np.mean(runs.scores, 0) for runs in (ours, theirs)]
    apart = np.linalg.norm(mean[0] - mean[1]) / np.linalg.norm(mean[0])
    share = _variance(ours, everyone) / _variance(theirs, everyone)
    note = (
        f"with {rows:,} model inputs, heedful has {share:.2f} times the error variance of the rival; "
        f"relative standard errors: heedful {_relative(ours):.2f}, rival {_relative(theirs):.2f}; "
        f"distance between the mean scores over {seeds} seeds: {apart:.2f} times the norm of heedful's scores"
    )
    value = _cost(ours, theirs, rows, everyone)
    ours_seconds, theirs_seconds = float(np.median(ours.seconds)), float(np.median(theirs.seconds))
    found = Ratio(work, rival, value, low, high, at_most, seeds, ours_seconds, theirs_seconds)
    return found.told(note, (rows, rows))


def _variance(runs: Runs, seeds: np.ndarray) -> float:
    return float(np.var([runs.scores[i] for i in seeds], axis=0, ddof=1).sum())


def _relative(runs: Runs) -> float:
    size = np.linalg.norm(np.mean(runs.scores, 0))
    return float(_variance(runs, np.arange(len(runs.scores))) ** 0.5 / size)


def _cost(ours: Runs, theirs: Runs, rows: int, seeds: np.ndarray) -> float:
    d = len(ours.scores[0])
    needed = d + 1 + (rows - d - 1) * _variance(theirs, seeds) / _variance(ours, seeds)
    times = [ours.seconds[i] / theirs.seconds[i] for i in seeds]
    return float(np.median(times) * rows / needed)
