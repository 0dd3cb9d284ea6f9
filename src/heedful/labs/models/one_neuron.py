"""Polysemantic without superposition: a neuron that is on or off, and four features that exclude each other.

Each feature is as frequent and is followed by its own token; the neuron is all the read-out sees. The losses
of all 16 ways to wire it are counted: in each of its two states the best guess is even among the features
that share the state,

    cross entropy    mean of log(features in the state)        one of four: 3/4 log 3    two of four: log 2
    squared error    mean of 1 - 1/(features in the state)     one half for both

Bricken et al. 2023, whose toy says 0.82 and 0.69. A part of the lab superposition.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import product

from heedful.labs.base.registry import LabRun

PUBLISHED = {1: 0.82, 2: 0.69}  # cross entropy of a neuron for so many features, two digits


def one_neuron(run: LabRun) -> None:
    """Cross entropy prefers a neuron that fires for two features; squared error does not care."""
    wirings = list(product((0, 1), repeat=4))
    entropy = {w: loss_of(w, lambda size: math.log(size)) for w in wirings}
    squared = {w: loss_of(w, lambda size: 1 - 1 / size) for w in wirings}
    best = {k: min((w for w in wirings if sum(w) == k), key=entropy.__getitem__) for k in range(5)}
    run.say(
        "A neuron is on or off. One of four features is present, each with the same probability, and "
        "determines the next token. A neuron that is active for one feature does not distinguish the three "
        "others: its cross entropy is three quarters of log 3. A neuron that is active for two features "
        "always leaves two features possible: its cross entropy is log 2. So cross entropy prefers "
        "polysemantic neurons, even without compression. The squared error is the same for both neurons."
    )
    run.table(
        "Loss of a neuron, by the number of features for which it is active",
        ("features", "cross entropy", "published cross entropy", "squared error"),
        [(k, entropy[w], PUBLISHED.get(k), squared[w]) for k, w in best.items()],
    )
    for k, name in ((1, "one"), (2, "two")):
        run.claim(
            f"A neuron for {name} of four features has the published cross entropy, {PUBLISHED[k]}.",
            value=entropy[best[k]],
            holds=abs(entropy[best[k]] - PUBLISHED[k]) <= 0.005,
            against=PUBLISHED[k],
            control="published value",
            exact=True,
        )
    run.claim(
        "Of all possible neurons, those that are active for two of the four features have the lowest cross "
        "entropy.",
        value=min(entropy.values()),
        holds=all((loss > entropy[best[2]] + 1e-9) == (sum(w) != 2) for w, loss in entropy.items()),
        against=entropy[best[1]],
        control="cross entropy of a neuron for one feature",
        exact=True,
    )
    run.claim(
        "The squared error is the same for a neuron for one feature and for a neuron for two features "
        "(value: difference).",
        value=squared[best[2]] - squared[best[1]],
        holds=abs(squared[best[2]] - squared[best[1]]) < 1e-12,
        exact=True,
    )


def loss_of(wiring: Sequence[int], doubt: Callable[[int], float]) -> float:
    """The neuron's two states leave a group of features in doubt each; `doubt` is the loss of a group."""
    sizes = [sum(wiring), len(wiring) - sum(wiring)]
    return sum(size * doubt(size) for size in sizes if size) / len(wiring)
