"""Scores of explanations: planted features, their controls, and agreement with textbook formulas."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats
from tests.features.planted import TEXTS, on_tokens

from heedful.core.errors import HeedfulError
from heedful.features.interpretation.interpret import interpret, score, split
from heedful.features.interpretation.results import Explanation, together
from heedful.features.interpretation.rules import Rules
from heedful.features.interpretation.scores import AgreementScore, detection, pearson, spearman
from heedful.features.reading.examples import Context, Snippet
from heedful.features.reading.read_features import read_features
from heedful.features.reading.results import Quantile, Reading

TOKENS = ["cat", "▁the▁", "mat", "lo"]


@pytest.fixture(scope="module")
def readings(shared: Callable[[str], Any]) -> list[Reading]:
    llama = shared("llama").model
    return list(read_features(llama, on_tokens(llama, TOKENS), TEXTS, range(4), context=24))


@pytest.fixture(scope="module")
def found(readings: list[Reading]) -> Any:
    rules = Rules()
    return interpret(readings, rules, rules)


def test_planted_tokens_are_found_and_predicted(found: Any):
    for one, token in zip(found, TOKENS, strict=True):
        assert token.replace("▁", "␣").strip("␣") in one.explanation.text
        assert one.scores.detection.value == pytest.approx(1.0, abs=0.02)
        assert one.scores.pearson.value > 0.99
        assert one.scores.spearman.value > 0.99


def test_controls_are_at_chance(found: Any):
    """Four features cannot tell a correlation of 0.15 from none: test_chance.py asks that, of many."""
    means = together(found)
    assert means[""]["detection"].value > 0.98
    # with four features another's token is never the marked one: nothing fires, so exactly a half
    assert means["shuffled"]["detection"].value == pytest.approx(0.5, abs=0.08)
    assert abs(means["shuffled"]["pearson"].value) < 0.2
    assert means["permuted"]["detection"].value == pytest.approx(0.5, abs=0.15)
    assert means["permuted"]["detection"].high < means[""]["detection"].low


def test_held_out_examples_are_of_other_windows_and_every_quantile(readings: list[Reading]):
    for r in readings:
        parts = split(r, quantiles=3, held=2)
        assert not {s.window for s in parts.training} & {s.window for s in parts.held}
        firing = [s for s in parts.held if s.value > 0]
        assert 0 < len(firing) <= 6
        assert len(parts.held) - len(firing) <= len(firing)


def _reading(values: Sequence[float], silent: int = 200) -> Reading:
    def one(value: float, window: int) -> Snippet:
        return Snippet(Context((1, 2), ("a", "b")), (0.0, value), 1, window)

    sample = tuple(one(v, n) for n, v in enumerate(values))
    zeros = tuple(one(0.0, n) for n in range(silent))
    return Reading(
        0, len(values), 1000, sample[:3], (Quantile(0.0, 1.0, ()),), sample, zeros, (1,), (0.0, 1.0)
    )


def test_weak_firings_are_tested_too():
    """Half of the firings are weak: half of the held-out ones must be."""
    rng = np.random.default_rng(0)
    values = rng.permutation(np.concatenate([np.full(100, 0.1), np.full(100, 9.0)])).tolist()
    held = [s.value for s in split(_reading(values)).held if s.value > 0]
    assert len(held) == 50
    assert 20 <= sum(v < 1 for v in held) <= 30


def test_rare_features_are_not_scored():
    rules = Rules()
    (one,) = interpret([replace(_reading([1.0, 2.0, 1.0]), fired=3)], rules, rules)
    assert one.scores is None
    assert "3 times" in one.notes[0]
    with pytest.raises(HeedfulError, match="no control"):
        interpret([], rules, rules, controls=("nothing",))


class Oracle:
    """Predicts what it was told."""

    def __init__(self, held: Sequence[Snippet], change: Callable[[float], float]) -> None:
        self.known = {id(s.context): s.values for s in held}
        self.change = change

    def predict(self, explanation: Explanation, contexts: Sequence[Context]) -> list[Sequence[float]]:
        return [[self.change(v) for v in self.known[id(c)]] for c in contexts]


def test_scores_of_perfect_blind_and_opposite_simulators(readings: list[Reading]):
    held = split(readings[1]).held
    nothing = Explanation("", "")
    right = score(Oracle(held, lambda v: 3 * v), nothing, held, 0)
    assert (right.detection.value, right.pearson.value) == (1.0, pytest.approx(1.0))
    blind = score(Oracle(held, lambda _: 1.0), nothing, held, 0)
    assert (blind.detection.value, blind.pearson.value, blind.spearman.value) == (0.5, 0.0, 0.0)
    wrong = score(Oracle(held, lambda v: float(v == 0)), nothing, held, 0)
    assert wrong.detection.value == 0.0
    assert wrong.pearson.value < -0.9


def test_means_stay_where_scores_can_be():
    """Three features: Student's interval of the mean would reach past 1."""
    values = [0.1, 0.5, 0.99]
    spread = stats.t.ppf(0.975, 2) * np.std(values, ddof=1) / 3**0.5
    found = AgreementScore.mean(values)
    assert found.value == pytest.approx(0.53)
    assert found.low == pytest.approx(0.53 - spread)
    assert found.high == 1.0
    assert AgreementScore.mean(values, 0.0).low == 0.0
    assert AgreementScore.mean([0.5]).to_dict()["interval"] is None


def test_a_simulator_of_another_length_is_refused(readings: list[Reading]):
    class Short:
        def predict(self, explanation: Explanation, contexts: Sequence[Context]) -> list[Sequence[float]]:
            return [[0.0] for _ in contexts]

    with pytest.raises(HeedfulError, match=r"activations for .* one number per token"):
        score(Short(), Explanation("", ""), split(readings[0]).held, 0)


def test_formulas_are_those_of_scipy():
    rng = np.random.default_rng(1)
    true = [rng.random(n) * (rng.random(n) < 0.4) for n in rng.integers(3, 20, 40)]
    guess = [t + rng.random(len(t)) for t in true]
    flat = [np.concatenate(side) for side in (guess, true)]
    assert pearson(guess, true, 0).value == pytest.approx(stats.pearsonr(*flat)[0])
    assert spearman(guess, true, 0).value == pytest.approx(stats.spearmanr(*flat)[0])
    predicted, fired = rng.random(60) < 0.5, np.arange(60) < 20
    expected = (predicted[:20].mean() + (~predicted[20:]).mean()) / 2
    assert detection(predicted, fired, 0).value == pytest.approx(expected)


def test_intervals_hold_the_truth_about_as_often_as_they_say():
    """Contexts of a known correlation, 200 times: 95 % intervals hold it in 88 % or more."""
    rng, hits, right = np.random.default_rng(0), 0, 0
    for seed in range(200):
        x = [rng.standard_normal(8) for _ in range(40)]
        y = [0.6 * a + 0.8 * rng.standard_normal(8) for a in x]
        got = pearson(x, y, seed)
        hits += got.low <= 0.6 <= got.high
        found = detection(rng.random(80) < np.where(np.arange(80) < 40, 0.8, 0.3), np.arange(80) < 40, seed)
        right += found.low <= 0.75 <= found.high
    assert hits >= 176
    assert right >= 176
