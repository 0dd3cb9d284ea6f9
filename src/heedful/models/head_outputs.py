"""What the outputs of a head mean, for models of texts and of pictures alike.

classifier    one class of several       softmax
multi-label   each label by itself       sigmoid
regression    a number                   as it is
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

ROUNDING = 1e-3  # of probabilities in half precision


def head_kind(config: Any, outputs: int) -> str:
    """By what the config says; without a config, one output is a number."""
    stated = getattr(config, "problem_type", None)
    if stated == "multi_label_classification":
        return "multi-label"
    return "regression" if stated == "regression" or outputs == 1 else "classifier"


def shares_of(kind: str, outputs: Tensor) -> Tensor:
    """Probabilities, along the last axis; of a regression the numbers themselves."""
    if kind == "regression":
        return outputs
    return outputs.sigmoid() if kind == "multi-label" else outputs.softmax(-1)


def ranked(kind: str, shares: Tensor, k: int, name: Callable[[int], str]) -> list[tuple[str, float]]:
    """The k highest of (C,) by name, highest first; all numbers of a regression, in their order."""
    if kind == "regression":
        return [(name(index), value) for index, value in enumerate(shares.tolist())]
    top = shares.topk(min(k, len(shares)))
    return list(zip(map(name, top.indices.tolist()), top.values.tolist(), strict=True))


def are_probabilities(outputs: Tensor) -> bool:
    """Whether outputs (C,) of several classes are not below 0 and sum to 1."""
    several, total = len(outputs) > 1, float(outputs.double().sum())
    return several and bool((outputs >= 0).all()) and abs(total - 1) < ROUNDING
