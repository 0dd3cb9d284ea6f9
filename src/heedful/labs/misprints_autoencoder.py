"""Misprints of a sparse autoencoder's code (E21)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from heedful.labs.misprint import Misprint


class NoInit(nn.Module):
    """Begins as printed, without super().__init__()."""

    def __init__(self) -> None:
        self.encoder = nn.Linear(2, 2)


def works(attempt: Callable[[], object]) -> bool:
    try:
        return attempt() is not None
    except (SyntaxError, AttributeError):
        return False


def e21_code(seed: int, n: int) -> Misprint:
    x = torch.randn(2, generator=torch.Generator().manual_seed(seed))
    printed = [
        works(lambda: compile("def loss(x, lambda): return x", "printed", "exec")),
        works(NoInit),
        isinstance(nn.ReLU(x), Tensor),  # type: ignore[arg-type]
    ]
    ours = [
        works(lambda: compile("def loss(x, weight): return x", "ours", "exec")),
        works(lambda: nn.Linear(2, 2)),
        isinstance(torch.relu(x), Tensor),
    ]
    return Misprint(
        "E21",
        "E21: the printed autoencoder does not run: a reserved word, no super(), a module for a function.",
        "lambda as a name; no super().__init__(); nn.ReLU(x)",
        "another name; super().__init__(); relu(x)",
        "Python: the share of the lines that fail",
        np.array([1 - np.mean(printed)]),
        np.array([1 - np.mean(ours)]),
        least=0.99,
    )


def e21_decoder_norm(seed: int, n: int) -> Misprint:
    """Encoder over s, decoder times s: the same reconstruction. Does the penalty fall?"""
    rng = np.random.default_rng(seed)
    wrong, right = [], []
    for _ in range(n):
        x, enc, dec = rng.normal(size=(30, 4)), rng.normal(size=(4, 16)), rng.normal(size=(16, 4))
        s = rng.uniform(2, 10)
        f, small = np.maximum(x @ enc, 0), np.maximum(x @ enc / s, 0)
        assert np.allclose(f @ dec, small @ (s * dec))
        lengths = np.linalg.norm(dec, axis=1)
        wrong.append(1 - small.sum() / f.sum())
        right.append(abs(1 - (small @ (s * lengths)).sum() / (f @ lengths).sum()))
    return Misprint(
        "E21",
        "E21: longer decoder columns lower an L1 penalty without sparsity; weighed by the lengths it stays.",
        "λ Σ f_i",
        "unit decoder columns, or λ Σ f_i ‖d_i‖",
        "the fall of the penalty when the encoder shrinks and the decoder grows, reconstruction unchanged",
        np.array(wrong),
        np.array(right),
    )


CHECKS = (e21_code, e21_decoder_norm)
