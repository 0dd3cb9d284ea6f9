"""One matrix for many heads and layers.

    mean       1/(L H) sum_lh A[l, h]                         rows sum to one
    max        max_lh A[l, h]                                 rows do not
    layer      1/H sum_h A[layer, h]                          rows sum to one
    rollout    Ahat^L ... Ahat^1, Ahat^l = row-normalise(1/H sum_h A[l, h] + I)           rows sum to one
    flow       maximum flow from each query down to each key, Ahat as capacities, divided by its sum over keys
    gradient   1/(L H) sum_lh (dA[l, h] * A[l, h])^+          dA: of the target; rows do not sum to one

Between words, "gradient" is summed over the tokens of both, after the positive part was taken: its total is
that of the tokens.

`layer` keeps mean, max and gradient to one layer; rollout and flow then end there, below the layers above it.
Rollout and flow carry tokens through layers, so they need a stack whose queries are its keys (or a single
layer): cross-attention has no second layer of its own to be multiplied with.

Cost: flow solves Q K maximum flows: 12 layers of 64 tokens take about 15 s, so more than MAX_FLOW_TOKENS
are refused unless one is named. The others are products of matrices. Needs: gradients for "gradient".

Abnar & Zuidema 2020 (rollout, flow); Chefer, Gur & Wolf 2021 (positive part of gradient times attention).
"""

from __future__ import annotations

from functools import reduce

import numpy as np

from heedful.core.arrays import Floats
from heedful.core.errors import HeedfulError
from heedful.heads.maps import Maps
from heedful.stats.rollout_math import max_flows, with_residual

HOWS = ("mean", "max", "layer", "rollout", "flow", "gradient")
MAX_FLOW_TOKENS = 64  # tokens, for the flow of all queries
MAX_ONE_FLOW_TOKENS = 128  # tokens, for the flow of one


def aggregate(maps: Maps, how: str = "mean", layer: int | None = None, query: int | None = None) -> Floats:
    """(Q, K), or (1, K) of one query; see above."""
    if how not in HOWS:
        raise HeedfulError(f"unknown aggregation {how!r}", fix=f"Use one of: {', '.join(HOWS)}")
    if how == "layer" and layer is None:
        raise HeedfulError("which layer is to be shown?", fix=f"Give layer=0 to {maps.layers - 1}")
    chosen = _layers(maps, layer)
    row = None if query is None else checked_query(query, len(maps.queries))
    if how in ("rollout", "flow"):
        steps = _steps(maps, how, layer)
        return _flow(steps, row) if how == "flow" else _rows(_product(steps), row)
    if how == "gradient":
        return _rows(_felt(maps, chosen), row)
    if how == "max":
        return _rows(maps.weights[chosen].max((0, 1)).astype(np.float64), row)
    return _rows(maps.weights[chosen].mean((0, 1), dtype=np.float64), row)


def checked_query(query: int, count: int) -> int:
    if not -count <= query < count:
        raise HeedfulError(f"there is no query {query}", f"there are {count}, counted from 0")
    return query % count


def _layers(maps: Maps, layer: int | None) -> slice:
    if layer is None:
        return slice(None)
    if not -maps.layers <= layer < maps.layers:
        raise HeedfulError(f"there is no layer {layer}", f"the model has {maps.layers}, counted from 0")
    return slice(layer % maps.layers, layer % maps.layers + 1)


def _rows(matrix: Floats, row: int | None) -> Floats:
    return matrix if row is None else matrix[[row]]


def _steps(maps: Maps, how: str, layer: int | None) -> list[Floats]:
    """The layers up to this one as row-stochastic matrices, bottom up."""
    if maps.stack == "cross" or (maps.layers > 1 and len(maps.queries) != len(maps.keys)):
        raise HeedfulError(
            f"{how} does not suit the stack {maps.stack!r}",
            "it carries tokens from layer to layer, and these layers do not follow on one another",
            "Use mean, max, layer or gradient; heedful explain --method attention-rollout joins all stacks",
        )
    top = maps.layers if layer is None else layer % maps.layers + 1
    return [with_residual(maps.weights[level].mean(0, dtype=np.float64)) for level in range(top)]


def _product(steps: list[Floats]) -> Floats:
    return reduce(lambda above, below: above @ below, reversed(steps))


def _flow(steps: list[Floats], row: int | None) -> Floats:
    queries, keys = len(steps[-1]), steps[0].shape[1]
    limit = MAX_FLOW_TOKENS if row is None and queries > 1 else MAX_ONE_FLOW_TOKENS
    if keys > limit:
        raise HeedfulError(
            f"flow solves a maximum flow for each pair, and there are {keys:,} tokens",
            f"the limit is {MAX_FLOW_TOKENS} for all queries and {MAX_ONE_FLOW_TOKENS} for one",
            "Name a query (query=...), give a shorter text, or use rollout",
        )
    results = []
    for q in range(queries) if row is None else [row]:
        source = np.eye(queries)[[q]]
        flows = max_flows([*steps, source], range(keys))
        results.append(flows / flows.sum())
    return np.stack(results)


def _felt(maps: Maps, chosen: slice) -> Floats:
    """(Q, K): mean over heads and layers of the positive part of gradient times attention."""
    if maps.grads is None:
        raise HeedfulError(
            "this atlas has no gradients",
            "the model makes no prediction, or gradients=False",
            "Use heedful.attention(..., gradients=True) on a model that predicts something",
        )
    pairs = zip(maps.weights[chosen], maps.grads[chosen], strict=True)
    each = [(a * g).clip(0).mean(0, dtype=np.float64) for a, g in pairs]  # a layer at a time, for memory
    return np.asarray(np.mean(each, axis=0))
