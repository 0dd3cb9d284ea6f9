"""Weighing on models whose truth is known, and evidence over texts by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import heedful
from heedful import checks
from heedful.checks.known_models import WEIGHTS
from heedful.core.attribution import Attribution
from heedful.core.errors import HeedfulError
from heedful.engine.session import Session
from heedful.metrics.score import Score, ScoreInputs, default_metrics, score_explanations
from heedful.metrics.summary import pools_of, summarise
from heedful.metrics.verdict import judge

TEXT = "the cat sat on the mat the sat on mat"


@pytest.fixture(scope="module")
def bag() -> Any:
    return checks.linear_model()


def attributions(model: Any, seed: int = 0) -> list[Attribution]:
    """The truth of the linear model, its negative, and noise."""
    x = model.encode(TEXT)
    target = model.target(x)
    true = np.array([WEIGHTS[token] for token in x.tokens])
    noise = np.random.default_rng(seed).normal(size=len(x))
    named = {"true": true, "false": -true, "noise": noise}
    return [replace(Attribution(x, target, scores), method=name) for name, scores in named.items()]


def scored(found: list[Score], metric: str, operator: str = "delete") -> dict[str, Score]:
    return {s.method: s for s in found if (s.metric, s.operator) == (metric, operator)}


def beat(score: Score) -> int:
    """Random orders that it beat, or equalled where nothing can be better."""
    up = score.best >= score.control
    return sum(score.value >= order if up else score.value <= order for order in score.orders)


@pytest.mark.parametrize("metric", [name for name in default_metrics() if name != "non-sensitivity"])
def test_the_truth_has_skill_one(metric: str, bag: Any) -> None:
    """On a sum of word weights the weights are the best explanation, by every metric that looks at signs."""
    found = scored(score_explanations(bag, attributions(bag), [metric], ["delete"], draws=50), metric)
    assert found["true"].skill == pytest.approx(1.0)
    assert beat(found["true"]) >= 48
    assert found["noise"].skill < 0.9
    if metric not in ("monotonicity", "effective-complexity"):  # these two look at sizes only
        assert found["false"].skill <= 0
        if metric != "infidelity":  # scores of one sign foretell as well in any order
            assert beat(found["false"]) <= 2


def test_each_row_is_run_once(bag: Any) -> None:
    run = Session(bag)
    before = run.spent
    score_explanations(run, attributions(bag), operators=["delete"])
    once = run.spent - before
    assert once.unique < once.forwards
    score_explanations(run, attributions(bag), operators=["delete"])
    assert (run.spent - before).unique == once.unique, "asked again, nothing is run"


def test_the_same_seed_gives_the_same_scores(bag: Any) -> None:
    first, again = (
        score_explanations(bag, attributions(bag), operators=["delete"], seed=3) for _ in range(2)
    )
    assert first == again


def test_every_operator_is_asked(bag: Any) -> None:
    found = score_explanations(bag, attributions(bag), ["aopc"])
    assert {s.operator for s in found} == set(bag.operators)


def test_circular_methods_are_flagged(bag: Any) -> None:
    """By what the method asked for, whatever its name."""
    by = {"mine": ("delete", "mask"), "other": ("swap",), "grad-l2": (), "unknown": None}
    items = [replace(attributions(bag)[0], method=name, fitted_by=given) for name, given in by.items()]
    flags = {s.method: s.circular for s in score_explanations(bag, items, ["aopc"], ["delete"])}
    assert flags == {"mine": True, "other": False, "grad-l2": False, "unknown": False}


def test_different_texts_are_refused(bag: Any) -> None:
    other = bag.encode("cat mat")
    item = Attribution(other, bag.target(other), np.ones(len(other)))
    with pytest.raises(heedful.HeedfulError, match="different texts"):
        score_explanations(bag, [attributions(bag)[0], item])


def test_an_unknown_metric_is_told(bag: Any) -> None:
    with pytest.raises(heedful.HeedfulError, match="unknown metric 'luck'"):
        score_explanations(bag, attributions(bag), ["luck"])


def score(value: float, control: float, best: float, method: str = "m", metric: str = "aopc") -> Score:
    orders = tuple(control + np.linspace(-1, 1, 20))
    return Score(metric, "mask", method, value, control, control - 1, control + 1, best, orders=orders)


def test_evidence_by_hand() -> None:
    (found,) = summarise([[score(3.0, 1.0, 5.0)], [score(2.0, 1.0, 1.0)]])
    assert (found.value, found.control, found.best, found.n) == (2.5, 1.0, 3.0, 2)
    assert found.skill == pytest.approx((2 + 1) / (4 + 0))
    low, high = found.interval
    assert low <= found.skill <= high
    (single,) = summarise([[score(3.0, 1.0, 5.0)]])
    assert single.skill == 0.5
    assert np.isnan(single.interval).all()


def test_an_interval_covers_the_truth() -> None:
    """95 % intervals of skill over texts: gain and room are normal about 1 and 2, the truth is 1/2."""
    hits = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        texts = [
            [score(g, 0.0, r)] for g, r in zip(rng.normal(1, 1, 60), rng.normal(2, 0.5, 60), strict=True)
        ]
        low, high = summarise(texts, seed)[0].interval
        hits += low <= 0.5 <= high
    assert 180 <= hits <= 199  # 95 % of 200, four standard deviations below


@pytest.mark.parametrize(("metric", "sign"), [("aopc", 1.0), ("sufficiency", -1.0)])
def test_a_verdict_reads_each_metric_the_right_way_up(metric: str, sign: float) -> None:
    rng = np.random.default_rng(0)
    texts = [
        [
            score(sign * (3 + rng.normal()), 0.0, 5.0 * sign, "good", metric),
            score(sign * rng.normal(), 0.0, 5.0 * sign, "poor", metric),
        ]
        for _ in range(40)
    ]
    found = judge(pools_of(texts, ["good", "poor"], ["mask"]))
    assert found.better == ["good"]
    assert found.not_proven == ["poor"]
    assert found.n == 40


def test_metrics_without_a_family_take_no_part() -> None:
    """However well a method does by them."""
    texts = [[score(9.0, 0.0, 9.0, metric="monotonicity"), score(0.0, 0.0, 9.0, metric="aopc")]] * 20
    found = pools_of(texts, ["m"], ["mask"])
    assert [cell.metric for cell in found.cells] == ["aopc"]
    only = judge(pools_of([scores[:1] for scores in texts], ["m"], ["mask"]))
    assert "was not measured" in only.headline
    assert not only.better


def test_scores_from_elsewhere_are_not_asked_again(bag: Any) -> None:
    """What needs their numbers alone is measured, what would explain again is not."""
    items = [replace(item, method="lime") for item in attributions(bag)[:1]] + attributions(bag)[1:]
    asked = {
        fixed: score_explanations(
            bag,
            items[:1],
            ["compactness", "max-sensitivity"],
            ["delete"],
            known=ScoreInputs(given={"lime"} if fixed else ()),
        )
        for fixed in (True, False)
    }
    assert {s.metric for s in asked[True]} == {"compactness"}
    assert {s.metric for s in asked[False]} == {"compactness", "max-sensitivity"}


def test_a_model_without_numbers_is_refused(bag: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    values = type(bag).values

    def nowhere(*given: Any, **more: Any) -> Any:
        return values(bag, *given, **more) + np.nan

    made = attributions(bag)
    monkeypatch.setattr(bag, "values", nowhere)
    with pytest.raises(HeedfulError, match=r"infinite or no numbers.*another way than delete"):
        score_explanations(bag, made, ["aopc"], ["delete"], draws=3)
