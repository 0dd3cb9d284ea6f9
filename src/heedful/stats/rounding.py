"""Which differences of outputs are rounding alone, and values in which those are gone.

    step = k |largest output| 2^-bits    equal outputs may differ by k steps; bits of the model's numbers

Ranks and searches would otherwise turn one rounding step into a win. Nothing is run.
"""

from __future__ import annotations

import math

import numpy as np

from heedful.core.arrays import Floats
from heedful.core.model import Model

VALUE_STEP = 1e-9  # of the range of a text's values: smaller differences are none
ROUNDING = 32  # rounding steps by which equal outputs may differ, as batches of other shapes give them
HALF_ROUNDING = 4  # the same of half precision, whose steps are large
SINGLE_BITS, DOUBLE_BITS = 24, 53


def output_step(outputs: Floats, bits: int | None = None) -> float:
    """Differences of outputs that may be rounding alone.

    bits   of the model's numbers, where they are known. Else: a model of which most outputs fit into single
           precision computes in it
    """
    largest = float(np.abs(outputs).max(initial=0.0))
    if bits is None:
        with np.errstate(over="ignore"):
            single = np.mean(outputs.astype(np.float32) == outputs) >= 0.5 if outputs.size else False
        bits = SINGLE_BITS if single else DOUBLE_BITS
    steps = HALF_ROUNDING if bits < SINGLE_BITS else ROUNDING
    return steps * largest * 2.0**-bits


def rounding_step(model: Model, outputs: Floats) -> float:
    """`output_step` of a model's own numbers; of a function their precision is not known."""
    weights = None if model.module is None else next(model.module.parameters(), None)
    if weights is None or not weights.is_floating_point():
        return output_step(outputs)
    import torch

    return output_step(outputs, 1 - round(math.log2(torch.finfo(weights.dtype).eps)))


def merged(values: Floats, step: float) -> Floats:
    """Values (k,) in which neighbours no further apart than `step` are made equal."""
    if len(values) < 2 or not np.isfinite(values).all():
        return values  # what is no number is refused later, and must not become one here
    order = np.argsort(values, kind="stable")
    ranked = values[order]
    step = max(step, VALUE_STEP * float(ranked[-1] - ranked[0]))
    first = np.concatenate([[True], np.diff(ranked) > step])  # where a new group begins
    result = np.empty_like(values)
    result[order] = ranked[np.flatnonzero(first)][np.cumsum(first) - 1]
    return result
