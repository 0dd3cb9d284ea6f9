"""Pruning curves against brute force on a model of four heads, one set of heads and one text at a time."""

from __future__ import annotations

import json
from itertools import combinations
from typing import Any

import numpy as np
import pytest
import torch

import heedful
from heedful.core.errors import HeedfulError
from heedful.heads.ablation import ablate, pruning, task_metrics

WORDS = ("the", "cat", "sat", "on", "mat", "hello", "world", "a", "dog", "ran", "low", "house", "not", "bad")
TEXTS = [" ".join(np.random.default_rng(i).choice(WORDS, 3 + i % 4)) for i in range(21)]
LABELS = [i % 2 for i in range(21)]


@pytest.fixture(scope="module")
def small(tokenizer_of: Any) -> Any:
    """BERT of two layers with two heads."""
    from transformers import BertConfig, BertForSequenceClassification

    with torch.random.fork_rng():
        torch.manual_seed(3)
        config = BertConfig(
            vocab_size=220,
            hidden_size=16,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=32,
            max_position_embeddings=64,
            pad_token_id=3,
            initializer_range=0.6,
        )
        hf = BertForSequenceClassification(config).eval()
    return heedful.load((hf, tokenizer_of("wordpiece")))


def by_hand(model: Any, texts: list[int], gone: Any) -> Any:
    """(n,) log-probability of the labels without some heads, one text at a time."""

    def one(i: int) -> float:
        return float(model.logits(model.encode(TEXTS[i])).log_softmax(-1)[LABELS[i]])

    if not gone:
        return np.array([one(i) for i in texts])
    with heedful.ablated(model, list(gone)):
        return np.array([one(i) for i in texts])


def halves(model: Any, seed: int = 0) -> tuple[list[int], list[int]]:
    """Which texts choose and which measure, by their token ids."""
    task = task_metrics.prepare(model, TEXTS, LABELS)
    found = [[task.cases.index(case) for case in half.cases] for half in pruning.split(task, seed)]
    return found[0], found[1]


@pytest.fixture(scope="module")
def exact(small: Any) -> pruning.Pruning:
    return heedful.prune_heads(small, TEXTS, LABELS, shortlist=None, draws=4)


def test_every_step_takes_what_brute_force_takes(small: Any, exact: pruning.Pruning) -> None:
    chooses, _ = halves(small)
    heads = ablate.every_head(ablate.anatomy(small))
    value = {
        frozenset(gone): by_hand(small, chooses, gone).mean()
        for size in range(len(heads) + 1)
        for gone in combinations(heads, size)
    }
    gone: frozenset[Any] = frozenset()
    assert exact.base_chosen == pytest.approx(value[gone], abs=1e-5)
    for step in exact.steps:
        best = max((head for head in heads if head not in gone), key=lambda head: value[gone | {head}])
        gone |= {best}
        assert step.name == best.name
        assert step.chosen == pytest.approx(value[gone], abs=1e-5)
    singles = sorted(heads, key=lambda head: -value[frozenset([head])])
    assert list(exact.one_shot) == [head.name for head in singles]
    assert exact.steps[0].chosen == pytest.approx(max(value[frozenset([head])] for head in heads), abs=1e-5)


def test_the_curves_are_of_the_texts_that_did_not_choose(small: Any, exact: pruning.Pruning) -> None:
    chooses, measures = halves(small)
    assert sorted(chooses + measures) == list(range(21))
    assert exact.texts == (len(chooses), len(measures)) == (10, 11)
    base = by_hand(small, measures, ())
    assert exact.base == pytest.approx(base.mean(), abs=1e-5)
    greedy = [step.name for step in exact.steps]
    for size, step in enumerate(exact.steps, 1):
        without = by_hand(small, measures, greedy[:size])
        assert step.value == pytest.approx(without.mean(), abs=1e-5)
        assert step.drop == pytest.approx((base - without).mean(), abs=1e-5)
        one_shot = by_hand(small, measures, exact.one_shot[:size])
        assert step.one_shot == pytest.approx(one_shot.mean(), abs=1e-5)
        error = (base - without).std(ddof=1) / np.sqrt(len(base))
        assert (step.interval[1] - step.interval[0]) / 2 > 2.2 * error  # wider than one step's own interval
        assert np.mean(step.interval) == pytest.approx(step.drop, abs=1e-9)
    last = exact.steps[-1]  # nothing is left to differ in
    assert (last.one_shot, last.random, *last.random_range) == pytest.approx((last.value,) * 4, abs=1e-9)


def test_random_orders_are_a_control(small: Any, exact: pruning.Pruning) -> None:
    """After one step, a random order is one of the heads; its mean over many draws that over all heads."""
    _, measures = halves(small)
    heads = ablate.every_head(ablate.anatomy(small))
    singles = [by_hand(small, measures, [head]).mean() for head in heads]
    many = heedful.prune_heads(small, TEXTS, LABELS, shortlist=1, steps=1, draws=60).steps[0]
    assert many.random_range == pytest.approx((min(singles), max(singles)), abs=1e-5)
    error = np.std(singles) / np.sqrt(60)
    assert abs(many.random - np.mean(singles)) < 4 * error
    for step in exact.steps:
        assert step.random_range[0] <= step.random <= step.random_range[1]


