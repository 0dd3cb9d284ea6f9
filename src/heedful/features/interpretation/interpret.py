"""What a feature means, in words or rules, and how much of its behaviour that predicts.

    explain   Explainer: training examples -> Explanation
    predict   Simulator: Explanation, contexts without activations -> an activation for every token
    score     on examples of windows that the explainer never saw: firings drawn evenly from every quantile of
              the activations, and as many places where the feature is silent

    detection   balanced accuracy at the marked tokens: (share of firings predicted > 0
                + share of silent ones predicted 0) / 2; 0.5 is chance
    pearson     correlation of predicted and true activations over all tokens of these contexts
    spearman    the same of their ranks

Controls: `shuffled`, the explanation of another feature on this one's examples; `permuted`, everything again
with activations moved to other tokens (heedful.features.interpretation.permuted_control), which is what the
method finds where there is nothing to find: 0.5, 0 and 0 on average. Where marks are compared, which of them
fire is drawn at random. Each score of an explanation has a p value: how often that much or more is reached
when its predictions are moved against the activations of the examples. A prediction that never varies has
correlation 0. Intervals: 95 %, contexts drawn again with repetition (ranks stay those of all tokens).

Bills et al. 2023 (simulation); Paulo et al. 2024 (detection).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata

from heedful.core.errors import HeedfulError
from heedful.core.progress import Report, counting
from heedful.features.interpretation.permuted_control import TokenPlaces, flat, moved
from heedful.features.interpretation.results import Explanation, Interpretation, Scores
from heedful.features.interpretation.scores import Bools, detection, pearson, spearman
from heedful.features.reading.collect import cut_in
from heedful.features.reading.examples import Context, Snippet
from heedful.features.reading.results import Reading

HELD_OUT_FIRINGS = 5  # held-out firings of each quantile
MIN_EXAMPLES = 4  # examples of a kind, below which nothing is scored
Floats = npt.NDArray[np.float64]


@runtime_checkable
class Interpreter(Protocol):
    def explain(self, examples: Sequence[Snippet]) -> Explanation: ...


@runtime_checkable
class Simulator(Protocol):
    def predict(self, explanation: Explanation, contexts: Sequence[Context]) -> list[Sequence[float]]:
        """One activation a token, 0 where the feature is said to be silent."""


@dataclass(frozen=True)
class ExampleSplit:
    """Examples to explain by and examples to test on, from different windows of the model."""

    training: tuple[Snippet, ...]
    held: tuple[Snippet, ...]

    @property
    def enough(self) -> bool:
        kinds = [s.value > 0 for s in self.held]
        firing = sum(s.value > 0 for s in self.training)
        return min(sum(kinds), len(kinds) - sum(kinds), firing) >= MIN_EXAMPLES


def split(found: Reading, quantiles: int = 10, held: int = HELD_OUT_FIRINGS) -> ExampleSplit:
    """Windows of even number train, the others test; silent places as many as firings."""
    firing = [[s for s in found.sample if s.window % 2 == half] for half in (0, 1)]
    silent = [[s for s in found.silent if s.window % 2 == half] for half in (0, 1)]
    drawn = [s for part in cut_in(firing[1], quantiles, held) for s in part.examples]
    training = [*firing[0], *silent[0][: max(MIN_EXAMPLES, len(firing[0]))]]
    return ExampleSplit(tuple(training), (*drawn, *silent[1][: len(drawn)]))


def interpret(
    readings: Sequence[Reading],
    explainer: Interpreter,
    simulator: Simulator,
    *,
    controls: Sequence[str] = ("shuffled", "permuted"),
    quantiles: int = 10,
    held: int = HELD_OUT_FIRINGS,
    seed: int = 0,
    progress: Report | None = None,
) -> list[Interpretation]:
    """Explain and score every feature that fired often enough."""
    if unknown := set(controls) - {"shuffled", "permuted"}:
        raise HeedfulError(f"there is no control {unknown.pop()!r}", fix="Use shuffled and permuted")
    parts = [split(each, quantiles, held) for each in readings]
    usable = [at for at, part in enumerate(parts) if part.enough]
    explanations: dict[int, Explanation] = {}
    for count, at in enumerate(usable):
        explanations[at] = explainer.explain(parts[at].training)
        counting(progress, "describing features")(count + 1, len(usable))
    others = _others(usable, seed)
    out = []
    for at, each in enumerate(readings):
        if at not in explanations:
            often = "once" if each.fired == 1 else f"{each.fired:,} times"
            note = f"it fired {often}: too few examples to explain and to test"
            out.append(Interpretation(each.feature, Explanation("", "none"), None, notes=(note,)))
            continue
        scores = score_with_p(simulator, explanations[at], parts[at].held, seed)
        beside: dict[str, Scores] = {}
        if "shuffled" in controls and at in others:
            beside["shuffled"] = score(simulator, explanations[others[at]], parts[at].held, seed)
        if "permuted" in controls:
            beside["permuted"] = permuted(parts[at], explainer, simulator, seed + each.feature)
        sizes = (len(parts[at].training), len(parts[at].held))
        out.append(Interpretation(each.feature, explanations[at], scores, beside, sizes))
        counting(progress, "scoring descriptions")(len(out), len(readings))
    return out


def _others(usable: Sequence[int], seed: int) -> dict[int, int]:
    """To each another one: a random order, shifted by one."""
    if len(usable) < 2:
        return {}
    order = np.random.default_rng(seed).permutation(usable)
    return {int(a): int(b) for a, b in zip(order, np.roll(order, 1), strict=True)}


def score(simulator: Simulator, explanation: Explanation, held: Sequence[Snippet], seed: int) -> Scores:
    """How well an explanation predicts held-out examples."""
    return _scores(_predicted(simulator, explanation, held), held, flat(held), _fired(held), seed)


def score_with_p(
    simulator: Simulator, explanation: Explanation, held: Sequence[Snippet], seed: int
) -> Scores:
    """The same with a p value of each score."""
    predicted = _predicted(simulator, explanation, held)
    result = _scores(predicted, held, flat(held), _fired(held), seed)
    guess, true = np.concatenate(predicted), flat(held)
    p, q = TokenPlaces.of(held).p_values([(guess, true), (rankdata(guess), rankdata(true))], seed)
    return replace(result, pearson=replace(result.pearson, p=p), spearman=replace(result.spearman, p=q))


def permuted(parts: ExampleSplit, explainer: Interpreter, simulator: Simulator, seed: int) -> Scores:
    """What the method scores when activations are moved to other tokens, before and after it explains."""
    rng = np.random.default_rng(seed)
    noise = explainer.explain(moved(parts.training, rng))
    predicted = _predicted(simulator, noise, parts.held)
    true = TokenPlaces.of(parts.held).moved(flat(parts.held), rng)
    return _scores(predicted, parts.held, true, rng.permutation(_fired(parts.held)), seed)


def _predicted(simulator: Simulator, explanation: Explanation, held: Sequence[Snippet]) -> list[Floats]:
    given = simulator.predict(explanation, [s.context for s in held])
    for each, snippet in zip(given, held, strict=True):
        if len(each) != len(snippet.context):
            raise HeedfulError(
                f"a simulator gave {len(each)} activations for {len(snippet.context)} tokens",
                fix="Let its predict return one list per snippet, with one number per token of it",
            )
    return [np.asarray(each, dtype=np.float64) for each in given]


def _fired(held: Sequence[Snippet]) -> Bools:
    return np.array([s.value > 0 for s in held])


def _scores(
    predicted: Sequence[Floats], held: Sequence[Snippet], true: Floats, fired: Bools, seed: int
) -> Scores:
    """`true` (N,) of all tokens, `fired` of the marks."""
    marked = np.array([result[s.at] > 0 for result, s in zip(predicted, held, strict=True)])
    parts = np.split(true, np.cumsum([len(s.context) for s in held])[:-1])
    return Scores(
        detection(marked, fired, seed), pearson(predicted, parts, seed), spearman(predicted, parts, seed)
    )
