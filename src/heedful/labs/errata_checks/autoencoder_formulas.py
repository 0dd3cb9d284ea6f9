"""Misprints of a sparse autoencoder's code (E21), beside the dictionaries of heedful.features."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from heedful.features.sae.architectures import relu
from heedful.features.sae.base import Params, TrainingState
from heedful.features.sae.settings import TrainSettings, resolve_settings
from heedful.features.sae.train import train_sae
from heedful.labs.errata_checks.formula import Misprint

CODE = """
class SparseAutoencoder(nn.Module):
    def __init__(self, size, width, {name}):
        {begin}
        self.encoder, self.decoder = nn.Linear(size, width), nn.Linear(width, size)
        self.weight = {name}

    def forward(self, x):
        return self.decoder({relu}(self.encoder(x)))
"""
RUNS = {"name": "weight", "begin": "super().__init__()", "relu": "torch.relu"}
PRINTED = {"name": "lambda", "begin": "pass", "relu": "nn.ReLU"}
D, WIDTH, ROWS = 4, 16, 40


def rebuilt(code: str, x: Tensor) -> bool:
    """Whether the code gives a reconstruction of x at all."""
    made: dict[str, Any] = {"nn": nn, "torch": torch}
    try:
        exec(compile(code, "printed", "exec"), made)
        result = made["SparseAutoencoder"](x.shape[1], WIDTH, 0.1)(x)
    except (SyntaxError, AttributeError, TypeError):
        return False
    return isinstance(result, Tensor) and result.shape == x.shape


def e21_code(seed: int, n: int) -> Misprint:
    """The printed class with one of its three faults at a time; heedful's own, trained for a moment."""
    x = torch.randn(512, D, generator=torch.Generator().manual_seed(seed))
    assert rebuilt(CODE.format(**RUNS), x)  # without its faults it runs
    printed = [rebuilt(CODE.format(**RUNS | {fault: PRINTED[fault]}), x) for fault in PRINTED]
    sae = train_sae(x, WIDTH, "relu-tied", steps=60, batch=128, seed=seed, lr=1e-2, sparsity=0.1)
    left = float((sae(x) - x).square().sum() / (x - x.mean(0)).square().sum())
    return Misprint(
        number="E21",
        sentence="E21: the printed autoencoder has three bugs, and each of them stops the code: a "
        "reserved word as a name, no call of super().__init__(), and a module used as a function.",
        printed="lambda as a name; no super().__init__(); nn.ReLU(x)",
        correct="another name; super().__init__(); relu(x)",
        judge="running the code; the error of the printed form is the share of the three bugs that stop it, "
        "the error of heedful's trained autoencoder is its unexplained variance",
        wrong=np.array([1 - np.mean(printed)]),
        right=np.array([left]),
        least=0.99,
        most=0.5,
    )


def drawn_dictionary(seed: int) -> tuple[TrainSettings, Params, Tensor]:
    """A dictionary of kind "relu" as it begins, its decoder stretched at random, and rows."""
    rng = torch.Generator().manual_seed(seed)
    settings = resolve_settings("relu", D, WIDTH, 100, seed=seed)
    x = torch.randn(ROWS, D, generator=rng)
    params = relu.start(settings, x)
    params["dec"] = params["dec"] * (1 + 9 * torch.rand(WIDTH, 1, generator=rng))
    return settings, {name: value.double() for name, value in params.items()}, x.double()


def parts_of(settings: TrainSettings, params: Params, x: Tensor) -> dict[str, float]:
    """heedful's loss, and the sum of activations the printed penalty is of."""
    result = relu.loss(params, x, settings, settings.steps, TrainingState.new(settings))
    return {
        **{name: float(value) for name, value in result.parts.items()},
        "printed": float(relu.encode(params, x, {}).sum()),
    }


def e21_decoder_norm(seed: int, n: int) -> Misprint:
    """Encoder over s, decoder times s: the same reconstruction. Does the penalty fall?"""
    rng = np.random.default_rng(seed)
    wrong, right = [], []
    for i in range(n):
        settings, params, x = drawn_dictionary(1000 * seed + i)
        s = float(rng.uniform(2, 10))
        stretched = {
            **params,
            "enc": params["enc"] / s,
            "b_enc": params["b_enc"] / s,
            "dec": params["dec"] * s,
        }
        before, after = parts_of(settings, params, x), parts_of(settings, stretched, x)
        wrong.append(abs(1 - after["printed"] / before["printed"]))
        ours = abs(1 - after["sparsity"] / before["sparsity"])
        right.append(ours + abs(1 - after["error"] / before["error"]))
    return Misprint(
        number="E21",
        sentence="E21: longer decoder columns lower the L1 penalty without more sparsity. A penalty that is "
        "multiplied by the lengths of the columns does not change.",
        printed="λ Σ f_i",
        correct="decoder columns of length one, or λ Σ f_i ‖d_i‖",
        judge="the change of the penalty when encoder and decoder are rescaled so that the reconstruction "
        "stays the same (it should be zero)",
        wrong=np.array(wrong),
        right=np.array(right),
    )


def e21_batch(seed: int, n: int) -> Misprint:
    """The same rows twice: does the balance of error and penalty stay?"""
    wrong, right = [], []
    for i in range(n):
        settings, params, x = drawn_dictionary(1000 * seed + i)
        once, twice = parts_of(settings, params, x), parts_of(settings, params, torch.cat([x, x]))
        wrong.append(abs(twice["printed"] / once["printed"] - 1))  # its error is a mean, and stays
        balance = (twice["sparsity"] / twice["error"]) / (once["sparsity"] / once["error"])
        right.append(abs(balance - 1))
    return Misprint(
        number="E21",
        sentence="E21: if the penalty is a sum over the batch but the error is a mean, the weight of the "
        "penalty depends on the batch size.",
        printed="mean squared error + λ Σ f_i, summed over the batch",
        correct="both are means over the batch",
        judge="the change of the ratio of penalty to error when every sample is used twice (it should be "
        "zero)",
        wrong=np.array(wrong),
        right=np.array(right),
    )


CHECKS = (e21_code, e21_decoder_norm, e21_batch)
