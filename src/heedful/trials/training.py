"""Models like the user's, trained again with their attention in the graph.

    fresh(model, seed)   the same architecture with weights of its own, loaded in the same way
    copied(model)        the same weights, in a module of its own
    fit(student, ...)    AdamW on random batches; loss(passed, pick) sees logits and every layer's weights
    answers, maps        what a model says, and where it looks, batch by batch, without a graph
    frozen               in all of these: uniform attention

For classifiers of the size of the zoo that are built from a configuration. Dropout
acts where no loss reads attention: dropped weights are no weights.
Cost: `steps` batches forwards and backwards a fit.

Wiegreffe & Pinter 2019, Attention is not not Explanation: the tests that need a trained model.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from heedful.core.arrays import Floats
from heedful.core.errors import HeedfulError
from heedful.models.adapter import TokenModel
from heedful.models.attention_hooks import AttentionState, uniform
from heedful.models.backend import Inputs
from heedful.models.contexts import untouched
from heedful.models.model_copies import with_module
from heedful.nn.mixing import Mixes
from heedful.nn.one_layer import OneLayerClassifier
from heedful.nn.train import TrainConfig
from heedful.nn.train import fit as minimise
from heedful.retraining.retrain import like
from heedful.trials.batches import PaddedTexts

TOKEN_EMBEDDING_SCALE = (
    0.1  # of a first token table drawn N(0, 1), which a few thousand texts would learn by heart
)
MAX_PARAMETERS = 20_000_000  # parameters: what a core trains in minutes
MIN_READOUT_SHARE = 0.99  # of the answer read at one place
CHUNK_TEXTS = 64  # texts in a pass without a graph
FINE_TUNE_LR_FACTOR = 1 / 3  # of the learning rate, where training starts from the user's weights
ONE_LAYER = TrainConfig(steps=300, batch=32, lr=3e-3, warmup=20, weight_decay=0.05, progress=False)
DEEPER = TrainConfig(steps=400, batch=32, lr=7e-4, warmup=60, weight_decay=0.05, progress=False)


@dataclass(frozen=True, eq=False)
class Passed:
    """One pass: logits, and the weights of every layer of the stack that reads the text."""

    logits: Tensor  # (B, C)
    maps: tuple[Tensor, ...]  # (B, H, Q, T) a layer; () where nobody looked
    mask: Tensor  # (B, T) bool

    @property
    def heads(self) -> Tensor:
        """(B, L, H, Q, T)"""
        return torch.stack(self.maps, 1)

    @property
    def alpha(self) -> Tensor:
        """(B, L, Q, T): mean over a layer's heads, whose order means nothing between two models."""
        return torch.stack([weights.mean(1) for weights in self.maps], 1)

    @property
    def queries(self) -> Tensor:
        """(B, Q) bool: queries that are tokens of the text."""
        one = self.maps[0].shape[-2] == 1
        return self.mask[:, :1] if one else self.mask


Loss = Callable[[Passed, Tensor], Tensor]  # a pass, and which texts it read


# --- models ------------------------------------------------------------------------------------------------


def check(model: TokenModel) -> None:
    """Refuse, in words, what cannot be trained again here."""
    what = f"{model.name} cannot be trained again"
    if model.kind != "classifier":
        raise HeedfulError(what, f"it is a {model.kind}, and the trained tests compare classifiers")
    if why := model.lacks(["attentions", "edits"]):
        raise HeedfulError(what, why)
    if getattr(model.module, "config", None) is None:
        raise HeedfulError(what, "its module has no configuration to build another from")
    if model.rows_at_once == 1:
        raise HeedfulError(
            what, "it cannot distinguish padding from text", "Give its tokenizer a padding token"
        )
    size = sum(p.numel() for p in model.module.parameters())
    if size > MAX_PARAMETERS:
        raise HeedfulError(
            what,
            f"it has {size:,} parameters, and more than {MAX_PARAMETERS:,} take hours on a processor",
            "Leave the trained tests out, or try a smaller model of the same kind",
        )


def fresh(model: TokenModel, seed: int) -> TokenModel:
    """The same architecture with weights drawn from `seed`."""
    check(model)
    module = like(model.module)(seed)
    if isinstance(module, OneLayerClassifier):
        with torch.no_grad():
            module.token.weight.mul_(TOKEN_EMBEDDING_SCALE)
    return with_module(model, module.eval().requires_grad_(True))


def copied(model: TokenModel) -> TokenModel:
    """A module of its own with the same weights."""
    check(model)
    return with_module(model, copy.deepcopy(model.module).eval().requires_grad_(True))


def settings(model: TokenModel, config: TrainConfig | None) -> TrainConfig:
    """The given budget, or one that suits the depth."""
    if config is not None:
        return config
    return ONE_LAYER if isinstance(model.module, Mixes) else DEEPER


# --- passes ------------------------------------------------------------------------------------------------


