"""Feature splitting: what one feature of a narrow dictionary becomes in wider ones.

    parent of a feature j of the wider = the feature i of the narrower with the largest cos(W_i, W_j), if
    it is `alike` (0.5) or more; otherwise j is new. One parent each: widths in growing order make a forest.

    kept        share of narrower features with exactly one child
    split       share with two or more;   lost: with none
    with parent share of wider features that have one;   the same for a random narrower dictionary beside it
    children    mean number of children of those that have any, and the largest

Dictionaries must stand at one place of one model. Decoder rows alone are used: no model, no texts.
Intervals: 95 %, features drawn with repetition. Cost: one product F_a·F_b·d a step.
Bricken et al. 2023, who cluster decoders of widths 512, 4,096 and 16,384.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from heedful.core.errors import HeedfulError
from heedful.core.evidence import MeasuredValue
from heedful.core.result import Result
from heedful.features.measures.sparsity import ratio
from heedful.features.sae.autoencoder import SAE
from heedful.io.json_codec import to_jsonable

MIN_COSINE = 0.5
CHUNK_FEATURES = 4096  # features of the wider at a time


@dataclass(frozen=True, eq=False)
class WidthStep:
    """From one width to the next."""

    parent: Any  # (F_wide,) int; -1: new
    cosine: Any  # (F_wide,) with the nearest narrower feature, parent or not
    random: Any  # (F_wide,) with the nearest of as many random directions

    def children(self, width: int) -> Any:
        """(F_narrow,) how many each has."""
        return np.bincount(self.parent[self.parent >= 0], minlength=width)


@dataclass(frozen=True, eq=False)
class Splitting(Result):
    """How features split in wider SAEs: a feature may have a parent in the next narrower SAE."""

    kind: ClassVar[str] = "splitting"

    widths: tuple[int, ...]
    steps: tuple[WidthStep, ...]
    alike: float
    seed: int

    def figures(self, step: int) -> dict[str, MeasuredValue]:
        """Of widths[step] -> widths[step + 1]."""
        one, seed = self.steps[step], self.seed
        children = one.children(self.widths[step])

        def share(which: Any) -> MeasuredValue:
            return ratio(which.astype(float), np.ones(len(which)), seed)

        have = children > 0
        return {
            "kept": share(children == 1),
            "split": share(children > 1),
            "lost": share(children == 0),
            "with parent": share(one.parent >= 0),
            "with parent, random": share(one.random >= self.alike),
            "children": ratio(children.astype(float), have.astype(float), seed),
        }

    def trees(self, most: int = 12) -> list[dict[str, Any]]:
        """The roots with most descendants, each a nested {feature, cosine, children}."""
        sizes = np.ones(self.widths[-1])
        for number in range(len(self.steps) - 1, -1, -1):
            above = np.ones(self.widths[number])
            known = self.steps[number].parent >= 0
            np.add.at(above, self.steps[number].parent[known], sizes[known])
            sizes = above
        order = np.argsort(-sizes, kind="stable")[:most]
        return [self._tree(0, int(root), None) for root in order]

    def _tree(self, level: int, feature: int, cosine: float | None) -> dict[str, Any]:
        below: list[dict[str, Any]] = []
        if level < len(self.steps):
            step = self.steps[level]
            values = np.flatnonzero(step.parent == feature)
            order = sorted(values.tolist(), key=lambda j: -step.cosine[j])
            below = [self._tree(level + 1, child, float(step.cosine[child])) for child in order]
        return {"feature": feature, "cosine": cosine, "children": below}

    def to_dict(self, most: int = 12) -> dict[str, Any]:
        steps = []
        for number, step in enumerate(self.steps):
            children = step.children(self.widths[number])
            steps.append(
                {
                    "from": self.widths[number],
                    "to": self.widths[number + 1],
                    "figures": to_jsonable(self.figures(number)),
                    "most children": int(children.max(initial=0)),
                    "parent": step.parent.tolist(),
                    "cosine": [round(float(value), 4) for value in step.cosine],
                }
            )
        return {
            "widths": list(self.widths),
            "alike": self.alike,
            "seed": self.seed,
            "steps": steps,
            "trees": self.trees(most),
        }


def split(saes: Sequence[SAE], alike: float = MIN_COSINE, seed: int = 0) -> Splitting:
    """Match the features of SAEs of growing width."""
    if len(saes) < 2:
        raise HeedfulError("splitting needs two autoencoders or more", fix="Give them from narrow to wide")
    if not 0 < alike <= 1:
        raise HeedfulError(f"alike cannot be {alike}", "it is a cosine above 0 and up to 1")
    _check(saes)
    widths = tuple(sae.config.width for sae in saes)
    steps = []
    for number, (narrow, wide) in enumerate(pairwise(saes)):
        chance = torch.randn(narrow.W_dec.shape, generator=torch.Generator().manual_seed(seed + number))
        cosine, nearest = best_cosines(wide.W_dec, narrow.W_dec)
        random, _ = best_cosines(wide.W_dec, chance)
        steps.append(WidthStep(np.where(cosine >= alike, nearest, -1), cosine, random))
    return Splitting(widths, tuple(steps), alike, seed)


def _check(saes: Sequence[SAE]) -> None:
    for narrow, wide in pairwise(saes):
        if narrow.config.d != wide.config.d:
            raise HeedfulError(
                f"dictionaries in {narrow.config.d} and {wide.config.d} dimensions",
                "they were trained at different sites",
                "Give dictionaries of one site",
            )
        if narrow.config.width >= wide.config.width:
            raise HeedfulError(
                f"{narrow.config.width} features are followed by {wide.config.width}",
                "widths must grow",
                "Give them from narrow to wide",
            )
        sites = [sae.config.source.get("site") for sae in (narrow, wide)]
        if None not in sites and sites[0] != sites[1]:
            raise HeedfulError(
                f"one SAE reads {sites[0]}, the next {sites[1]}",
                fix="Give dictionaries of one site",
            )


def best_cosines(rows: Tensor, among: Tensor) -> tuple[Any, Any]:
    """For each of rows (F, d) the largest cosine with any of `among` (G, d), and which."""
    unit = torch.nn.functional.normalize
    against = unit(among.detach().double(), dim=1).T
    parts = [
        (unit(part.detach().double(), dim=1) @ against).max(1) for part in torch.split(rows, CHUNK_FEATURES)
    ]
    return torch.cat([p.values for p in parts]).numpy(), torch.cat([p.indices for p in parts]).numpy()
