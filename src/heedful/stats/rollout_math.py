"""Layers of attention as row-stochastic matrices: their product (rollout) and the most that flows through.

    Ahat = row-normalise(A + I)              the residual stream counts as much as the heads together
    product     Ahat^N ... Ahat^1            what each position is made of
    flow        layered graph, edge (l, i) -> (l - 1, j) of capacity Ahat^l_ij; maximum flow to each input

Solver: Dinic's algorithm on capacities floor(2^30 c), then the value of the smallest cut it finds, in
float64. The cut bounds the true flow from above and the integer flow from below, at worst 2^-30 for each edge
of the cut apart; nearly always that cut is also the smallest of the real graph, and the value exact.

Numpy and scipy alone: what explains a trace and what looks at an atlas share it.

Abnar & Zuidema, Quantifying Attention Flow in Transformers, ACL 2020.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, maximum_flow

from heedful.core.arrays import Floats

SCALE = 2**30  # the largest power of two for which a capacity of one fits scipy's 32-bit integers


def with_residual(mean: Floats) -> Floats:
    """(Q, T) heads averaged -> (Q, T): residual added where there is one, rows normalised.

    A layer with fewer queries than tokens (a pooling query) has no residual stream to add.
    """
    if mean.shape[0] == mean.shape[1]:
        mean = mean + np.eye(len(mean))
    return np.asarray(mean / mean.sum(-1, keepdims=True))


@dataclass(frozen=True)
class Network:
    """The layered graph. Node 0 is the source; the nodes of the inputs come last."""

    tails: npt.NDArray[np.int64]  # (E,) edge by edge: from
    heads: npt.NDArray[np.int64]  # (E,) to
    capacities: Floats  # (E,)
    graph: Any  # the same as a sparse matrix of scaled integers
    inputs: npt.NDArray[np.int64]  # (T,) node of each input


def network(layers: Sequence[Any]) -> Network:
    """From matrices bottom up, the last one a single row: the source and its read-out positions."""
    tails, heads, capacities = [], [], []
    first = 0  # node of the first row of the current matrix
    for layer in reversed(layers):
        matrix = np.asarray(layer, dtype=np.float64)
        rows, columns = np.nonzero(matrix)
        tails.append(first + rows)
        heads.append(first + len(matrix) + columns)
        capacities.append(matrix[rows, columns])
        first += len(matrix)
    inputs = first + np.arange(layers[0].shape[1])
    size = first + len(inputs)
    tail, head, capacity = np.concatenate(tails), np.concatenate(heads), np.concatenate(capacities)
    whole = np.floor(capacity * SCALE).astype(np.int32)
    graph = csr_array((whole, (tail.astype(np.int32), head.astype(np.int32))), shape=(size, size))
    return Network(tail, head, capacity, graph, inputs)


def max_flow(net: Network, sink: int) -> tuple[float, float]:
    """(maximum flow from the source to a node, how far the true value may lie below it)."""
    solved = maximum_flow(net.graph, 0, sink, method="dinic")
    residual = csr_array(net.graph - solved.flow)
    residual.eliminate_zeros()
    reached = np.zeros(residual.shape[0], dtype=bool)
    reached[breadth_first_order(residual, 0, return_predecessors=False)] = True
    cut = float(net.capacities[reached[net.tails] & ~reached[net.heads]].sum())
    return cut, cut - solved.flow_value / SCALE


def max_flows(layers: Sequence[Any], inputs: Iterable[int]) -> Floats:
    """(n,) undivided maximum flow from the read-out to each of these inputs."""
    net = network(layers)
    values = [max_flow(net, int(net.inputs[j])) for j in inputs]
    worst = max((gap for _, gap in values), default=0.0)
    assert worst <= len(net.capacities) / SCALE, "the integer flow and its cut differ by more than rounding"
    return np.array([value for value, _ in values], dtype=np.float64)
