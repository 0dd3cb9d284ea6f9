"""Queries, keys, values and head outputs of every attention layer, while a transformers model runs.

Attention is looked up by name in transformers, so for the length of a block a function of ours stands there.
It calls the model's own eager attention and keeps what goes in and what comes out; nothing is changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from heedful.core.input import Units
from heedful.core.model import HeadStates
from heedful.models.attention_hooks import own_eager, registered
from heedful.models.contexts import set_attention


class AttentionCall(NamedTuple):
    """One call of one layer; tensors are part of the graph."""

    query: Tensor  # (1, H, N, d)
    key: Tensor
    value: Tensor
    output: Tensor  # (1, N, H, d)


@contextmanager
def attention_calls(module: nn.Module) -> Iterator[list[AttentionCall]]:
    """The calls of every attention layer inside the block, in the order in which they run."""
    calls: list[AttentionCall] = []

    def attend(layer: nn.Module, query: Tensor, key: Tensor, value: Tensor, *args: Any, **kwargs: Any) -> Any:
        mixed, weights = own_eager(layer)(layer, query, key, value, *args, **kwargs)
        calls.append(AttentionCall(query, _repeated(key, query), _repeated(value, query), mixed))
        return mixed, weights

    with registered(attend, ()) as name, set_attention(module, name):
        yield calls


def _repeated(shared: Tensor, query: Tensor) -> Tensor:
    """One per head: several heads may share a key and a value."""
    return shared.repeat_interleave(query.shape[1] // shared.shape[1], dim=1)


def states_of(
    score: Tensor, calls: list[AttentionCall], places: Units, again: bool = False
) -> list[HeadStates]:
    """The same without batch and graph, with the gradients of a score; `again` keeps the graph."""
    outputs = [call.output for call in calls]
    grads = torch.autograd.grad(score, outputs, allow_unused=True, retain_graph=again)
    return [
        HeadStates(
            places,
            _flat(call.query.transpose(1, 2)),
            _flat(call.key.transpose(1, 2)),
            _flat(call.value.transpose(1, 2)),
            _flat(torch.zeros_like(call.output) if grad is None else grad),
        )
        for call, grad in zip(calls, grads, strict=True)
    ]


def _flat(heads: Tensor) -> Tensor:
    """(1, N, H, d) -> (N, H·d)"""
    return heads[0].detach().double().flatten(1)
