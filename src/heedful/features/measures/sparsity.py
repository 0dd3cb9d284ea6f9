"""What a dictionary alone tells on a model's activations: sums by window, so that intervals are over windows.

    l0          mean number of latents above zero a token
    explained   1 - sum ||x - x̂||² / sum ||x - mean||², the mean over all tokens
    dead        share of latents that never fire on these tokens: a count, it falls with more of them
    dense       share of latents that fire on more than a tenth of them
    activation  mean of a_i ||W_dec,i|| over what is active
    size        sum_i a_i ||W_dec,i|| over ||x||

Cost: one encoding and one decoding a token, and a row of F counts a window.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from heedful.core.arrays import Floats
from heedful.core.evidence import MeasuredValue
from heedful.core.progress import Report, counting
from heedful.features.activations.eval_windows import Corpus, activations
from heedful.features.measures.recovery import random_dictionary
from heedful.features.sae.autoencoder import SAE
from heedful.models.adapter import TokenModel
from heedful.stats.intervals import bootstrap, bootstrap_ratio, percentile_interval

DENSE_SHARE = 0.1  # of the tokens


@dataclass(eq=False)
class WindowSums:
    """Sums by window, in float64; of latents, over all tokens."""

    width: int
    n: list[float] = field(default_factory=list)  # tokens
    active: list[float] = field(default_factory=list)
    left: list[float] = field(default_factory=list)  # ||x - x̂||²
    squares: list[float] = field(default_factory=list)  # ||x||²
    sums: list[Floats] = field(default_factory=list)  # (d,) of x
    lengths: list[float] = field(default_factory=list)  # ||x||
    weighted: list[float] = field(default_factory=list)  # sum_i a_i ||W_i||
    fired: list[Any] = field(default_factory=list)  # (F,) int32
    sample: Tensor = field(default_factory=lambda: torch.empty(0, 0))  # rows (n, d), of the first batch

    def add(self, sae: SAE, x: Tensor) -> None:
        """One window's rows (n, d)."""
        codes = sae.encode(x)
        on = codes > 0
        self.n.append(float(len(x)))
        self.active.append(float(on.sum()))
        self.left.append(float((x - sae.decode(codes)).double().square().sum()))
        self.squares.append(float(x.double().square().sum()))
        self.sums.append(x.double().sum(0).numpy())
        self.lengths.append(float(x.norm(dim=1).double().sum()))
        self.weighted.append(float(codes.double().sum(0) @ sae.W_dec.norm(dim=1).double()))
        self.fired.append(on.sum(0).to(torch.int32).numpy())

    def spread(self) -> Floats:
        """(U,) sum over a window's tokens of ||x - mean||², the mean over all."""
        n, sums = np.array(self.n), np.array(self.sums)
        mean = sums.sum(0) / n.sum()
        spread: Floats = np.array(self.squares) - 2 * sums @ mean + n * (mean @ mean)
        return np.maximum(spread, 0.0)

    def values(self) -> dict[str, float]:
        return {name: figure.value for name, figure in self.figures(None).items()}

    def figures(self, seed: int | None) -> dict[str, MeasuredValue]:
        """With intervals if a seed is given."""
        ratios = {
            "l0": (self.active, self.n),
            "left": (self.left, self.spread()),
            "activation": (self.weighted, self.active),
            "size": (self.weighted, self.lengths),
        }
        values = {
            name: ratio(np.array(over), np.array(under), seed) for name, (over, under) in ratios.items()
        }
        left = values.pop("left")
        fired = np.array(self.fired)
        return {
            "l0": values["l0"],
            "explained": MeasuredValue(1 - left.value, 1 - left.high, 1 - left.low),
            "dead": MeasuredValue(float((fired.sum(0) == 0).mean())),
            "dense": _dense(fired, np.array(self.n), seed),
            "activation": values["activation"],
            "size": values["size"],
        }


def ratio(over: Floats, under: Floats, seed: int | None) -> MeasuredValue:
    """Sum over sum, with its interval over units where there are two or more."""
    whole = float(under.sum())
    value = float(over.sum()) / whole if whole else math.nan
    if seed is None or len(over) < 2 or not whole:
        return MeasuredValue(value)
    return MeasuredValue(value, *bootstrap_ratio(over, under, seed))


def _dense(fired: Any, n: Floats, seed: int | None) -> MeasuredValue:
    """fired (U, F): share of latents on in more than a tenth of the tokens."""
    value = float((fired.sum(0) > DENSE_SHARE * n.sum()).mean())
    if seed is None or len(n) < 2:
        return MeasuredValue(value)
    shares = bootstrap(
        lambda counts: ((counts @ fired) > DENSE_SHARE * (counts @ n)[:, None]).mean(1),
        len(n),
        seed,
        draws=400,
    )
    return MeasuredValue(value, *percentile_interval(shares))


def counted(
    sae: SAE, model: TokenModel, found: Corpus, site: str, seed: int, progress: Report | None
) -> tuple[WindowSums, WindowSums, Tensor]:
    """Counts of the dictionary, of a random one, and the mean activation (d,)."""
    counts, others, other, done = WindowSums(sae.config.width), WindowSums(sae.config.width), None, 0
    for batch, observed in activations(model, found, [site]):
        with torch.no_grad():
            if other is None:
                counts.sample = observed[site][batch.keep].clone()
                other = random_dictionary(sae, counts.sample, seed)
            for x, keep in zip(observed[site], batch.keep, strict=True):
                if keep.any():
                    counts.add(sae, x[keep])
                    others.add(other, x[keep])
        done += len(batch.ids)
        counting(progress, "reading activations")(done, found.units)
    return counts, others, torch.from_numpy(np.array(counts.sums).sum(0) / sum(counts.n)).float()
