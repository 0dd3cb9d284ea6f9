"""The yardstick of zoo:lm: a case by hand, a plain re-implementation, probabilities that sum to one."""

from __future__ import annotations

import math
from collections import Counter, defaultdict

import numpy as np
import pytest

kneser_ney = pytest.importorskip(
    "kneser_ney", reason="zoo/ (the training scripts) is not part of an installed wheel"
)


def corpus(seed: int, vocab: int = 12, documents: int = 6, length: int = 300) -> list[np.ndarray]:
    """Markov text with a long tail, so that all of n_1..n_4 occur; token 0 opens each document."""
    rng = np.random.default_rng(seed)
    law = rng.dirichlet(np.full(vocab - 1, 0.3), size=vocab)
    out = []
    for _ in range(documents):
        row = [0]
        for _ in range(length):
            row.append(1 + int(rng.choice(vocab - 1, p=law[row[-1]])))
        out.append(np.array(row))
    return out


def test_by_hand() -> None:
    """Document 0 1 2 1 2, bigrams. Too few counts for the discount formula, so D = 0.75.

    Bigrams: 01 once, 12 twice, 21 once. c(1 .) = 2, so p(2|1) = (2 - .75)/2 + .75/2 p(2).
    Unigram counts: distinct left neighbours, 1: {0, 2} = 2, 2: {1} = 1, and 0 opens a document = 1; total 4.
    p(2) = (1 - .75)/4 + (3 * .75/4)/3 = .0625 + .1875 = .25.
    """
    model = kneser_ney.fit([np.array([0, 1, 2, 1, 2])], vocab=3, order=2)
    assert kneser_ney.probabilities(model, np.array([[2]]))[0] == pytest.approx(0.25, abs=1e-12)
    assert kneser_ney.probabilities(model, np.array([[1, 2]]))[0] == pytest.approx(
        0.625 + 0.375 * 0.25, abs=1e-12
    )


def test_discounts_by_hand() -> None:
    """n = 10, 5, 3, 2: Y = 10/20 = 1/2; D = 1 - 2/2*5/10, 2 - 3/2*3/5, 3 - 4/2*2/3."""
    counts = np.repeat([1, 2, 3, 4, 9], [10, 5, 3, 2, 1])
    assert kneser_ney.discounts(counts) == pytest.approx([0, 1 - 0.5, 2 - 0.9, 3 - 4 / 3], abs=1e-12)


@pytest.mark.parametrize("order", [1, 2, 3, 5])
def test_sums_to_one(order: int) -> None:
    documents = corpus(seed=order)
    model = kneser_ney.fit(documents, vocab=12, order=order)
    rng = np.random.default_rng(0)
    seen = [documents[0][i : i + order - 1] for i in (0, 7, 100)]
    for context in [*seen, rng.integers(0, 12, order - 1)]:
        rows = np.array([[*context, w] for w in range(12)]).reshape(12, order)
        p = kneser_ney.probabilities(model, rows)
        assert p.min() > 0
        assert p.sum() == pytest.approx(1.0, abs=1e-12)


def plain(documents: list[list[int]], vocab: int, order: int, context: tuple[int, ...], word: int) -> float:
    """The same estimate with dictionaries, straight from Chen & Goodman's formulas."""
    occurrences = Counter(tuple(d[i : i + order]) for d in documents for i in range(len(d) - order + 1))
    counts = {order: occurrences}
    for n in range(order - 1, 0, -1):
        lower = Counter(gram[1:] for gram in counts[n + 1])
        lower.update(tuple(d[:n]) for d in documents)
        counts[n] = lower
    p = 1 / vocab
    for n in range(1, order + 1):
        table, h = counts[n], context[len(context) - n + 1 :]
        of = Counter(table.values())
        d = dict.fromkeys((1, 2, 3), 0.75)
        if all(of[i] for i in (1, 2, 3, 4)):
            y = of[1] / (of[1] + 2 * of[2])
            d = {i: i - (i + 1) * y * of[i + 1] / of[i] for i in (1, 2, 3)}
        after: dict[tuple[int, ...], dict[int, int]] = defaultdict(dict)
        for gram, c in table.items():
            after[gram[:-1]][gram[-1]] = c
        if h in after:
            total = sum(after[h].values())
            gamma = sum(d[min(c, 3)] for c in after[h].values()) / total
            c = after[h].get(word, 0)
            p = (c - d[min(c, 3)] if c else 0.0) / total + gamma * p
    return p


def test_agrees_with_dictionaries() -> None:
    documents = corpus(seed=5, vocab=40)
    model = kneser_ney.fit(documents, vocab=40, order=3)
    lists = [d.tolist() for d in documents]
    grams = [documents[0][i : i + 3].tolist() for i in (0, 11, 50)]
    for gram in [*grams, [*grams[1][:2], 39], [39, 39, 39], [0, 0, 0]]:
        ours = kneser_ney.probabilities(model, np.array([gram]))[0]
        assert ours == pytest.approx(plain(lists, 40, 3, tuple(gram[:2]), gram[2]), abs=1e-12)


def test_reference_uses_the_three_discounts() -> None:
    """The comparison above means something only where the discount formula, not 0.75, is in force."""
    _, counts = kneser_ney.count(corpus(seed=5, vocab=40), 3, 6)
    assert len(set(kneser_ney.discounts(counts)[1:])) == 3


def test_log_probabilities_use_all_the_context_there_is() -> None:
    documents = corpus(seed=2)
    model = kneser_ney.fit(documents, vocab=12, order=3)
    held_out = corpus(seed=9)[0][:6]
    got = kneser_ney.log_probabilities(model, held_out)
    rows = [held_out[max(0, i - 2) : i + 1] for i in range(1, 6)]
    want = [math.log(kneser_ney.probabilities(model, row[None])[0]) for row in rows]
    assert got == pytest.approx(want, abs=1e-12)
    assert len(kneser_ney.log_probabilities(model, held_out[:2])) == 1
