"""Interpolated modified Kneser-Ney n-gram model over integer tokens, in numpy: the yardstick of zoo:lm.

    p_n(w | h) = (c(hw) - D_n(c(hw)))^+ / c(h) + g_n(h) p_{n-1}(w | h'),      h' = h without its first token
    g_n(h)     = (D_1 N_1(h) + D_2 N_2(h) + D_3+ N_3+(h)) / c(h),       N_i(h): words seen i times after h
    Y = n_1/(n_1 + 2 n_2),  D_1 = 1 - 2Y n_2/n_1,  D_2 = 2 - 3Y n_3/n_2,  D_3+ = 3 - 4Y n_4/n_3   (each order)

The highest order counts occurrences; below, c(hw) is the number of distinct tokens seen before hw, plus the
number of documents that hw opens (nothing stands before it there). The unigram is interpolated with the
uniform distribution, so every token has a probability. Cost: a sort of the n-grams of each order, a binary
search a query. An n-gram is packed in one int64, so order * log2(vocabulary) must stay below 63 bits.

Chen & Goodman 1999, "An empirical study of smoothing techniques for language modeling".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Keys = NDArray[np.int64]


@dataclass(frozen=True)
class Table:
    """One order: discounted counts of n-grams, total and back-off mass of contexts; all keys sorted."""

    grams: Keys  # (G,)
    discounted: NDArray[np.float64]  # (G,) (c - D(c))^+
    contexts: Keys  # (C,)
    totals: NDArray[np.float64]  # (C,) c(h)
    backoff: NDArray[np.float64]  # (C,) g(h)


@dataclass(frozen=True)
class KneserNey:
    """Tables of order 1..n over a vocabulary of `vocab` tokens."""

    vocab: int
    tables: list[Table]


def pack(tokens: NDArray[np.int64], bits: int) -> Keys:
    """(..., n) tokens -> one integer each; the last token is in the lowest bits."""
    key = np.zeros(tokens.shape[:-1], dtype=np.int64)
    for column in range(tokens.shape[-1]):
        key = (key << bits) | tokens[..., column]
    return key


def discounts(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """D for counts 0, 1, 2, 3+; 0.75 throughout where the estimate fails (some n_1..n_4 is zero)."""
    n = np.array([np.sum(counts == i) for i in range(1, 5)], dtype=float)
    if not n.all():
        return np.array([0.0, 0.75, 0.75, 0.75])
    y = n[0] / (n[0] + 2 * n[1])
    return np.array([0.0, *(i - (i + 1) * y * n[i] / n[i - 1] for i in (1, 2, 3))])


def build_table(grams: Keys, counts: NDArray[np.int64], bits: int) -> Table:
    """Discount the counts of one order; the mass taken from a context becomes its back-off weight."""
    d = discounts(counts)[np.minimum(counts, 3)]
    contexts, where = np.unique(grams >> bits, return_inverse=True)
    totals = np.bincount(where, weights=counts)
    taken = np.bincount(where, weights=np.minimum(d, counts))
    return Table(grams, np.maximum(counts - d, 0.0), contexts, totals, taken / totals)


def count(documents: list[NDArray[np.int64]], order: int, bits: int) -> tuple[Keys, NDArray[np.int64]]:
    """Distinct n-grams of one order within documents, and how often each occurs."""
    views = [np.lib.stride_tricks.sliding_window_view(doc, order) for doc in documents if len(doc) >= order]
    return np.unique(np.concatenate([pack(view, bits) for view in views]), return_counts=True)


def fit(documents: list[NDArray[np.int64]], vocab: int, order: int = 5) -> KneserNey:
    """Count and discount; every document is a row of tokens, best opened by a start token."""
    bits = max(1, (vocab - 1).bit_length())
    if bits * order > 62:
        raise ValueError(f"{order} tokens of {bits} bits do not fit in an int64; lower order or vocabulary")
    documents = [np.asarray(doc, dtype=np.int64) for doc in documents]
    grams, counts = count(documents, order, bits)
    tables = [build_table(grams, counts, bits)]
    for n in range(order - 1, 0, -1):
        suffix = grams & ((1 << bits * n) - 1)  # grams of order n + 1 without their first token
        opening = np.array([pack(doc[:n], bits) for doc in documents if len(doc) >= n])
        grams, counts = np.unique(np.concatenate([suffix, opening]), return_counts=True)
        tables.append(build_table(grams, counts, bits))
    return KneserNey(vocab, tables[::-1])


def look_up(keys: Keys, values: NDArray[np.float64], query: Keys) -> NDArray[np.float64]:
    """Values at the queried keys, zero where absent."""
    at = np.minimum(np.searchsorted(keys, query), len(keys) - 1)
    return np.where(keys[at] == query, values[at], 0.0)


def probabilities(model: KneserNey, grams: NDArray[np.int64]) -> NDArray[np.float64]:
    """(N, n) tokens -> (N,) probability of the last given those before it; n may be 1..order."""
    grams = np.asarray(grams, dtype=np.int64)
    bits = max(1, (model.vocab - 1).bit_length())
    p = np.full(len(grams), 1.0 / model.vocab)
    for n, table in enumerate(model.tables[: grams.shape[1]], start=1):
        key = pack(grams[:, grams.shape[1] - n :], bits)
        total = look_up(table.contexts, table.totals, key >> bits)
        share = look_up(table.grams, table.discounted, key) / np.maximum(total, 1e-300)
        p = np.where(total > 0, share + look_up(table.contexts, table.backoff, key >> bits) * p, p)
    return p


def log_probabilities(model: KneserNey, document: NDArray[np.int64]) -> NDArray[np.float64]:
    """(T,) tokens -> (T - 1,) natural log probability of every token but the first."""
    document = np.asarray(document, dtype=np.int64)
    order = len(model.tables)
    head = [probabilities(model, document[None, : i + 1]) for i in range(1, min(order - 1, len(document)))]
    tail = np.lib.stride_tricks.sliding_window_view(document, order) if len(document) >= order else None
    parts = head if tail is None else [*head, probabilities(model, tail)]
    return np.log(np.concatenate(parts))
