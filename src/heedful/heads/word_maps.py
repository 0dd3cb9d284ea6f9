"""From tokens to words: attention *to* a split word is the sum over its tokens, *from* it the mean.

    W[I, J] = 1/|I| sum_{i in I} sum_{j in J} A[i, j]          so each row still sums to one

Special tokens stay single. Under a causal mask a word of several tokens looks at itself too: its first token
sees no later piece, its last sees all, and the row is their mean. So word i may look at words 0 to i. Under
any mask, such as a sliding window, a word may look at another if any of its tokens may look at any of that.

A word-level gradient is the derivative of the target when the weights behind W[I, J] grow in proportion, for
each unit that W[I, J] grows:  G[I, J] = sum_ij dA[i, j] A[i, j] / W[I, J],  so that G W is what the effects
dA A of the tokens add up to. (The aggregate "gradient" adds up their positive parts: taken after adding, the
parts would cancel.)

Cost: two products with a sparse 0/1 matrix. Needs nothing but the maps.

Clark, Khandelwal, Levy & Manning, What Does BERT Look At?, BlackboxNLP 2019.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from heedful.core.arrays import Floats
from heedful.heads.maps import Flags, MapAxis, Maps, Weights


def groups(side: MapAxis) -> list[list[int]]:
    """Token positions of each word, and of each special token alone, in reading order."""
    results: dict[tuple[str, int], list[int]] = {}
    for position, word in enumerate(side.words):
        results.setdefault(("word", word) if word >= 0 else ("alone", position), []).append(position)
    return list(results.values())


def word_side(side: MapAxis) -> MapAxis:
    """The same edge by words."""
    parts = groups(side)
    first = [part[0] for part in parts]
    return MapAxis(
        labels=tuple(_label(side, part) for part in parts),
        special=tuple(side.special[t] for t in first),
        words=tuple(side.words[t] for t in first),
        segments=tuple(side.segments[t] for t in first),
        texts=side.texts,
    )


def _label(side: MapAxis, part: list[int]) -> str:
    word = side.words[part[0]]
    if 0 <= word < len(side.texts):
        return side.texts[word]
    return "".join([side.labels[part[0]], *(side.labels[t].removeprefix("##") for t in part[1:])])


def merged(matrix: Floats, queries: MapAxis, keys: MapAxis) -> Floats:
    """(..., Q, K) tokens -> (..., words, words): sum to, mean from."""
    sizes = np.array([len(part) for part in groups(queries)], dtype=np.float64)
    return np.asarray(summed(matrix, queries, keys) / sizes[:, None])


def summed(matrix: Floats, queries: MapAxis, keys: MapAxis) -> Floats:
    """(..., Q, K) tokens -> (..., words, words): sum to and from, for what adds up, such as effects."""
    rows, columns = groups(queries), summed_columns(matrix, keys)
    return np.asarray(np.add.reduceat(columns[..., _order(rows), :], _starts(rows), axis=-2))


def summed_columns(matrix: Floats, keys: MapAxis) -> Floats:
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
        pairs = zip(maps.weights, maps.grads, strict=True)
        effect = np.stack([summed((a * g).astype(np.float64), maps.queries, maps.keys) for a, g in pairs])
        grads = np.divide(effect, weights, out=np.zeros_like(effect), where=weights > 0)
    return replace(
        maps,
        weights=weights.astype(np.float32),
        grads=None if grads is None else grads.astype(np.float32),
        queries=word_side(maps.queries),
        keys=word_side(maps.keys),
        allowed=None if maps.allowed is None else _any_pair(maps, maps.allowed),
    )


def _any_pair(maps: Maps, allowed: Flags) -> Flags:
    """(L, words, words): whether any token of one may look at any of the other."""
    return np.asarray(summed(allowed.astype(np.float64), maps.queries, maps.keys) > 0)


def summed_shares(shares: tuple[float, ...], side: MapAxis) -> tuple[float, ...]:
    """(Q,) by words: shares of a whole add up."""
    return tuple(sum(shares[t] for t in part) for part in groups(side)) if shares else ()


def special_mass(maps: Maps) -> Floats:
    """(L, H): mean over the queries that are words of what they spend on special keys."""
    rows = asked(maps.queries)
    mass = maps.weights[..., list(maps.keys.special)].sum(-1, dtype=np.float64)  # (L, H, Q)
    return np.asarray(mass[..., rows].mean(-1))


def asked(side: MapAxis) -> list[int]:
    """The queries that tell what a head does with words: all that are not special, or all if none is."""
    return [q for q, special in enumerate(side.special) if not special] or list(range(len(side)))


def reachable(maps: Maps) -> Flags:
    """(L, Q, K): which keys a query may look at, in each layer; not to be written to."""
    if maps.allowed is not None:
        return maps.allowed
    every = np.ones((len(maps.queries), len(maps.keys)), dtype=bool)
    return np.broadcast_to(np.tril(every) if maps.causal else every, (maps.layers, *every.shape))


def uniform(maps: Maps) -> Maps:
    """The same stack with every head looking everywhere alike, as far as it may; a map a layer."""
    allowed = reachable(maps) if maps.allowed is not None else reachable(maps)[:1]  # (L or 1, Q, K)
    rows = (allowed / allowed.sum(-1, keepdims=True).clip(1)).astype(np.float32)
    return replace(maps, weights=np.broadcast_to(rows[:, None], maps.weights.shape))


def _layer_by_layer(maps: Maps, values: Weights) -> Floats:
    """float64 inside, a layer at a time: rows then sum to one as well as they did."""
    return np.stack([merged(layer.astype(np.float64), maps.queries, maps.keys) for layer in values])
