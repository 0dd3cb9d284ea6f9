"""Correlation against scipy and closed forms, and a planted swap."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import kendalltau

from heedful.core.errors import HeedfulError
from heedful.trials.attention_scores import shown
from heedful.trials.examples import prepare
from heedful.trials.tests.correlation import _correlated, correlation, gradients, kendall, leave_one_out

WORDS = {"cat": (2.0, 1.5), "dog": (0.5, -1.0), "sat": (-1.0, 0.4), "ran": (0.0, 0.1)}
TEXT = "cat dog sat ran"


def test_gradients_hold_the_weights_fixed(by_hand: Any) -> None:
    """p = s(2 sum_t a_t v_t). At fixed a, d p / d one-hot_t = 2 p (1 - p) a_t v_t; the norm, 2 p (1 - p) a_t.
    Were the weights not fixed, the score of a word would count, too."""
    toy = by_hand(WORDS, TEXT)
    case, p = toy.cases.cases[0], toy.answer(toy.weights)
    slope = 2 * p * (1 - p) * toy.weights
    np.testing.assert_allclose(gradients(toy.cases, case), slope * np.abs(toy.values), rtol=1e-5)
    np.testing.assert_allclose(gradients(toy.cases, case, "l2"), slope, rtol=1e-5)


def test_one_hot_leaves_positions_out(by_hand: Any) -> None:
    """A position added to a token is no part of its one-hot."""
    toy = by_hand(WORDS, TEXT)
    case = toy.cases.cases[0]
    toy.cases.model.module.position[:, 2] += 0.3  # every token has the value of its word, and this
    p = 1 / (1 + np.exp(-2 * (toy.weights @ toy.values + 0.3)))
    expected = 2 * p * (1 - p) * toy.weights * np.abs(toy.values)
    np.testing.assert_allclose(gradients(toy.cases, case), expected, rtol=1e-5)


def test_gradients_of_a_transformer_are_finite_differences(shared: Any) -> None:
    """The weights put in from outside, the embeddings nudged along themselves."""
    family = shared("bert")
    cases = prepare(family.model, ["the cat sat"])
    case = cases.cases[0]
    found = gradients(cases, case)
    weights: dict[int, torch.Tensor] = {}

    def keep(seen: Any) -> Any:
        weights[seen.site.layer] = seen.weights
        return seen

    with family.model.attending(keep):
        family.model.logits(case.x)
    table = family.hf.get_input_embeddings()
    index, inputs = int(case.answer.argmax()), torch.tensor([case.x.ids])
    step = 3e-3
    for position in range(len(case.x)):
        ends = []
        for sign in (1, -1):
            embeds = table(inputs).detach().clone()
            embeds[0, position] *= 1 + sign * step
            with (
                family.model.attending(lambda seen: seen.reweighed(weights[seen.site.layer])),
                torch.no_grad(),
            ):
                logits = family.hf(inputs_embeds=embeds).logits
            ends.append(float(logits.double().softmax(-1)[0, index]))
        assert found[position] == pytest.approx(abs(ends[0] - ends[1]) / (2 * step), rel=0.03, abs=2e-4)


def test_leave_one_out_deletes_the_token(by_hand: Any, shared: Any) -> None:
    toy = by_hand(WORDS, TEXT)
    odds = np.exp([toy.words[token][0] for token in toy.tokens])
    (found,) = leave_one_out(toy.cases)
    assert np.isnan(found[[0, -1]]).all()  # special tokens stay
    for gone in range(1, 5):
        kept = np.delete(np.arange(6), gone)
        answer = 1 / (1 + np.exp(-2 * odds[kept] @ toy.values[kept] / odds[kept].sum()))
        assert found[gone] == pytest.approx(abs(answer - toy.answer(toy.weights)), abs=1e-6)
    family = shared("bert")
    cases = prepare(family.model, ["the cat sat on the mat", "hello world!"])
    for case, scores in zip(cases.cases, leave_one_out(cases), strict=True):
        for gone in range(1, len(case.x) - 1):
            ids = torch.tensor([[*case.x.ids[:gone], *case.x.ids[gone + 1 :]]])
            with torch.no_grad():
                answer = family.hf(input_ids=ids).logits.double().softmax(-1)[0].numpy()
            assert scores[gone] == pytest.approx(np.abs(answer - case.answer).sum() / 2, abs=1e-5)


def test_tokens_whose_removal_gives_the_same_text_score_alike(by_hand: Any) -> None:
    toy = by_hand(WORDS, "cat cat dog")
    (found,) = leave_one_out(toy.cases)
    assert found[1] == found[2] > 0
    assert toy.cases.model.spent.unique < 5  # one answer, and two different texts


def test_tau_of_the_table_is_scipys(by_hand: Any) -> None:
    toy = by_hand(WORDS, TEXT)
    case = toy.cases.cases[0]
    found = correlation(toy.cases)
    assert found.pairs == (
        ("layer 0", "gradients"),
        ("layer 0", "leave-one-out"),
        ("gradients", "leave-one-out"),
    )
    words = slice(1, 5)
    slope, (left_out,) = gradients(toy.cases, case)[words], leave_one_out(toy.cases)
    weights = shown(toy.cases, case).layers[0][words]
    for column, pair in enumerate([(weights, slope), (weights, left_out[words]), (slope, left_out[words])]):
        expected = kendalltau(*pair)
        assert found.tau[0, column] == pytest.approx(expected.statistic)
        assert found.p[0, column] == pytest.approx(expected.pvalue)


def test_a_swap_is_seen(by_hand: Any) -> None:
    """Values that grow with the score rank as attention does; two swapped scores cost two of six pairs."""
    values = (0.5, 0.9, 1.4, 2.0)
    straight = by_hand(dict(zip(WORDS, zip((-1.5, -0.5, 0.5, 1.5), values, strict=True), strict=True)), TEXT)
    assert correlation(straight.cases).tau[0, 0] == pytest.approx(1)
    same = by_hand(dict(zip(WORDS, zip((-0.2, 0.0, 0.2, 0.4), values, strict=True), strict=True)), TEXT)
    swapped = by_hand(dict(zip(WORDS, zip((-0.2, 0.2, 0.0, 0.4), values, strict=True), strict=True)), TEXT)
    assert correlation(same.cases).tau[0, 0] == pytest.approx(1)
    assert correlation(swapped.cases).tau[0, 0] == pytest.approx(1 - 2 / 6)


def test_random_order_is_significant_one_time_in_twenty() -> None:
    rng = np.random.default_rng(0)
    pairs, shares, means = (("a", "b"),), [], []
    for _ in range(60):
        both = rng.normal(size=30)
        tau, p, chance, lucky = _correlated(pairs, {"a": both, "b": both}, rng)[:, 0]
        assert tau == pytest.approx(1)
        assert p < 1e-6
        shares.append(lucky)
        means.append(chance)
    assert 0.03 < np.mean(shares) < 0.07  # 1,200 draws: three standard errors are 0.019
    assert abs(np.mean(means)) < 0.012


def test_constant_rankings_are_left_out_and_told(by_hand: Any) -> None:
    assert np.isnan(kendall(np.ones(4), np.arange(4.0))).all()
    assert np.isnan(kendall(np.ones(1), np.ones(1))).all()
    toy = by_hand({word: (0.0, value) for word, (_, value) in WORDS.items()}, TEXT)
    found = correlation(toy.cases)
    line = found.findings()[0]
    assert (line.n, line.extra["texts left out"]) == (0, 1.0)
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["tau"][0][0] is None


def test_of_several_layers_and_many_kinds(shared: Any) -> None:
    for name in ("bert", "bert-multi", "bert-regression", "gpt2", "gpt2-classifier", "t5-classifier"):
        cases = prepare(shared(name).model, ["the cat sat on the mat", "hello world! a dog ran"])
        found = correlation(cases)
        assert found.tau.shape == (2, 9)
        assert np.isfinite(found.tau).all()
        assert [line.what for line in found.findings()][-1] == "gradients and leave-one-out"
        assert found.findings()[6].what == "attention and gradients, rollout"
        json.dumps(found.to_dict(), allow_nan=False)
    again = correlation(cases)
    np.testing.assert_array_equal(again.chance, found.chance)


def test_unknown_norm_is_refused(by_hand: Any) -> None:
    with pytest.raises(HeedfulError, match="one-hot"):
        correlation(by_hand(WORDS, TEXT).cases, norm="l1")
