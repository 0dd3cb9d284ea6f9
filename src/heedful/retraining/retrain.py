"""Train a model of the same kind again, from scratch: what remove-and-retrain asks for.

    fit(inputs, labels, seed) -> predict        predict(inputs) -> labels (n,), or scores (n, C)

Any function of that shape will do. `trainer(like(model))` makes one for models of the size of the zoo: the
architecture of a loaded model with fresh weights, AdamW and cross-entropy (heedful.nn.train). Inputs are ids
(T,) or vectors (T, d), as the imputer leaves them; vectors take the place of the embedding table, which is
then not trained, and positions are added to them as the architecture does. Pictures are (3, H, W), as the
module reads them.
Cost: `steps` batches forwards and backwards a fit. zoo:sentiment took an hour: for the hundreds of fits of
remove-and-retrain take fewer steps and shorter texts, or the architecture of zoo:one-layer.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from heedful.core.errors import HeedfulError
from heedful.nn.one_layer import OneLayerClassifier
from heedful.nn.train import TrainConfig
from heedful.nn.train import fit as minimise

Predict = Callable[[Sequence[Any]], Any]
Fit = Callable[[Sequence[Any], Sequence[int], int], Predict]
Build = Callable[[int], nn.Module]  # seed -> a module with fresh weights
Labels = npt.NDArray[np.int64]
BRIEF = TrainConfig(steps=300, batch=32, lr=3e-3, warmup=20, weight_decay=0.05, progress=False)


def like(module: nn.Module) -> Build:
    """Modules of the same class and configuration, with weights of their own."""
    config: Any = getattr(module, "config", None)
    if config is None:
        raise HeedfulError(
            f"{type(module).__name__} has no configuration to build another from",
            fix="Write a function seed -> module, or a fit function of your own",
        )
    if isinstance(module, OneLayerClassifier):
        return lambda seed: OneLayerClassifier(config, seed)
    kind: Any = type(module)

    def build(seed: int) -> nn.Module:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            made: nn.Module = kind(copy.deepcopy(config))  # settings of one are not those of the other
        return made

    return build


def trainer(build: Build, config: TrainConfig = BRIEF) -> Fit:
    """A fit function: batches drawn with repetition, the last weights kept. All draws come from the seed."""

    def fit(inputs: Sequence[Any], labels: Sequence[int], seed: int) -> Predict:
        module, rng = build(seed), torch.Generator().manual_seed(seed)
        truth = torch.tensor(list(labels))

        def loss(step: int) -> Tensor:
            pick = torch.randint(len(inputs), (config.batch,), generator=rng)
            return nn.functional.cross_entropy(_logits(module, [inputs[i] for i in pick]), truth[pick])

        minimise(module, loss, replace(config, seed=seed))
        return lambda asked: _predict(module, asked, config.batch)

    return fit


def _predict(module: nn.Module, inputs: Sequence[Any], batch: int) -> Labels:
    with torch.inference_mode():
        parts = [_logits(module, inputs[i : i + batch]).argmax(-1) for i in range(0, len(inputs), batch)]
    return np.asarray(torch.cat(parts).numpy())


def _logits(module: nn.Module, inputs: Sequence[Any]) -> Tensor:
    """(B, C) from pictures (3, H, W), or from sequences."""
    three = np.ndim(inputs[0]) == 3
    out = module(torch.from_numpy(np.stack(inputs))) if three else _read(module, inputs)
    logits: Tensor = out.logits if hasattr(out, "logits") else out
    return logits


def _read(module: nn.Module, inputs: Sequence[Any]) -> Any:
    """What the module returns for ids (T,) or vectors (T, d) of several lengths, padded on the right and
    hidden."""
    width = max(len(item) for item in inputs)
    mask = torch.tensor([[True] * len(item) + [False] * (width - len(item)) for item in inputs])
    if np.ndim(inputs[0]) == 1:
        ids = torch.tensor([[*item, *[0] * (width - len(item))] for item in inputs])
        return module(ids, attention_mask=mask.long())
    padded = np.stack([np.pad(item, ((0, width - len(item)), (0, 0))) for item in inputs])
    embeds = torch.tensor(padded, dtype=torch.float32)
    if isinstance(module, OneLayerClassifier):  # transformers' models add positions themselves
        embeds = embeds + module.position[:width]
    return module(inputs_embeds=embeds, attention_mask=mask.long())


def as_labels(answer: Any) -> Labels:
    """(n,) labels, from labels or from scores (n, C)."""
    values = np.asarray(answer)
    if values.ndim == 2:
        return np.asarray(values.argmax(1))
    if values.ndim != 1 or not np.array_equal(values, values.astype(np.int64)):
        raise HeedfulError(
            "predict gave neither labels nor scores a class",
            f"its shape is {values.shape}",
            "Return (n,) or (n, C)",
        )
    return values.astype(np.int64)