def test_a_shortlist_of_one_never_looks_again(small: Any, exact: pruning.Pruning) -> None:
    lazy = heedful.prune_heads(small, TEXTS, LABELS, shortlist=1, draws=1)
    assert [step.name for step in lazy.steps] == list(lazy.one_shot)
    assert [step.value for step in lazy.steps] == pytest.approx([step.one_shot for step in lazy.steps])
    long = heedful.prune_heads(small, TEXTS, LABELS, shortlist=50, draws=4)
    assert long.steps == exact.steps


def test_seeds_draw_halves_and_orders(small: Any) -> None:
    first, again, other = (
        heedful.prune_heads(small, TEXTS, LABELS, seed=seed, draws=2, steps=2) for seed in (0, 0, 1)
    )
    assert first == again
    assert first.steps != other.steps
    assert halves(small, 0) != halves(small, 1)


@pytest.mark.parametrize("name", ["gpt2", "bart", "bert-multi", "bert-regression"])
def test_other_models_lose_heads_too(shared: Any, name: str) -> None:
    family = shared(name)
    found = heedful.prune_heads(family.model, TEXTS[:6], steps=3, shortlist=2, draws=2, level="head")
    assert [step.gone for step in found.steps] == [1, 2, 3]
    assert len({step.name for step in found.steps}) == 3
    assert json.dumps(found.to_dict(), allow_nan=False)
    assert len(found.table()) == 3
    layers = heedful.prune_heads(family.model, TEXTS[:6], shortlist=2, draws=2, level="layer")
    assert {step.name for step in layers.steps} == set(layers.one_shot)
    assert layers.units == (6 if name == "bart" else 2)


def test_how_many_can_go() -> None:
    ends = (0.01, 0.02, 0.2, 0.03)
    steps = tuple(
        pruning.PruningStep(str(i), i + 1, 0.0, 0.0, 0.0, (-1.0, end), 0.0, 0.0, (0.0, 0.0))
        for i, end in enumerate(ends)
    )
    found = pruning.Pruning("m", "zero", "head", "x", "", 4, (2, 2), 1, 0, None, 0.0, 0.0, (), steps)
    assert [found.within(t) for t in (0.0, 0.015, 0.05, 0.5)] == [0, 1, 2, 4]


def test_progress_ends_at_its_total(small: Any) -> None:
    told: list[tuple[int, int]] = []
    before = small.spent.unique
    heedful.prune_heads(
        small, TEXTS, LABELS, shortlist=2, draws=3, progress=lambda step: told.append((step.done, step.total))
    )
    assert told == sorted(told)
    assert told[-1][0] == told[-1][1]
    assert len({of for _, of in told}) == 1
    assert small.spent.unique - before <= told[-1][1] + 1  # sets that curves share are run once


def test_mistakes_are_told(small: Any) -> None:
    with pytest.raises(HeedfulError, match="too few to prune"):
        heedful.prune_heads(small, TEXTS[:3], LABELS[:3])
    for wish in ({"steps": 0}, {"shortlist": 0}, {"draws": 0}):
        with pytest.raises(HeedfulError, match="cannot be 0"):
            heedful.prune_heads(small, TEXTS, LABELS, **wish)
    with pytest.raises(HeedfulError, match="head_means"):
        heedful.prune_heads(small, TEXTS, LABELS, "mean")


def told(*upper: float) -> str:
    """The report of a curve whose loss is at most so much after each step."""
    from heedful.heads.ablation.pruning_results import Pruning, PruningStep

    steps = tuple(
        PruningStep(f"0.{n}", n + 1, 0.9, 0.9, 0.001, (-0.01, high), 0.8, 0.7, (0.6, 0.8))
        for n, high in enumerate(upper)
    )
    return " ".join(
        str(
            Pruning(
                "m", "zero", "head", "accuracy", "the label", 4, (10, 11), 5, 0, 8, 0.9, 0.9, ("0.0",), steps
            )
        ).split()
    )


def test_the_report_says_plainly_how_much_is_lost() -> None:
    said = told(0.005, 0.04, 0.2)
    assert said.startswith("2 of 4 heads can be removed with a loss of at most 0.05")
    assert "Without 1 head the loss of accuracy is at most 0.01 (95 % confidence)." in said
    assert (
        "Without 2 heads the loss of accuracy is at most 0.05 (95 % confidence). Measured: +0.001; with "
        "random heads: +0.200." in said
    )
    assert "0.1 (95 %" not in said  # no more heads than at 0.05: nothing new
    assert "Already" not in said
    unsafe = told(0.07)
    assert unsafe.startswith("No head can be removed safely: the loss may be above 0.05")
    assert "Already without 1 head the loss of accuracy may be above 0.05." in unsafe
    assert "Without 1 head the loss of accuracy is at most 0.1 (95 % confidence)." in unsafe
    for old in ("ruled out", "missed least", "can go"):
        assert old not in said + unsafe
