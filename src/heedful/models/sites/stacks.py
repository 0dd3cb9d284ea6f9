"""Stacks of blocks: ModuleLists whose members hand hidden states (B, T, d) to one another.

No list of architectures: one pass over a few tokens shows which members of which list do so. Layers that
share a module (ALBERT) are calls of one member, in their order. A list inside of a stack is part of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn


def first(value: Any) -> Any:
    """Hidden states come alone or as the first of a tuple."""
    return value[0] if isinstance(value, tuple | list) and value else value


def taken_by(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Any, Tensor | None]:
    """(place, tensor) of the first floating tensor a module is called with; place is an index or a name."""
    places: list[tuple[Any, Any]] = [*enumerate(args), *kwargs.items()]
    results = ((at, v) for at, v in places if isinstance(v, Tensor) and v.is_floating_point())
    return next(results, (None, None))


def find_stacks(module: nn.Module, run: Callable[[], object]) -> list[list[nn.Module]]:
    """Blocks of each stack in the order of their calls (a shared block several times), first run first."""
    lists = {name: part for name, part in module.named_modules() if isinstance(part, nn.ModuleList)}
    calls: list[tuple[nn.Module, Tensor | None, Any]] = []

    def remember(block: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        calls.append((block, taken_by(args, kwargs)[1], first(output)))

    members = {id(block): block for part in lists.values() for block in part}
    with ExitStack() as hooks, torch.no_grad():
        for block in members.values():
            hooks.callback(block.register_forward_hook(remember, with_kwargs=True).remove)
        run()
    results: dict[str, tuple[int, list[nn.Module]]] = {}
    for name, part in lists.items():  # the outer ones come first
        if any(name.startswith(outer + ".") for outer in results):
            continue
        inside = {id(block) for block in part}
        own = [(at, call) for at, call in enumerate(calls) if id(call[0]) in inside]
        if own and _chained([call for _, call in own]):
            results[name] = (own[0][0], [call[0] for _, call in own])
    return [blocks for _, blocks in sorted(results.values(), key=lambda pair: pair[0])]


def _chained(calls: list[tuple[nn.Module, Tensor | None, Any]]) -> bool:
    """Hidden states in and out, and what one gives the next takes."""
    for _, taken, given in calls:
        if taken is None or not isinstance(given, Tensor) or given.ndim != 3 or taken.shape != given.shape:
            return False
        if len(given) != 1:  # one text is read: (T, B, d) is another layout
            return False
    return all(torch.equal(given, taken) for (_, _, given), (_, taken, _) in pairwise(calls))  # type: ignore[arg-type]
