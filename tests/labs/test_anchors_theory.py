"""The lab on anchors: its classifier and rules against the models themselves, and planted bugs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

import heedful
from heedful.core.lab_report import Claim
from heedful.labs import anchors_theory as lab
from heedful.labs.base.registry import LabRun
from heedful.labs.data import anchor_cases
from heedful.labs.data.anchor_cases import AnchorCase
from heedful.labs.data.reviews import reviews
from heedful.labs.models.tfidf import TfidfModel, fit_tfidf
from heedful.stats import linear_anchors
from heedful.stats.linear_anchors import LinearRule


@pytest.fixture(scope="module")
def zoo() -> Any:
    return heedful.load("zoo:one-layer")


@pytest.fixture(scope="module")
def bag() -> TfidfModel:
    return fit_tfidf(reviews("train")[::5])


@pytest.fixture(scope="module")
def headed(zoo: Any) -> list[AnchorCase]:
    model = heedful.load(anchor_cases.one_head(zoo.module, 0), tokenizer=zoo.tokenizer)
    texts = [review.text for review in reviews("held")[300:360]]
    return anchor_cases.chosen(texts, lambda text: anchor_cases.head_case(model, text), 8)


def held(run: LabRun) -> list[bool]:
    return [part.holds for part in run.parts if isinstance(part, Claim)]


def test_the_bag_learns_and_its_rule_is_what_it_says(bag: TfidfModel) -> None:
    sentences = reviews("held")
    right = (bag.margins([s.text.lower() for s in sentences]) > 0) == np.array([s.label for s in sentences])
    assert right.mean() > 0.65
    made = anchor_cases.bag_case(bag, sentences[200].text)
    keep = np.random.default_rng(0).random((50, len(made.rule.weights))) < 0.5
    margin = replace(made.target, kind="margin")
    said = made.model.values(made.x, margin, keep, "delete", "word")
    np.testing.assert_allclose(said, made.rule(keep), atol=1e-9)


def test_one_head_is_that_head_of_the_model(zoo: Any) -> None:
    """The mean of six models of one head is the model of six heads."""
    import torch

    ids = torch.tensor([zoo.encode("a film that is not bad at all").ids])
    with torch.inference_mode():
        heads = [anchor_cases.one_head(zoo.module, head)(ids) for head in range(6)]
        torch.testing.assert_close(torch.stack(heads).mean(0), zoo.module(ids))


def test_precisions_are_both_there() -> None:
    rule = LinearRule(np.array([1.0, -0.5, 0.0, 2.0]), -0.7)
    found = lab.precision_pairs(rule)
    assert found.shape == (1 + 3 + 3, 2)
    assert found[0].tolist() == [linear_anchors.gaussian(rule, ()), linear_anchors.exact(rule, ())]


def test_normal_gap_is_kolmogorovs_distance() -> None:
    """One coin: the standardised sum is -1 or 1, and the gap is Phi(1) - 1/2."""
    gap = lab.normal_gap(np.array([3.0]), 100_000, np.random.default_rng(0))
    assert gap == pytest.approx(stats.norm.cdf(1) - 0.5, abs=0.01)


def test_jaccard() -> None:
    assert lab.jaccard([1, 2], [2, 3]) == pytest.approx(1 / 3)
    assert lab.jaccard([], []) == 1.0
    assert lab.jaccard([1], []) == 0.0


def test_a_wrong_sign_is_found_out(headed: list[AnchorCase], zoo: Any) -> None:
    for shift, holds in ((0.0, True), (1.0, False)):
        rules = [
            replace(c, rule=replace(c.rule, bias=c.rule.bias + shift * np.ptp(c.rule.weights)))
            for c in headed
        ]
        run = LabRun(fast=True)
        lab.same_sign(run, rules, zoo, np.random.default_rng(0))
        assert held(run)[0] is holds


def test_a_wrong_gaussian_is_found_out(
    bag: TfidfModel, headed: list[AnchorCase], monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [review.text for review in reviews("held")[300:500]]
    cases = {
        "linear": anchor_cases.chosen(texts, lambda text: anchor_cases.bag_case(bag, text), 20),
        "one head": headed,
    }
    run = LabRun(fast=True)
    lab.precisions(run, cases)
    assert held(run)[0]
    right = linear_anchors.gaussian
    monkeypatch.setattr(linear_anchors, "gaussian", lambda rule, anchor: right(rule, ()))
    wrong = LabRun(fast=True)
    lab.precisions(wrong, cases)
    assert held(wrong)[0] is False


def claims(run: LabRun) -> list[Claim]:
    return [part for part in run.parts if isinstance(part, Claim)]


def test_a_search_that_finds_other_words_is_found_out(
    headed: list[AnchorCase], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lab, "anchor_of", lambda case, samples, seed: [int(np.argmin(case.rule.weights))])
    run = LabRun(fast=True)
    lab.searched(run, {"one head": headed})
    assert held(run) == [False, False]


def test_a_search_that_finds_what_is_foretold_holds_and_its_controls_do_not(
    headed: list[AnchorCase], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An oracle for the search. The controls stand far below it, and are what their names say."""
    told = lambda case, *_: linear_anchors.shortest(case.rule, lab.THRESHOLD, linear_anchors.gaussian)  # noqa: E731
    monkeypatch.setattr(lab, "anchor_of", told)
    run = LabRun(fast=True)
    lab.searched(run, {"one head": headed * 4})  # as many texts, each with other controls
    overlap, same = claims(run)
    assert overlap.holds
    assert same.holds
    assert overlap.value == same.value == 1.0
    assert same.interval == pytest.approx((0.025 ** (1 / (4 * len(headed))), 1.0))
    assert overlap.against is not None
    assert same.against is not None
    assert same.against <= overlap.against < 0.6


