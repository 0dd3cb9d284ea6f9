"""How wide and how sparse a dictionary should be, where the user does not say: measured on the activations.

    width    8 d, but at most one latent per 16 rows, and at least d
    k        for k = 1, 2, 4, ... d / 4 two small topk dictionaries are trained, on two seeds. Latents with a
             twin in the other dictionary (cosine >= 0.9) are reproducible.
                 R(k) = 1 - E||x - x̂||² / E||x - E x||²,   x̂ by reproducible latents alone, on held-out rows
             The k with the largest R: too small a k explains little, at too large a k seeds disagree.
             R < 1/2 for every k: the activations have no such sparsity, and k = d / 8, at most 32.
             topk needs room for rows with many features. batchtopk and matryoshka give a row as many
             as it needs, and room fills with copies: for them k is the mean over rows of (sum z)² / sum z²,
             the number of equally strong reproducible latents, at the k with the largest R.
    lambda   relu, relu-tied: 0.6 sqrt(d / k);   jumprelu: 0.09 / k
             With E||x||² = d and k active features one is typically sqrt(d / k) long. The L1 penalty makes it
             shorter by lambda / 2, the L0 penalty removes it below sqrt(lambda d): both are 0.3 of that.

No labels are used, and no scale: s x gives the same choice. Cost: 300 steps of 512 rows per dictionary, of
width 8 d, or of max(512, 2 d) latents if that is less. It stops when R falls, and when R(k) < k / d for two k
in a row after k = 1: k coordinates of white noise explain k / d, and where d / 4 features are active, the
most that is looked for, k of them explain about 4 k / d. No pilot below 4,096 rows, above 1,024 dimensions,
or for a run of fewer steps than one of its dictionaries takes: k follows the dimension there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from heedful.core.errors import HeedfulError
from heedful.core.numbers import percent
from heedful.features.activations.stream import ActivationStream, InMemoryRows
from heedful.features.sae.autoencoder import SAE
from heedful.features.sae.settings import TrainSettings, resolve_settings
from heedful.io.files import write_inside
from heedful.io.json_codec import from_jsonable, json_bytes, json_object, to_jsonable
from heedful.io.run_folder import MOST_BYTES, read_inside

BY_K = ("topk", "batchtopk", "matryoshka")  # the other kinds have lambda
MEAN_K = ("batchtopk", "matryoshka")  # k is a mean over rows, not the same number in each
PER_DIMENSION = 8  # latents
ROWS_PER_LATENT = 16
MAX_K = 32  # where it is not measured
MIN_ROWS = 4096
MAX_D = 1024
TRAINED_ROWS, HELD_OUT_ROWS = 32_768, 2_048  # rows of the pilot
STEPS, BATCH, LR = 300, 512, 5e-3
TWIN_COSINE = 0.9  # cosine
MIN_R = 0.5  # R
MIN_SHARE_OF_BEST = 0.9  # of the best R: larger k are not tried
SHRINKAGE = 0.3  # of a typical activation
FILE = "pilot.json"
Fit = Callable[[InMemoryRows, TrainSettings], SAE]


@dataclass(frozen=True)
class SparsityChoice:
    """What was chosen, and by which numbers."""

    width: int
    k: int
    why: str
    reproducible: Mapping[str, float] = field(default_factory=dict)  # k -> R; {}: not measured

    def to_dict(self) -> dict[str, Any]:
        return dict(to_jsonable(self))


@dataclass(frozen=True)
class Reproducible:
    """What latents that two seeds agree on make of held-out rows."""

    share: float  # R: of the variance, explained by them alone
    active: float  # in a row: the number of equally strong ones


def wanted(kind: str, settings: Mapping[str, Any]) -> bool:
    """Whether the sparsity is left open."""
    return settings.get("k" if kind in BY_K else "sparsity") is None


def default_width(d: int, rows: int) -> int:
    return max(d, min(PER_DIMENSION * d, rows // ROWS_PER_LATENT))


def sparsity_of(kind: str, d: int, k: int) -> dict[str, Any]:
    """The setting of a kind that stands for k active latents."""
    if kind in BY_K:
        return {"k": k}
    if kind == "jumprelu":
        return {"sparsity": SHRINKAGE**2 / k}
    return {"sparsity": 2 * SHRINKAGE * math.sqrt(d / k)}


def choose(
    rows: ActivationStream, width: int, seed: int, fit: Fit, steps: int = STEPS, kind: str = "topk"
) -> SparsityChoice:
    """k for a dictionary of a width that is trained for `steps`, by the pilot. `fit` trains a dictionary."""
    by_dimension = min(width, max(1, min(MAX_K, rows.d // 8)))
    if why_not := _not_measured(rows, steps):
        return SparsityChoice(width, by_dimension, f"k by the dimension, because {why_not}")
    result = _measured(rows, width, seed, fit)
    best = max(result, key=lambda k: result[k].share)
    share_of_best = result[best].share
    shown = {str(k): round(each.share, 4) for k, each in result.items()}
    if share_of_best < MIN_R:
        share = f"{_percent(share_of_best)} of the variance, less than half"
        why = f"k by the dimension: features that two seeds agree on explain only {share}"
        return SparsityChoice(width, by_dimension, why, shown)
    why = f"k by a pilot: features that two seeds agree on explain {_percent(share_of_best)} of the variance"
    if kind in MEAN_K:
        active = result[best].active
        return SparsityChoice(
            width, max(1, round(active)), f"{why}, and a row has {active:.1f} of them", shown
        )
    return SparsityChoice(width, best, why, shown)


def _not_measured(rows: ActivationStream, steps: int) -> str:
    """Why there is no pilot; "": there is one."""
    if rows.rows < MIN_ROWS:
        return f"{rows.rows:,} rows are not measured"
    if rows.d > MAX_D:
        return f"{rows.d:,} dimensions are not measured"
    return f"to measure it takes {STEPS} steps many times, and {steps:,} are wanted" if steps < STEPS else ""


def _percent(share: float) -> str:
    return percent(max(0.0, share))


def _measured(rows: ActivationStream, width: int, seed: int, fit: Fit) -> dict[int, Reproducible]:
    """What two seeds agree on, by k."""
    size = min(rows.rows, TRAINED_ROWS + HELD_OUT_ROWS)
    sample = next(iter(rows.batches(size, seed))).float()
    kept = sample[-min(HELD_OUT_ROWS, size // 4) :]
    table = InMemoryRows(sample[: -len(kept)])
    small = min(width, max(512, 2 * rows.d))
    reproducibles: dict[int, Reproducible] = {}
    low = 0  # k in a row
    k = 1
    while k <= max(1, min(rows.d // 4, small)):
        plans = [
            resolve_settings("topk", rows.d, small, STEPS, batch=BATCH, lr=LR, k=k, seed=each)
            for each in (seed, seed + 1)
        ]
        reproducibles[k] = reproducible(fit(table, plans[0]), fit(table, plans[1]), kept)
        best, share = max(each.share for each in reproducibles.values()), reproducibles[k].share
        fell = (
            best > 1 / rows.d and share < MIN_SHARE_OF_BEST * best
        )  # an R of about 0, or below it, falls by chance
        low = low + 1 if k > 1 and share < k / rows.d else 0
        if fell or low == 2:
            break
        k *= 2
    return reproducibles


def reproducible(one: SAE, other: SAE, x: Tensor) -> Reproducible:
    """What latents of `one` with a twin in `other` make of x (n, d), alone."""
    unit = torch.nn.functional.normalize
    with torch.no_grad():
        likeness = unit(one.W_dec, dim=1) @ unit(other.W_dec, dim=1).T  # (F, F)
        twins = likeness.amax(1) >= TWIN_COSINE  # (F,)
        z = one.encode(x) * twins
        left = (x - one.decode(z)).square().sum()
        spread = (x - x.mean(0)).square().sum()
        squares = z.square().sum(1)
        strong = z.sum(1).square()[squares > 0] / squares[squares > 0]  # rows in which one is active
        active = float(strong.mean()) if len(strong) else 0.0
    return Reproducible(1 - float(left / spread) if float(spread) > 0 else 0.0, active)


def read(folder: Path) -> SparsityChoice | None:
    """What a run in this folder chose; None where it measured nothing."""
    path = folder / FILE
    if not path.is_file():
        return None
    try:
        return from_jsonable(SparsityChoice, json_object(read_inside(folder, FILE, MOST_BYTES)))
    except (ValueError, TypeError) as error:
        raise HeedfulError(f"{path} is damaged", str(error), "Remove the folder and train again") from None


def write(folder: Path, choice: SparsityChoice) -> None:
    write_inside(folder, FILE, json_bytes(choice))
