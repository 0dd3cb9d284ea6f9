"""Checkpoints of a training run: from one, it goes on as if it had never stopped, bit for bit.

    checkpoint/state-7.safetensors weights, Adam's two moments of each, silence of latents, threshold
    checkpoint/state.json          step, settings, scale, SHA-256 of the tensors

Everything that is drawn is a function of seed and step, so no generator's state is kept. No pickle.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from heedful.core.errors import HeedfulError
from heedful.features.sae.base import Params, TrainingState
from heedful.features.sae.settings import TrainSettings
from heedful.io.files import PART, write_file
from heedful.io.json_codec import from_jsonable, json_bytes, json_object
from heedful.io.run_folder import MOST_BYTES, read_inside, refusing_damage

# earlier checkpoints, and what a run that was killed was writing
OWN = re.compile(r"state-\d+\.safetensors|\.state(-\d+\.safetensors|\.json)\.part")


@dataclass(frozen=True, eq=False)
class Saved:
    """Where a run stood."""

    step: int
    scale: float
    params: Params
    moments: dict[str, tuple[Tensor, Tensor]]
    memory: TrainingState
    history: list[dict[str, float | int]]


def moments_of(optimizer: torch.optim.Adam, params: Params) -> dict[str, tuple[Tensor, Tensor]]:
    """Adam's running mean and mean square of each weight; {} before its first step."""
    state = optimizer.state
    return {name: (state[p]["exp_avg"], state[p]["exp_avg_sq"]) for name, p in params.items() if p in state}


def give_moments(optimizer: torch.optim.Adam, params: Params, saved: Saved) -> None:
    """As if the optimizer itself had taken the steps."""
    for name, (mean, square) in saved.moments.items():
        step = torch.tensor(float(saved.step))
        optimizer.state[params[name]] = {"step": step, "exp_avg": mean, "exp_avg_sq": square}


def write(folder: Path, saved: Saved, settings: TrainSettings) -> None:
    """The tensors first, then what vouches for them: a run killed in between keeps its last checkpoint."""
    from safetensors.torch import save

    tensors = {f"weight.{name}": value.detach() for name, value in saved.params.items()}
    for name, (mean, square) in saved.moments.items():
        tensors |= {f"mean.{name}": mean, f"square.{name}": square}
    tensors |= {"silent": saved.memory.silent, "threshold": saved.memory.threshold}
    content = save({name: t.contiguous() for name, t in tensors.items()})
    name = f"state-{saved.step}.safetensors"
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():  # what a run that was killed left half written
        if OWN.fullmatch(old.name) and old.name.endswith(PART):
            old.unlink()
    write_file(folder / name, content)
    facts = {
        "step": saved.step,
        "scale": saved.scale,
        "tensors": name,
        "weights": list(saved.params),  # their order: the gradient's norm is summed in it
        "sha256": hashlib.sha256(content).hexdigest(),
        "settings": settings.to_dict(),
        "history": saved.history,
    }
    write_file(folder / "state.json", json_bytes(facts))
    for old in folder.iterdir():  # nothing but this function's own files
        if OWN.fullmatch(old.name) and old.name != name:
            old.unlink()


def read(folder: Path, settings: TrainSettings) -> Saved | None:
    """The run's last checkpoint; None where there is none. Other settings are refused."""
    if not (folder / "state.json").is_file():
        return None
    with refusing_damage(folder):
        return _read(folder, settings)


def _read(folder: Path, settings: TrainSettings) -> Saved:
    from safetensors.torch import load

    facts = json_object(read_inside(folder, "state.json", MOST_BYTES))
    if differing := _differing(facts["settings"], settings.to_dict()):
        what = f"the run in {folder.parent} was begun with {differing}"
        raise HeedfulError(
            what, "a resumed run must be the same run", "Use those settings, or another folder"
        )
    if not OWN.fullmatch(facts["tensors"]):
        raise ValueError("its tensors are not in it")
    content = read_inside(folder, facts["tensors"], None)
    if hashlib.sha256(content).hexdigest() != facts["sha256"]:
        raise HeedfulError(f"{folder} is damaged", "its checksum differs", "Remove it and train again")
    # copies, because torch's own memory is aligned: the last bit of a product can depend on that
    tensors = {name: value.clone() for name, value in load(content).items()}
    weights = facts["weights"]
    return Saved(
        step=facts["step"],
        scale=facts["scale"],
        params={name: tensors[f"weight.{name}"] for name in weights},
        moments={
            name: (tensors[f"mean.{name}"], tensors[f"square.{name}"])
            for name in weights
            if f"mean.{name}" in tensors
        },
        memory=TrainingState(tensors["silent"], tensors["threshold"]),
        history=from_jsonable(list[dict[str, int | float]], facts["history"]),
    )


def _differing(before: dict[str, Any], now: dict[str, Any]) -> str:
    names = [name for name in now if before.get(name) != now[name]]
    return ", ".join(f"{name}={before.get(name)}" for name in names)
