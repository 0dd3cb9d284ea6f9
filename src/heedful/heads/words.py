"""From tokens to words: attention *to* a split word is the sum over its tokens, *from* it the mean.

    W[I, J] = 1/|I| sum_{i in I} sum_{j in J} A[i, j]          so each row still sums to one

Special tokens stay single. Under a causal mask a word of several tokens looks at itself too: its first token
sees no later piece, its last sees all, and the row is their mean. So word i may look at words 0 to i.

A word-level gradient is the derivative of the target when the weights behind W[I, J] grow in proportion, for
each unit that W[I, J] grows:  G[I, J] = sum_ij dA[i, j] A[i, j] / W[I, J],  so that G W is what the weights
add up to.

Cost: two products with a sparse 0/1 matrix. Needs nothing but the maps.

Clark, Khandelwal, Levy & Manning, What Does BERT Look At?, BlackboxNLP 2019.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from heedful.heads.maps import Maps, Side, Weights
from heedful.types import Floats


def groups(side: Side) -> list[list[int]]:
    """Token positions of each word, and of each special token alone, in reading order."""
    found: dict[tuple[str, int], list[int]] = {}
    for position, word in enumerate(side.words):
        found.setdefault(("word", word) if word >= 0 else ("alone", position), []).append(position)
    return list(found.values())


def word_side(side: Side) -> Side:
    """The same edge by words."""
    parts = groups(side)
    first = [part[0] for part in parts]
    return Side(
        labels=tuple(_label(side, part) for part in parts),
        special=tuple(side.special[t] for t in first),
        words=tuple(side.words[t] for t in first),
        segments=tuple(side.segments[t] for t in first),
        texts=side.texts,
    )


def _label(side: Side, part: list[int]) -> str:
    word = side.words[part[0]]
    if 0 <= word < len(side.texts):
        return side.texts[word]
    return "".join([side.labels[part[0]], *(side.labels[t].removeprefix("##") for t in part[1:])])


def merged(matrix: Floats, queries: Side, keys: Side) -> Floats:
    """(..., Q, K) tokens -> (..., words, words): sum to, mean from."""
    rows, summed = groups(queries), summed_columns(matrix, keys)
    total = np.add.reduceat(summed[..., _order(rows), :], _starts(rows), axis=-2)
    sizes = np.array([len(part) for part in rows], dtype=np.float64)
    return np.asarray(total / sizes[:, None])


def summed_columns(matrix: Floats, keys: Side) -> Floats:
    """(..., K) -> (..., words): what goes to a word's tokens, together."""
    columns = groups(keys)
    return np.asarray(np.add.reduceat(matrix[..., _order(columns)], _starts(columns), axis=-1))


def _order(parts: list[list[int]]) -> list[int]:
    return [position for part in parts for position in part]


def _starts(parts: list[list[int]]) -> list[int]:
    return [0, *np.cumsum([len(part) for part in parts])[:-1].tolist()]


def merged_maps(maps: Maps) -> Maps:
    """A stack at word level."""
    weights = _layer_by_layer(maps, maps.weights)
    grads = None
    if maps.grads is not None:
        sizes = np.array([len(part) for part in groups(maps.queries)], dtype=np.float64)
        effect = _layer_by_layer(maps, maps.weights * maps.grads) * sizes[:, None]  # sums, not means
        grads = np.divide(effect, weights, out=np.zeros_like(effect), where=weights > 0)
    return replace(
        maps,
        weights=weights.astype(np.float32),
        grads=None if grads is None else grads.astype(np.float32),
        queries=word_side(maps.queries),
        keys=word_side(maps.keys),
    )


def summed_shares(shares: tuple[float, ...], side: Side) -> tuple[float, ...]:
    """(Q,) by words: shares of a whole add up."""
    return tuple(sum(shares[t] for t in part) for part in groups(side)) if shares else ()


def special_mass(maps: Maps) -> Floats:
    """(L, H): mean over the queries that are words of what they spend on special keys."""
    rows = asked(maps.queries)
    mass = maps.weights[..., list(maps.keys.special)].sum(-1, dtype=np.float64)  # (L, H, Q)
    return np.asarray(mass[..., rows].mean(-1))


def asked(side: Side) -> list[int]:
    """The queries that tell what a head does with words: all that are not special, or all if none is."""
    return [q for q, special in enumerate(side.special) if not special] or list(range(len(side)))


def reachable(maps: Maps) -> npt.NDArray[np.bool_]:
    """(Q, K): which keys a query may look at."""
    every = np.ones((len(maps.queries), len(maps.keys)), dtype=bool)
    return np.tril(every) if maps.causal else every


def uniform(maps: Maps) -> Maps:
    """The same stack with every head looking everywhere alike, as far as it may; one row for all heads."""
    allowed = reachable(maps)
    row = (allowed / allowed.sum(-1, keepdims=True)).astype(np.float32)
    return replace(maps, weights=np.broadcast_to(row, maps.weights.shape))


def _layer_by_layer(maps: Maps, values: Weights) -> Floats:
    """float64 inside, a layer at a time: rows then sum to one as well as they did."""
    return np.stack([merged(layer.astype(np.float64), maps.queries, maps.keys) for layer in values])