def test_a_prediction_that_is_too_long_is_found_out(
    headed: list[AnchorCase], monkeypatch: pytest.MonkeyPatch
) -> None:
    told = lambda case, *_: linear_anchors.shortest(case.rule, lab.THRESHOLD, linear_anchors.gaussian)  # noqa: E731
    monkeypatch.setattr(lab, "anchor_of", told)
    doubtful = lambda rule, anchor: linear_anchors.gaussian(rule, ()) if len(anchor) < 6 else 1.0  # noqa: E731
    monkeypatch.setattr(lab, "LAWS", (linear_anchors.exact, doubtful))
    run = LabRun(fast=True)
    lab.searched(run, {"one head": headed})
    assert held(run) == [True, False]


def test_controls_by_hand() -> None:
    """Eight words, one that decides: the search's word is one of eight at random."""
    rule, rng = LinearRule(np.array([5.0, *[0.01] * 7]), -2.0), np.random.default_rng(0)
    met = [lab.Met.of(rule, [0], rng) for _ in range(400)]
    assert all(one.same and one.overlap == 1.0 and one.precision == 1.0 for one in met)
    assert met[0].lengths == (1, 1, 1)
    for chance in ("overlap_chance", "same_chance"):
        assert np.mean([getattr(one, chance) for one in met]) == pytest.approx(1 / 8, abs=0.05)


def test_the_best_constant_is_the_median() -> None:
    assert lab.constant_error(np.array([0.2, 0.4, 1.0])) == pytest.approx(0.8 / 3)


def test_the_control_of_six_heads_differs_from_one(headed: list[AnchorCase], zoo: Any) -> None:
    """The sum of rules is exact for a model of one head, six times; then the control is zero, and the claim
    that six heads differ fails."""
    single = heedful.load(anchor_cases.one_head(zoo.module, 0), tokenizer=zoo.tokenizer)
    for model, holds in ((zoo, True), (single, False)):
        run = LabRun(fast=True)
        lab.same_sign(run, headed, model, np.random.default_rng(0))
        assert claims(run)[1].holds is holds
        assert claims(run)[0].against == pytest.approx(claims(run)[1].value)
