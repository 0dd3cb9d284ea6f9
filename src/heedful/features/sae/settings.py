"""How a dictionary is trained: one frozen record, the same for every architecture.

Inputs are scaled so that E||x||² = d before anything else, hence one set of defaults fits every model.
The learning rate is 2e-4 / sqrt(width / 2^14) for every kind (Gao et al. 2024): the published 5e-5 (relu) and
7e-5 (jumprelu) belong to runs of a million steps; give `lr` for those. Below 4,096 latents it is
4e-4 · 4096 / width, at most 5e-3: small dictionaries have short runs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Any

from heedful.core.errors import HeedfulError
from heedful.core.whole_numbers import check_seed
from heedful.io.json_codec import to_jsonable

KINDS = ("relu", "relu-tied", "topk", "batchtopk", "jumprelu", "matryoshka")
BY_KIND: dict[str, dict[str, Any]] = {
    "relu": {"sparsity": 5.0},
    "relu-tied": {"sparsity": 5.0},
    "jumprelu": {"sparsity": 1e-3, "betas": (0.0, 0.999)},
}


@dataclass(frozen=True)
class TrainSettings:
    """Everything that decides a run, apart from the activations."""

    kind: str
    d: int
    width: int
    steps: int
    batch: int = 4096
    seed: int = 0
    lr: float = 0.0  # 0: by the rule above
    betas: tuple[float, float] = (0.9, 0.999)
    clip: float = 1.0  # largest norm of the whole gradient
    rise: float = 0.0  # share of the steps over which the learning rate rises
    decay: float = 0.2  # share of the steps, at the end, over which it falls to zero
    sparsity: float = 0.0  # lambda, of relu, relu-tied and jumprelu
    sparsity_rise: float = 0.05  # share of the steps over which lambda rises
    k: int = 32  # active latents a row: topk, batchtopk, matryoshka
    aux: float = 1 / 32  # weight of what dead latents can rebuild of the error
    k_aux: int = 0  # dead latents a row that may try; 0: d / 2
    dead_rows: int = 10_000_000  # a latent silent for so many rows is dead
    threshold_decay: float = 0.999  # of the running mean of the smallest kept activation
    threshold_from: float = 0.5  # share of the steps before it starts
    bandwidth: float = 1e-3  # of jumprelu's kernel, for inputs of unit mean square norm
    prefixes: tuple[int, ...] = ()  # of matryoshka; (): width / 16, / 8, / 4, / 2 and all
    resample: tuple[float, ...] = (0.125, 0.25, 0.375, 0.5)  # of relu-tied: when, as shares of the steps
    resample_rows: int = 819_200  # inputs among which it draws, at most 100 batches

    @property
    def unit(self) -> bool:
        """Whether decoder rows are kept at length one."""
        return self.kind != "relu"

    def to_dict(self) -> dict[str, Any]:
        return dict(to_jsonable(self))


def resolve_settings(kind: str, d: int, width: int, steps: int, **wanted: Any) -> TrainSettings:
    """Defaults of the kind, then what the user wants; mistakes are told here, before any work."""
    if kind not in KINDS:
        raise HeedfulError(f"no kind of SAE is called {kind!r}", fix=f"Choose: {', '.join(KINDS)}")
    known = {f.name for f in fields(TrainSettings)}
    if unknown := sorted(set(wanted) - known):
        raise HeedfulError(f"unknown setting {unknown[0]!r}", fix=f"There are: {', '.join(sorted(known))}")
    chosen = BY_KIND.get(kind, {}) | {name: v for name, v in wanted.items() if v is not None}
    listed: dict[str, Any] = {n: tuple(v) if isinstance(v, list) else v for n, v in chosen.items()}
    made = TrainSettings(kind, d, width, steps, **listed)
    made = replace(
        made,
        lr=made.lr or default_lr(width),
        k_aux=min(made.k_aux or max(1, d // 2), width),
        prefixes=made.prefixes or _prefixes(width) if kind == "matryoshka" else (),
    )
    _check(made)
    return made


def default_lr(width: int) -> float:
    if width >= 2**12:
        return 2e-4 / math.sqrt(width / 2**14)
    return min(5e-3, 4e-4 * 2**12 / max(1, width))


def _prefixes(width: int) -> tuple[int, ...]:
    return tuple(sorted({max(1, width // part) for part in (16, 8, 4, 2, 1)}))


def _check(s: TrainSettings) -> None:
    check_seed(s.seed)
    for name in ("d", "width", "steps", "batch", "k"):
        if getattr(s, name) < 1:
            raise HeedfulError(
                f"{name} is {getattr(s, name)}", "it must be at least 1", f"Give {name}=1 or more"
            )
    if s.kind in ("topk", "batchtopk", "matryoshka") and s.k > s.width:
        raise HeedfulError(
            f"k is {s.k} of {s.width} latents", "k cannot exceed the width", "Give a smaller k"
        )
    if s.prefixes and (list(s.prefixes) != sorted(set(s.prefixes)) or s.prefixes[-1] != s.width):
        raise HeedfulError(
            "the prefixes do not grow up to the width", str(list(s.prefixes)), f"End with {s.width}"
        )
    if not s.lr > 0 or s.sparsity < 0:
        raise HeedfulError("lr must be positive and the sparsity weight not negative")


def lr_at(s: TrainSettings, step: int) -> float:
    """The learning rate of a step (from 0): a linear rise, then flat, then a linear fall to zero."""
    rise = min(1.0, (step + 1) / (s.rise * s.steps)) if s.rise * s.steps >= 1 else 1.0
    tail = s.decay * s.steps
    fall = min(1.0, (s.steps - step) / tail) if tail >= 1 else 1.0
    return s.lr * rise * fall


def sparsity_at(s: TrainSettings, step: int) -> float:
    """Lambda of a step: a linear rise from zero over the first `sparsity_rise` of the steps."""
    rise = s.sparsity_rise * s.steps
    return s.sparsity * (min(1.0, step / rise) if rise >= 1 else 1.0)
