"""Permutations against enumeration, and on models to which the order means nothing."""

from __future__ import annotations

import json
from itertools import permutations as orders
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from heedful.core.cost import Cost
from heedful.trials.examples import prepare
from heedful.trials.permute_attention import permuted
from heedful.trials.tests.permutation import Permutation, one_word_less, permutation

VALUES = {"cat": (2.0, 1.5), "dog": (0.0, -1.0), "sat": (-1.0, 0.4)}


def test_median_is_that_of_all_orders(by_hand: Any) -> None:
    """One layer, five tokens (special ones among them): all 120 orders worked out by hand."""
    toy = by_hand(VALUES, "cat dog sat")
    own = toy.answer(toy.weights)
    every = np.abs(toy.answer(np.array(list(orders(toy.weights)))) - own)
    found = permutation(toy.cases, permutations=4000)
    low, high = np.quantile(every, [0.47, 0.53])  # three standard errors of a median of 4,000 draws
    assert low - 1e-6 <= found.change[0, 0] <= high + 1e-6
    assert high - low < 0.5 * every.std()
    assert found.largest[0, 0] == pytest.approx(toy.weights[1:4].max(), rel=1e-5)
    level = abs(toy.answer(np.full(5, 0.2)) - own)
    assert found.uniform[0, 0] == pytest.approx(level, abs=1e-6)


def test_one_word_less_is_the_answer_without_it(by_hand: Any) -> None:
    toy = by_hand(VALUES, "cat dog sat")
    odds = np.exp([toy.words[token][0] for token in toy.tokens])
    moved = []
    for gone in (1, 2, 3):
        kept = np.delete(np.arange(5), gone)
        weights = odds[kept] / odds[kept].sum()
        answer = 1 / (1 + np.exp(-2 * weights @ toy.values[kept]))
        moved.append(abs(answer - toy.answer(toy.weights)))
    found = one_word_less(toy.cases, np.random.default_rng(0))
    assert found[0] == pytest.approx(np.median(moved), abs=1e-6)


def test_nothing_changes_where_all_values_are_alike(by_hand: Any) -> None:
    toy = by_hand(
        {word: (score, 0.8) for word, (score, _) in VALUES.items()}
        | {"[CLS]": (0.0, 0.8), "[SEP]": (0.0, 0.8)},
        "cat dog sat",
    )
    found = permutation(toy.cases, permutations=20)
    assert found.change[0, 0] < 1e-7
    assert found.uniform[0, 0] < 1e-7


def test_rows_are_permuted_each_on_its_own_and_only_where_free() -> None:
    rng = torch.Generator().manual_seed(0)
    weights = torch.rand(50, 3, 6, 6, generator=rng).tril()
    free = torch.ones(6, 6).tril().bool()[None, None]
    free = free.clone().expand(1, 3, 6, 6).clone()
    free[..., 0] = False  # stays
    found = permuted(weights, free, torch.rand(50, 3, 6, 6, generator=rng))
    torch.testing.assert_close(found.sort(-1).values, weights.sort(-1).values)
    assert torch.equal(found[~free.expand_as(found)], weights[~free.expand_as(found)])
    order = (found[:, :, 5, None, 1:] == weights[:, :, 5, 1:, None]).int().argmax(-2)  # (50, 3, 5)
    assert len({tuple(row) for row in order.flatten(0, 1).tolist()}) > 60  # of 150 draws from 120 orders
    counts = torch.bincount(order[..., 0].flatten(), minlength=5)
    assert ((counts - 30).abs() < 3.5 * 24**0.5).all()  # the first place gets each weight equally often


def test_the_largest_weight_is_that_of_a_word(by_hand: Any) -> None:
    toy = by_hand(VALUES | {"[CLS]": (4.0, 0.1), "[SEP]": (3.0, 0.1)}, "cat dog sat")
    found = permutation(toy.cases, permutations=3)
    assert toy.weights.argmax() == 0  # [CLS]
    assert found.largest[0, 0] == pytest.approx(toy.weights[1:4].max(), rel=1e-5)


def test_every_layer_and_all_of_a_transformer(shared: Any) -> None:
    for name in ("bert", "gpt2", "bart-classifier"):
        cases = prepare(shared(name).model, ["the cat sat on the mat", "hello world"])
        found = permutation(cases, permutations=5)
        assert found.places == ("layer 0", "layer 1", "all layers")
        assert found.change.shape == (2, 3)
        assert (found.change > 0).all()
        assert (found.largest > 0).all()
        json.dumps(found.to_dict(), allow_nan=False)
        again = permutation(cases, permutations=5)
        np.testing.assert_array_equal(found.change, again.change)
        assert not np.array_equal(found.change, permutation(cases, permutations=5, seed=9).change)


def test_copies_beyond_the_permutations_are_as_they_were(shared: Any, monkeypatch: Any) -> None:
    """Passes of three rows: a copy's place does not change with where a pass is cut."""
    from heedful.trials import forward

    cases = prepare(shared("bert").model, ["the cat sat on the mat"])
    whole = permutation(cases, permutations=7)
    monkeypatch.setattr(forward, "TOKENS", 3 * len(cases.cases[0].x))
    cut = permutation(cases, permutations=7)
    np.testing.assert_allclose(cut.uniform, whole.uniform, atol=1e-6)
    np.testing.assert_allclose(cut.change[:, :2], whole.change[:, :2], atol=1e-5)  # drawn in the same order


def test_bins_and_correlation() -> None:
    largest = np.array([[0.1], [0.3], [0.4], [1.0]])
    change = np.array([[0.4], [0.2], [0.3], [0.1]])
    found = Permutation(("layer 0",), largest, change, change, change[:, 0], 100, Cost())
    r, low, high = found.together(0)
    assert r == pytest.approx(-0.8)
    assert low == pytest.approx(np.tanh(np.arctanh(-0.8) - 1.96 * np.sqrt(1.32)))
    assert low < r < high
    assert [row["texts"] for row in found.bins(0)] == [1, 2, 0, 1]
    assert found.bins(0)[1]["median"] == pytest.approx(0.25)
    assert found.to_dict()["bins"]["layer 0"][2]["median"] is None
    (line,) = found.findings()
    assert line.value == pytest.approx(0.25)
    assert line.interval[0] < 0.25 < line.interval[1]
    assert line.control == pytest.approx(0.25)


def test_compared_with_a_deleted_word_text_by_text() -> None:
    """Differences of 0.1 and 0.3: mean 0.2, and Student's t with one degree of freedom at 1 - 0.05/4."""
    change = np.array([[0.5, 0.2], [0.4, 0.2]])
    deleted = np.array([0.4, 0.1])
    found = Permutation(("layer 0", "all layers"), change, change, change, deleted, 100, Cost())
    extra = found.findings()[0].extra
    reach = stats.t.ppf(1 - 0.05 / 4, 1) * 0.1
    assert extra["more than one word deleted"] == pytest.approx(0.2)
    assert extra["at least"] == pytest.approx(0.2 - reach)
    assert extra["at most"] == pytest.approx(0.2 + reach)
