"""Stop and go on: everything a training loop needs to continue as if it had never stopped.

Saved: step, weights, optimiser states, the loop's own generator and torch's global one (dropout). A run
stopped and resumed gives the same weights as one that was not. Read with `weights_only=True`: tensors, not
code.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Generator, nn
from torch.optim import Optimizer


def save(path: Path, step: int, model: nn.Module, optimizers: list[Optimizer], generator: Generator) -> None:
    """Write to a side file first, so that a kill leaves the old checkpoint whole."""
    state = {
        "step": step,
        "model": model.state_dict(),
        "optimizers": [o.state_dict() for o in optimizers],
        "generator": generator.get_state(),
        "global": torch.get_rng_state(),
    }
    side = path.with_suffix(".tmp")
    torch.save(state, side)
    side.replace(path)


def load(path: Path, model: nn.Module, optimizers: list[Optimizer], generator: Generator) -> int:
    """Restore and return the step to go on from; 0 when there is no checkpoint."""
    if not path.exists():
        return 0
    state = torch.load(path, weights_only=True)
    model.load_state_dict(state["model"])
    for optimizer, saved in zip(optimizers, state["optimizers"], strict=True):
        optimizer.load_state_dict(saved)
    generator.set_state(state["generator"])
    torch.set_rng_state(state["global"])
    return int(state["step"])