def run(model: TokenModel, inputs: Inputs, frozen: bool = False, look: bool = True) -> Passed:
    """One pass in the module's own mode, with a graph where there is one; without `look`, no maps."""
    mask = inputs.mask.bool()
    if isinstance(model.module, Mixes):  # which never forms its values: put weights where it mixes
        with _flat_mixing(model.module) if frozen else nullcontext():
            out = model.module.attend(inputs.ids, inputs.mask)
        return Passed(out.logits, (out.attention[:, :, None],), mask)
    by_layer: dict[int, Tensor] = {}

    def watch(state: AttentionState) -> AttentionState:
        state = state.reweighed(uniform(state)) if frozen else state
        if state.site.stack == "self":
            by_layer[state.site.layer] = state.weights
        return state

    with model.attending(watch) if look or frozen else nullcontext():
        logits = model.raw_pass(inputs).logits
    return Passed(logits, tuple(by_layer[layer] for layer in sorted(by_layer)), mask)


def _flat_mixing(module: Mixes) -> AbstractContextManager[Any]:
    def even(_module: nn.Module, args: Any) -> tuple[Any, ...]:
        alpha, e, value, mask = args
        allowed = mask.to(e.dtype)  # (B, T)
        return (allowed / allowed.sum(1, keepdim=True))[:, None].expand_as(alpha), e, value, mask

    return module.mix.register_forward_pre_hook(even)


def maps(model: TokenModel, data: PaddedTexts, frozen: bool = False, look: bool = True) -> Iterator[Passed]:
    """Passes without a graph or dropout, over all texts in order."""
    for part in torch.split(torch.arange(len(data)), CHUNK_TEXTS):
        with untouched(model.module), torch.no_grad():
            passed = run(model, data.pick(part), frozen, look)
        yield passed


def answers(model: TokenModel, data: PaddedTexts, frozen: bool = False) -> Floats:
    """Probabilities (n, C) of the classes for every text."""
    parts = [passed.logits.double().softmax(-1) for passed in maps(model, data, frozen, look=False)]
    return np.asarray(torch.cat(parts).numpy())


def place_of(model: TokenModel, data: PaddedTexts) -> str:
    """Where the answer is read: at the "first" token, the "last", or "all"; by the gradient of one text."""
    if isinstance(model.module, Mixes):
        return "first"
    with torch.enable_grad():
        output = model.traced(data.pick(torch.tensor([0])))
        assert output.last_hidden is not None
        (grad,) = torch.autograd.grad(output.logits[0, 0], output.last_hidden)
    share = grad[0].norm(dim=-1) / grad[0].norm(dim=-1).sum()
    place = {0: "first", len(share) - 1: "last"}.get(int(share.argmax()), "all")
    return place if float(share.max()) > MIN_READOUT_SHARE else "all"


def read(passed: Passed, place: str) -> Tensor:
    """(B, L, H, T): the rows the answer is read from, of every head."""
    heads = passed.heads  # (B, L, H, Q, T)
    if heads.shape[3] == 1 or place == "first":
        return heads[:, :, :, 0]
    real = passed.mask.to(heads.dtype)  # (B, T)
    if place == "last":
        real = nn.functional.one_hot(passed.mask.sum(1) - 1, real.shape[1]).to(heads.dtype)
    return torch.einsum("blhqt,bq->blht", heads, real / real.sum(1, keepdim=True))


def apart(some: Passed, other: Passed, by: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """(B,): mean over layers and the text's own queries of by(alpha, alpha)."""
    values = by(some.alpha, other.alpha)  # (B, L, Q)
    real = some.queries[:, None].to(values.dtype).expand_as(values)
    return (values * real).sum((1, 2)) / real.sum((1, 2))


# --- training ----------------------------------------------------------------------------------------------


def fit(
    student: TokenModel,
    data: PaddedTexts,
    config: TrainConfig,
    seed: int,
    loss: Loss | None = None,
    *,
    frozen: bool = False,
    after_step: Callable[[int, float], None] | None = None,
) -> list[float]:
    """Train in place; the last weights are kept. `loss` is cross-entropy unless given, and then sees maps."""
    rng, module = torch.Generator().manual_seed(seed), student.module

    def value(step: int) -> Tensor:
        pick = torch.randint(len(data), (config.batch,), generator=rng)
        module.train(loss is None)  # dropout would put zeros among the weights a loss reads
        passed = run(student, data.pick(pick), frozen, look=loss is not None)
        return right(data)(passed, pick) if loss is None else loss(passed, pick)

    return minimise(module, value, replace(config, seed=seed), after_step)


def right(data: PaddedTexts) -> Loss:
    """Cross-entropy with the labels."""

    def loss(passed: Passed, pick: Tensor) -> Tensor:
        return nn.functional.cross_entropy(passed.logits, data.labels[pick])

    return loss
