"""Optimus: RFT by hand, the search space by count and by loops, the choice against brute force."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from heedful.engine.question import run_explainer
from heedful.explainers.attention_optimus import CIRCULAR, configurations, rft, scaled

TEXT = "the cat sat on the mat"


def slow_rft(weights: list[float], deltas: list[float]) -> float:
    """The definition, token by token: the rank is how many weights are at least as large."""
    total = 0.0
    for weight, delta in zip(weights, deltas, strict=True):
        rank = sum(abs(other) >= abs(weight) for other in weights)
        sign = (weight > 0) - (weight < 0)
        total += (sign * delta if weight else -abs(delta)) / rank
    return total


def test_rft_by_hand() -> None:
    # ranks 1, 2, 3: 6 / 1 + 4 / 2 - 3 / 3
    assert rft(np.array([0.9, 0.5, 0.1]), np.array([6.0, 4.0, -3.0])) == 7.0
    # a negative weight is right about a negative drop: -(-3) / 2
    assert rft(np.array([0.9, -0.5]), np.array([6.0, -3.0])) == 7.5
    # ties share the larger rank: (6 + 4) / 2
    assert rft(np.array([0.5, 0.5]), np.array([6.0, 4.0])) == 5.0
    # a zero weight denies any effect: 6 / 1 - 4 / 2
    assert rft(np.array([0.5, 0.0]), np.array([6.0, 4.0])) == 4.0


def test_rft_against_loops() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        weights, deltas = rng.integers(-2, 3, 6).astype(float), rng.standard_normal(6)
        assert rft(weights, deltas) == pytest.approx(slow_rft(weights.tolist(), deltas.tolist()), abs=1e-12)


def test_scaled() -> None:
    assert scaled(np.array([1.0, 3.0, 2.0])).tolist() == [1e-7, 1.0, 0.5]
    assert scaled(np.array([2.0, 2.0])).tolist() == [1.0, 1.0]


def test_the_search_space_of_bert(shared: Any) -> None:
    """2 layers + mean + product, 4 heads + mean, 4 readings; each recomputed with loops."""
    model = shared("bert").model
    x = model.encode(TEXT)
    trace = model.trace(x, model.target(x))
    ways = list(configurations(trace))
    assert len(ways) == len({(w.layers, w.heads, w.reading) for w in ways}) == 4 * 5 * 4
    assert (ways[0].layers, ways[0].heads, ways[0].reading) == ("mean", "mean", "from")
    maps = np.stack([layer.double().numpy() for layer in trace.attentions])  # (L, H, T, T)
    for way in ways:
        per_layer = maps.mean(1) if way.heads == "mean" else maps[:, int(way.heads)]
        if way.layers == "mean":
            joined = per_layer.mean(0)
        elif way.layers == "product":
            joined = per_layer[1] @ per_layer[0]
        else:
            joined = per_layer[int(way.layers)]
        expected = {
            "from": joined[0],
            "to": joined[:, 0],
            "mean of columns": [sum(row[t] for row in joined) / len(x) for t in range(len(x))],
            "max of columns": [max(row[t] for row in joined) for t in range(len(x))],
        }[way.reading]
        np.testing.assert_allclose(way.scores.numpy(), expected, atol=1e-7)


def test_the_chosen_one_is_the_best_of_all(shared: Any) -> None:
    """Deltas from one row at a time, RFT by loops, all configurations tried."""
    model = shared("bert").model
    x = model.encode(TEXT)
    target = model.target(x)
    found = run_explainer("attention-optimus", model, x, target, operator="mask")
    places = [t for t in range(len(x)) if not x.special[t]]
    everything = np.ones((1, len(places)), dtype=bool)
    full = model.values(x, target, everything, "mask", "token")[0]
    deltas = []
    for j in range(len(places)):
        keep = everything.copy()
        keep[0, j] = False
        deltas.append(full - model.values(x, target, keep, "mask", "token")[0])
    merit = {}
    for way in configurations(model.trace(x, target)):
        weights = scaled(way.scores.numpy()[places])
        merit[way.layers, way.heads, way.reading] = (slow_rft(weights.tolist(), deltas), weights)
    best = max(merit, key=lambda key: merit[key][0])
    assert (found.params["layers"], found.params["heads"], found.params["reading"]) == best
    np.testing.assert_allclose(found.scores[places], merit[best][1], atol=1e-6)
    assert found.scores[[0, -1]].tolist() == [0.0, 0.0]


def test_cost_and_notes(fresh: Any) -> None:
    model = fresh("bert").model
    x = model.encode(TEXT)
    target = model.target(x)
    before = model.spent
    found = run_explainer("attention-optimus", model, x, target)
    spent = model.spent - before
    removable = len(x) - 2
    assert (spent.forwards, spent.backwards) == (removable + 1 + 1, 1)  # the rows, the text, the trace
    assert found.params["operator"] == "unk"
    assert CIRCULAR in found.notes
    assert any("best of 80 readings by RFT" in note for note in found.notes)


def test_every_family(family: Any) -> None:
    x = family.model.encode(TEXT)
    found = run_explainer("attention-optimus", family.model, x, family.model.target(x))
    judged = [t for t in range(len(x)) if not x.special[t]]
    assert found.scores[judged].min() >= 1e-7
    assert found.scores.max() == 1.0
    if family.model.trace(x, found.target).cross:
        ways = list(configurations(family.model.trace(x, found.target)))
        assert "to" not in {way.reading for way in ways}
        assert "product" not in {way.layers for way in ways}
    if family.name.startswith(("gpt2", "llama")):  # nothing but the last token looks at the last token
        assert "to" not in {way.reading for way in configurations(family.model.trace(x, found.target))}


def test_a_target_in_the_middle(shared: Any) -> None:
    model = shared("gpt2").model
    x = model.encode(TEXT)
    for spec in ({"position": 3}, {"sequence": " a dog"}):
        found = run_explainer("attention-optimus", model, x, model.target(x, spec))
        assert np.isfinite(found.scores).all()


def test_nothing_to_remove(shared: Any) -> None:
    model = shared("bert").model
    x = replace(model.encode("cat"), special=(True,) * 3, words=(-1,) * 3, word_spans=())
    found = run_explainer("attention-optimus", model, x, model.target(x))
    assert found.scores.tolist() == [0.0] * len(x)


def test_heads_that_only_some_layers_have(shared: Any) -> None:
    model = shared("bert").model
    x = model.encode(TEXT)
    trace = model.trace(x, model.target(x))
    first, second = trace.attentions
    ways = list(configurations(replace(trace, attentions=(first[:3], second[:2]))))
    assert {way.heads for way in ways} == {"mean", "0", "1"}
