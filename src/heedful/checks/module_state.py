"""Everything about a module, and about the process, that a user could notice to have changed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn


def noticed(module: nn.Module | None) -> dict[str, Any]:
    """What is looked at -> its state; a function model has no module, and shows the process alone."""
    return _process() | ({} if module is None else _module(module))


def _process() -> dict[str, Any]:
    """Not the state of `random`: run-time type checkers draw from it to pick what they look at."""
    return {
        "global random state": [torch.get_rng_state(), repr(np.random.get_state())],  # noqa: NPY002
        "gradient mode": [torch.is_grad_enabled(), torch.is_inference_mode_enabled()],
    }


def _module(module: nn.Module) -> dict[str, Any]:
    tensors = [*module.named_parameters(), *module.named_buffers()]
    parameters, modules = list(module.parameters()), list(module.modules())
    return {
        "weights": [[name, id(tensor), tensor.detach().clone()] for name, tensor in tensors],
        "gradients": [None if p.grad is None else [id(p.grad), p.grad.clone()] for p in parameters],
        "requires_grad": [p.requires_grad for p in parameters],
        "modes": [part.training for part in modules],
        "hooks": [_hooks(part) for part in modules],
        "attributes": [[id(part), *sorted(vars(part))] for part in modules],
        "configuration": [_config(part) for part in modules],
    }


def _hooks(part: nn.Module) -> dict[str, list[Any]]:
    return {
        name: list(table.items())
        for name, table in vars(part).items()
        if "hooks" in name and isinstance(table, dict)
    }


def _config(part: nn.Module) -> list[Any]:
    """A transformers config as data, with the attention in use, which its data leaves out."""
    config: Any = getattr(part, "config", None)
    result = config.to_dict() if hasattr(config, "to_dict") else repr(config)
    return [result, getattr(config, "_attn_implementation", None)]


def changes(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """What is not as it was."""
    return [name for name in before if not _same(before[name], after[name])]


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, Tensor):
        return isinstance(b, Tensor) and torch.equal(a, b)
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(_same, a, b))
    return bool(a == b)


@contextmanager
def global_seed(seed: int) -> Iterator[None]:
    """Every global generator seeded inside, put back outside."""
    before = np.random.get_state(), random.getstate()  # noqa: NPY002
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        np.random.seed(seed)  # noqa: NPY002
        random.seed(seed)
        try:
            yield
        finally:
            np.random.set_state(before[0])  # noqa: NPY002
            random.setstate(before[1])
