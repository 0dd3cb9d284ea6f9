"""Does one rule explain a neuron? Tested on windows that the rule was not taken from.

    firing      the activation is at least half of the neuron's greatest
    rule        one condition (a token, the end of a word, what stands before, ...) from half of the windows
    explained   in the other half it holds at 80 % of the firings or more, at 10 % of other places or fewer

The published criterion is 80 % of the strongest firings, by human judgement (Elhage et al. 2022). Cost: some
ten milliseconds a neuron.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from heedful.features.interpretation.interpret import ExampleSplit
from heedful.features.interpretation.permuted_control import moved
from heedful.features.interpretation.rules import Rules
from heedful.features.reading.examples import Context, Snippet
from heedful.models.spell_tokens import pieces_of

STRONG_SHARE, MIN_FIRINGS = 0.5, 4  # of the greatest activation; firings below which nothing can be said
RIGHT, WRONG = 0.8, 0.1  # shares of firings, and of other places, at which the rule holds
SHOWN_TOKENS = 4  # tokens the rule is shown: the one in question and those before it
Values = npt.NDArray[np.float32]


class RuleWindows:
    """Windows (n, T) of a text; windows of even number train a rule, the others test it."""

    def __init__(self, rows: Tensor, reader: Any, firings: int) -> None:
        known: dict[int, str] = {}
        self.ids = rows.tolist()
        self.pieces = [pieces_of(reader, row, known) for row in self.ids]
        self.firings = firings

    def split(self, values: Values, rng: np.random.Generator) -> ExampleSplit:
        """Strong firings of a neuron (n, T), and three times as many other places, in both halves."""
        clear = values[0::2, 1:].reshape(-1)  # the first token of a window has nothing before it
        bar = STRONG_SHARE * np.partition(clear, -3)[-3:].mean()  # of three: one outlier shall not set it
        strong = np.where(values >= bar, values, 0.0) if bar > 0 else np.zeros_like(values)
        halves = []
        for half in (0, 1):
            part = strong[half::2, 1:]
            drawn = rng.integers(part.size, size=12 * self.firings)
            silent = drawn[part.reshape(-1)[drawn] <= 0][: 3 * self.firings]
            firing = rng.permutation(np.flatnonzero(part > 0))[: self.firings]
            rows, places = np.divmod(np.concatenate([firing, silent]), part.shape[1])
            spots = zip((2 * rows + half).tolist(), (places + 1).tolist(), strict=True)
            halves.append(tuple(self._cut(row, at, strong) for row, at in spots))
        return ExampleSplit(halves[0], halves[1])

    def _cut(self, row: int, at: int, values: Values) -> Snippet:
        first = max(0, at - SHOWN_TOKENS + 1)
        context = Context(tuple(self.ids[row][first : at + 1]), self.pieces[row][first : at + 1], first)
        return Snippet(context, tuple(values[row, first : at + 1].tolist()), at - first, row)


def explained(places: RuleWindows, neurons: Values, seed: int, mixed: bool = False) -> list[float]:
    """For each of (neurons, windows, T) 1 or 0; `mixed` moves activations to other tokens first."""
    rng, result = np.random.default_rng(seed), []
    for number, values in enumerate(neurons):
        parts = places.split(values, rng)
        result.append(float(one_rule(parts, np.random.default_rng(seed + number) if mixed else None)))
    return result


def one_rule(parts: ExampleSplit, mix: np.random.Generator | None = None) -> bool:
    """Whether one condition, found in the first part, tells the firings of the second. With `mix` there is
    nothing to find: activations are moved, and which places of the second part fire is drawn at random."""
    if min(sum(s.value > 0 for s in part) for part in (parts.training, parts.held)) < MIN_FIRINGS:
        return False
    training = parts.training if mix is None else moved(parts.training, mix)
    rule = Rules(most=1).explain(training).rule
    says = np.array([rule.at(s.context, s.at) > 0 for s in parts.held])
    fires = np.array([s.value > 0 for s in parts.held])
    fires = fires if mix is None else mix.permutation(fires)
    return bool(says[fires].mean() >= RIGHT and says[~fires].mean() <= WRONG)
