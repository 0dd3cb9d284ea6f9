"""Uniform attention at inference against the analytic mean, and its shares against counting."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import binomtest

from heedful.models.attention_hooks import uniform
from heedful.stats.intervals import nanmean_of, share_of
from heedful.trials.examples import prepare
from heedful.trials.tests.uniform_attention import uniform_attention

WORDS = {"cat": (2.0, 1.5), "dog": (0.5, -4.0), "sat": (-1.0, 0.4)}


def test_one_layer_is_the_mean_of_the_values(by_hand: Any) -> None:
    toy = by_hand(WORDS, "cat dog sat")
    own, level = toy.answer(toy.weights), toy.answer(np.full(5, 0.2))
    found = uniform_attention(toy.cases)
    assert found.places == ("layer 0",)
    assert found.change[0, 0] == pytest.approx(abs(level - own), abs=1e-6)
    assert (own > 0.5) != (level > 0.5)
    assert found.agrees[0, 0] == 0
    assert found.empty[0] == pytest.approx(abs(0.5 - own), abs=1e-6)  # [CLS] and [SEP] have value zero
    assert np.isnan(found.correct).all()
    assert not any("accuracy" in line.what for line in found.findings())


def test_labels_are_judged_by_hand(by_hand: Any) -> None:
    toy = by_hand(WORDS, "cat dog sat")
    own, level = toy.answer(toy.weights), toy.answer(np.full(5, 0.2))
    assert own > 0.5 > level
    cases = prepare(toy.cases.model, ["cat dog sat", "cat", "dog", "cat cat"], ["yes", "yes", "no", None])
    found = uniform_attention(cases)
    assert found.correct[:3, 0].tolist() == [0.0, 1.0, 1.0]
    assert found.own_correct[:3].tolist() == [1.0, 1.0, 1.0]
    assert np.isnan(found.correct[3, 0])
    assert found.logp[0, 0] == pytest.approx(np.log(level), abs=1e-5)
    assert found.own_logp[0] == pytest.approx(np.log(own), abs=1e-5)
    assert found.agrees[:, 0].tolist() == [0.0, 1.0, 1.0, 1.0]
    lines = {line.unit: line for line in found.findings()}
    assert lines["accuracy"].value == pytest.approx(2 / 3)
    assert lines["accuracy"].control == pytest.approx(2 / 3)
    assert lines["accuracy"].extra["accuracy of the model as it is"] == 1
    assert lines["prediction kept"].value == pytest.approx(0.75)
    assert lines["prediction kept"].control == pytest.approx(0.75)


def test_each_layer_alone_and_all_together(shared: Any) -> None:
    """Oracle: one pass a layer with a plain edit."""
    for name in ("bert", "gpt2", "gpt2-classifier"):
        family = shared(name)
        cases = prepare(family.model, ["the cat sat on the mat", "hello world"])
        found = uniform_attention(cases)
        assert found.places == ("layer 0", "layer 1", "all layers")
        for row, case in zip(found.change, cases.cases, strict=True):
            for place, layers in enumerate(({0}, {1}, {0, 1})):

                def edit(seen: Any, layers: set[int] = layers) -> Any:
                    return seen.reweighed(uniform(seen)) if seen.site.layer in layers else seen

                with family.model.attending(edit):
                    answer = cases.answers(family.model.logits(case.x).double()[None])
                expected = float(cases.apart(answer, torch.from_numpy(case.answer)[None])[0])
                assert row[place] == pytest.approx(expected, abs=1e-5)
        assert (found.shuffled > 0).all()
        json.dumps(found.to_dict(), allow_nan=False)


def test_regressions_predict_no_label_and_multi_label_counts_every_side(shared: Any) -> None:
    cases = prepare(shared("bert-regression").model, ["the cat sat on the mat", "hello world"])
    found = uniform_attention(cases)
    assert np.isnan(found.agrees).all()
    assert {line.unit for line in found.findings()} == {"change of the answer"}
    cases = prepare(shared("bert-multi").model, ["the cat sat on the mat", "hello world"])
    found = uniform_attention(cases)
    for text, case in enumerate(cases.cases):
        with cases.model.attending(lambda seen: seen.reweighed(uniform(seen))):
            answer = cases.model.logits(case.x).sigmoid().numpy()
        assert found.agrees[text, -1] == ((answer > 0.5) == (case.answer > 0.5)).all()


def test_intervals_of_shares_are_exact() -> None:
    for hits, n in ((0, 5), (3, 7), (12, 12)):
        value, interval = share_of(np.arange(n) < hits)
        expected = binomtest(hits, n).proportion_ci(0.95, "exact")
        assert value == pytest.approx(hits / n)
        assert interval == pytest.approx((expected.low, expected.high))
    assert np.isnan(share_of(np.zeros(0, dtype=bool))[0])


def test_intervals_of_means_stay_in_their_range() -> None:
    value, interval = nanmean_of(np.array([0.0, 0.1, np.nan, 0.5]), (0.0, 1.0))
    assert value == pytest.approx(0.2)
    assert interval[0] == 0.0
    reach = 4.302653 * np.std([0.0, 0.1, 0.5], ddof=1) / np.sqrt(3)
    assert interval[1] == pytest.approx(0.2 + reach, rel=1e-5)
    assert np.isnan(nanmean_of(np.array([np.nan]))[0])
