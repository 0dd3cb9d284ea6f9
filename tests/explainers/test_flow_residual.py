"""The capacities of attention flow hold the residual stream, in every kind of layer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from heedful.core.target import Target
from heedful.core.trace import Trace
from heedful.explainers.attention_flow import flows
from heedful.modalities.text import TextInput


def trace_of(maps: torch.Tensor, readout: list[float]) -> Trace:
    """A trace that holds one head's maps (layers, T, T) and where the answer is read."""
    size = maps.shape[-1]
    spans = tuple((2 * i, 2 * i + 1) for i in range(size))
    plain = (False,) * size
    x = TextInput(
        "a " * size, (0,) * size, ("a",) * size, spans, plain, tuple(range(size)), spans, (0,) * size
    )
    zero = torch.zeros(size, 1)
    layers = tuple(layer[None] for layer in maps)
    return Trace(x, Target("class"), 0.0, zero, zero, attentions=layers, readout=tuple(readout))


def test_a_layer_that_looks_only_away_keeps_half() -> None:
    """Two tokens that look at one another alone: (A + I) / 2 is one half everywhere, so both flows are."""
    swap = torch.tensor([[[0.0, 1.0], [1.0, 0.0]]], dtype=torch.float64)
    assert flows(trace_of(swap, [1.0, 0.0]))[0] == pytest.approx([0.5, 0.5], abs=1e-12)


def test_three_tokens_two_layers_by_hand() -> None:
    """Token i looks at i + 1 alone, all pipes hold 1/2, and the answer is read at 0: from there half goes to
    0 and half to 1. Below, 0 is reached from 0 alone, 1 from both, 2 from 1 alone: 1/2, 1 and 1/2."""
    step = torch.eye(3, dtype=torch.float64).roll(1, 1)
    found: Any = flows(trace_of(torch.stack([step, step]), [1.0, 0.0, 0.0]))[0]
    np.testing.assert_allclose(found, np.array([0.5, 1.0, 0.5]) / 2, atol=1e-12)
