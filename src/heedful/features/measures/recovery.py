"""How much of what was planted a dictionary finds.

    match        each true feature w_i to one latent j, one to one, so that the sum of cos(w_i, W_dec,j) is
                 largest (Hungarian). The sign counts: a latent that points the other way has not found it
    recovered    share of true features whose latent has a cosine of 0.9 or more
    cosine       mean cosine of the matched; what some call MCC, mean correlation coefficient. Not our mcc
    f1, mcc      of firing: [a_j ||W_dec,j|| > above] as a detector of [w_i is on]; `above` = 0 by default, so
                 anything above zero counts, and a dictionary that whispers everywhere pays in precision.
                 mcc is Matthews' correlation. A feature without a latent, or never on or never called, has 0
    controls     a random dictionary of the same width and as many active latents, and the same dictionary
                 before its first step

Cost: one assignment of F·N (seconds at 4,096), and one encoding of the rows that are asked for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from heedful.core.arrays import Floats
from heedful.core.errors import HeedfulError
from heedful.core.result import NotebookRepr
from heedful.features.activations.stream import rows_of
from heedful.features.measures.synthetic import Synthetic
from heedful.features.sae.autoencoder import SAE
from heedful.features.sae.config import Config
from heedful.features.sae.settings import resolve_settings
from heedful.features.sae.train import begin

FOUND_COSINE = 0.9  # cosine


@dataclass(frozen=True, eq=False)
class Matched:
    """Which latent stands for each true feature."""

    latent: Tensor  # (N,) -1: none was left
    cosine: Tensor  # (N,) 0 where none was left


@dataclass(frozen=True, eq=False)
class Recovery(NotebookRepr):
    """What a dictionary found, feature by feature."""

    latent: Tensor  # (N,)
    cosine: Floats  # (N,)
    f1: Floats  # (N,)
    mcc: Floats  # (N,)
    l0: float
    true_l0: float
    explained: float
    dead: float  # share of latents that never fired on the rows

    @property
    def recovered(self) -> float:
        return float((self.cosine >= FOUND_COSINE).mean())

    def summary(self) -> dict[str, float]:
        return {
            "recovered": self.recovered,
            "cosine": float(self.cosine.mean()),
            "f1": float(self.f1.mean()),
            "mcc": float(self.mcc.mean()),
            **{name: float(getattr(self, name)) for name in ("l0", "true_l0", "explained", "dead")},
        }


def match(decoder: Tensor, truth: Tensor) -> Matched:
    """decoder (F, d), truth (N, d): the one-to-one assignment with the largest sum of cosines."""
    if decoder.shape[1] != truth.shape[1]:
        raise HeedfulError(
            f"latents of width {decoder.shape[1]} cannot be compared with features of width {truth.shape[1]}"
        )
    unit = torch.nn.functional.normalize
    likeness = unit(truth.double(), dim=1) @ unit(decoder.double(), dim=1).T  # (N, F)
    features, latents = linear_sum_assignment(likeness.numpy(), maximize=True)
    chosen, cosine = torch.full((len(truth),), -1), torch.zeros(len(truth), dtype=torch.float64)
    chosen[features] = torch.from_numpy(latents)
    cosine[features] = likeness[features, latents]
    return Matched(chosen, cosine)


def firing(called: Tensor, on: Tensor) -> tuple[Floats, Floats]:
    """F1 and Matthews' correlation (N,) of detectors called (n, N) for what is on (n, N); both bool."""
    both = (called & on).sum(0).double()
    result, true, n = called.sum(0).double(), on.sum(0).double(), len(on)
    f1 = 2 * both / (result + true)
    top = n * both - result * true
    under = (result * true * (n - result) * (n - true)).sqrt()
    mcc = top / under
    clean = [np.nan_to_num(values.numpy(), nan=0.0, posinf=0.0, neginf=0.0) for values in (f1, mcc)]
    return clean[0], clean[1]


def recovery(
    sae: SAE, source: Synthetic, rows: int = 16_384, seed: int = 1_000, above: float = 0.0
) -> Recovery:
    """Try a dictionary on new rows of the benchmark it was trained on."""
    matched = match(sae.W_dec.detach(), source.directions)
    x, codes = source.draw(rows, seed)
    with torch.no_grad():
        a = sae.encode(x)
        left = (x - sae.decode(a)).square().sum()
    size = a * sae.W_dec.norm(dim=1)
    called = size > above
    chosen = called[:, matched.latent.clamp(min=0)] & (matched.latent >= 0)
    f1, mcc = firing(chosen, codes > 0)
    return Recovery(
        matched.latent,
        matched.cosine.numpy(),
        f1,
        mcc,
        l0=float(called.sum(1).double().mean()),
        true_l0=float((codes > 0).sum(1).double().mean()),
        explained=1 - float(left / (x - x.mean(0)).square().sum()),
        dead=float((~called.any(0)).double().mean()),
    )


# --- controls --------------------------------------------------------------------------------------


def random_dictionary(sae: SAE, x: Tensor, seed: int = 0) -> SAE:
    """As wide and, on rows x (n, d), as sparse as `sae`, in random directions.

    topk about the mean of x, with the encoder the decoder's transpose times the one number that rebuilds x
    best: what is left to chance are the directions, not their place or scale.
    """
    d, width = sae.config.d, sae.config.width
    with torch.no_grad():
        k = min(width, max(1, round(float((sae.encode(x) > 0).sum(1).double().mean()))))
    draw = torch.Generator().manual_seed(seed)
    directions = torch.nn.functional.normalize(torch.randn(width, d, generator=draw), dim=1)
    config = Config("topk", d, width, k, notes=("a random dictionary: a control",))
    bias = x.mean(0)
    first = SAE(config, directions.T.contiguous(), torch.zeros(width), directions, bias)
    made = first(x) - bias
    scale = float(((x - bias) * made).sum() / made.square().sum().clamp(min=1e-12))
    return replace(first, W_enc=(scale * directions.T).contiguous())


def untrained(data: Any, width: int, kind: str, steps: int = 1, **settings: Any) -> SAE:
    """The dictionary that training starts from."""
    rows = rows_of(data)
    chosen = resolve_settings(kind, rows.d, width, steps, **settings)
    return begin(rows, chosen).sae({"settings": chosen.to_dict()})


def to_dict(source: Synthetic, found: Recovery) -> dict[str, Any]:
    """The plan and the summary."""
    return {"plan": source.plan.to_dict(), **found.summary()}
