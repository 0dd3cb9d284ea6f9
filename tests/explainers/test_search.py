"""Beam search for the best deletion order, against exhaustive enumeration of all orders."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

import heedful
from heedful.engine.question import run_explainer

WORDS = ["a", "b", "c", "d", "e"]


def scorer(seed: int):  # type: ignore[no-untyped-def]
    """A function with pairwise interactions between the five words."""
    rng = np.random.default_rng(seed)
    linear, pairs = rng.normal(size=5), rng.normal(size=(5, 5))

    def score(texts: list[str]) -> list[float]:
        present = np.array([[word in text.split() for word in WORDS] for text in texts], dtype=float)
        return (present @ linear + np.einsum("ni,ij,nj->n", present, pairs, present)).tolist()

    return score


def area(score, order: tuple[int, ...]) -> float:  # type: ignore[no-untyped-def]
    texts = [" ".join(w for i, w in enumerate(WORDS) if i not in order[:k]) for k in range(len(order) + 1)]
    values = score(texts)
    return float(sum(values[0] - value for value in values[1:]))


@pytest.mark.parametrize("seed", range(5))
def test_a_wide_beam_finds_the_best_of_all_orders(seed: int) -> None:
    score = scorer(seed)
    model = heedful.load(score)
    x = model.encode("a b c d e")
    found = run_explainer("search", model, x, model.target(x), beam=32, operator="delete")
    order = tuple(np.argsort(-found.scores).tolist())
    assert area(score, order) == pytest.approx(max(area(score, p) for p in permutations(range(5))), abs=1e-9)


def test_additive_functions_are_deleted_by_weight() -> None:
    weights = {"a": 1.0, "b": -2.0, "c": 5.0, "d": 0.5, "e": 3.0}
    model = heedful.load(lambda texts: [sum(weights[w] for w in t.split()) for t in texts])
    x = model.encode("a b c d e")
    found = run_explainer("search", model, x, model.target(x), beam=1, operator="delete")
    assert [WORDS[i] for i in np.argsort(-found.scores)] == ["c", "e", "a", "d", "b"]
    np.testing.assert_allclose(sorted(found.scores), [0.2, 0.4, 0.6, 0.8, 1.0])


def test_what_depth_leaves_follows_by_single_drop() -> None:
    weights = {"a": 1.0, "b": -2.0, "c": 5.0, "d": 0.5, "e": 3.0}
    model = heedful.load(lambda texts: [sum(weights[w] for w in t.split()) for t in texts])
    x = model.encode("a b c d e")
    found = run_explainer("search", model, x, model.target(x), depth=2, operator="delete")
    assert [WORDS[i] for i in np.argsort(-found.scores)] == ["c", "e", "a", "d", "b"]
    assert "circular" not in " ".join(found.notes)
    assert "do not judge it by a metric of deletion" in found.notes[1]
