"""Networks that compute the same function by other means, built from the user's own.

    heads permuted          attention: blocks of rows of W_q, W_k, W_v and of columns of W_o change places
    neurons permuted        MLP: rows of W_in (and W_gate) and columns of W_out change places
    layers as products      W x + b = (W H) (H x) + b,  H = I - 2 v v' / v'v, its own inverse
    layers as sums          W x + b = (U x + b/2) + ((W - U) x + b/2)

    implementation-invariance = mean over such twins of |phi(twin) - phi(x)| / |phi(x)|;  0 is the best

Two networks with equal outputs for all inputs should have equal explanations. A twin counts only if its
outputs are equal (to MAX_OUTPUT_CHANGE) for the text and for the text less each of a few words; one that is
not is left out, with the reason. Equal but for rounding, so a value of 1e-6 is zero in float32; a method that
stops at a tolerance of its own may differ by that. A method that reads weights by layer, or treats heads
one by one, can fail.

heedful's own networks and transformers models are recognised by the names of their parts (BERT, DistilBERT,
GPT-2, Llama and BART and their kin; grouped queries move with their keys); linear layers are replaced
wherever they stand. In the one-layer classifier, which has no linear modules, H stands between values and
read-out.

Cost: an explanation and a copy of the model a twin. Sundararajan, Taly & Yan 2017.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from heedful.core.arrays import Floats
from heedful.core.errors import HeedfulError
from heedful.core.input import Input
from heedful.core.model import Model
from heedful.core.registry import metric
from heedful.core.target import Target
from heedful.metrics.metric_input import MetricInput
from heedful.metrics.robustness import own_seed
from heedful.models.model_copies import can_copy, copied
from heedful.nn.one_layer import OneLayerClassifier

MAX_OUTPUT_CHANGE = 1e-5
COMPARED_WORDS = 8  # removed one at a time to compare outputs
HEADS = (  # query, key, value, output
    ("self.query", "self.key", "self.value", "output.dense"),
    ("query", "key", "value", "out"),
    ("q_lin", "k_lin", "v_lin", "out_lin"),
    ("q_proj", "k_proj", "v_proj", "o_proj"),
    ("q_proj", "k_proj", "v_proj", "out_proj"),
)
NEURONS = (  # into the hidden layer, out of it
    (("intermediate.dense",), "output.dense"),
    (("lin1",), "lin2"),
    (("c_fc",), "c_proj"),
    (("up",), "down"),
    (("gate_proj", "up_proj"), "down_proj"),
    (("fc1",), "fc2"),
)
COUNTS = ("heads", "num_attention_heads", "num_heads", "n_heads")


@dataclass(frozen=True)
class Twin:
    """A model that answers as the user's does."""

    name: str
    model: Model
    places: int  # layers that were changed
    gap: float  # largest difference of outputs, relative


@dataclass(frozen=True)
class Twins:
    found: tuple[Twin, ...]
    left_out: dict[str, str]  # name -> why


@metric(
    "implementation-invariance",
    kind="re-explain",
    better="low",
    best=0.0,
    cite="Sundararajan, Taly & Yan 2017",
    expensive=True,
)
def implementation_invariance(subject: MetricInput, rng: np.random.Generator) -> float:
    """How far explanations of networks that compute the same function differ, relative to their size.

    Limitations: Only networks that were built to be equal are compared: it says nothing about the weights
    people train.
    """
    scores, item = subject.scores, subject.item
    if not scores.any() or not can_copy(subject.model):
        return float("nan")
    gaps = []
    for twin in twins(subject.model, item.x, item.target, int(rng.integers(2**31))).found:
        again = subject.again(twin.model, item.x, item.target, own_seed(subject))
        gaps.append(float(np.linalg.norm(subject.units.sums(again.scores) - scores)))
    return float(np.mean(gaps) / np.linalg.norm(scores)) if gaps else float("nan")


def twins(model: Model, x: Input, target: Target, seed: int = 0) -> Twins:
    """Every change that applies to the model, each on a copy of its own, held to the model's outputs."""
    wanted = outputs(model, x, target)
    found, left_out = [], {}
    for name, change in CHANGES.items():
        copy = copied(model)
        places = change(copy.module, torch.Generator().manual_seed(seed))
        if not places:
            left_out[name] = "no part of the model was recognised"
            continue
        try:
            other = copy.model()
            apart = float(np.abs(outputs(other, x, target) - wanted).max())
            gap = apart / max(float(np.abs(wanted).max()), np.finfo(float).tiny)
        except (HeedfulError, AttributeError, IndexError, RuntimeError, TypeError, ValueError) as error:
            left_out[name] = f"the changed model does not run: {error}"
            continue
        if gap > MAX_OUTPUT_CHANGE:
            left_out[name] = f"outputs differ by {gap:.1g}"
        else:
            found.append(Twin(name, other, places, gap))
    return Twins(tuple(found), left_out)


def outputs(model: Model, x: Input, target: Target) -> Floats:
    """f of the text, and of the text less one word, for a few words."""
    d = len(x.units("word"))
    keep = np.concatenate([np.ones((1, d), dtype=bool), ~np.eye(d, dtype=bool)[:COMPARED_WORDS]])
    return model.values(x, target, keep)


# --- permutations: each change works in place, and returns the number of layers it changed -----------------


@torch.no_grad()
def permute_heads(module: nn.Module, rng: torch.Generator) -> int:
    if isinstance(module, OneLayerClassifier):
        order = shuffled(module.config.heads, rng)
        for weight in (module.query, module.key, module.value, module.readout):
            weight.copy_(weight[order])
        return int(len(order) > 1)
    return sum(_permute_attention(part, rng) for part in module.modules())


def _permute_attention(part: nn.Module, rng: torch.Generator) -> int:
    if _have(part, ("c_attn", "c_proj")):
        return _permute_fused(part, rng)
    for names in HEADS:
        if not _have(part, names):
            continue
        query, key, value, out = (part.get_submodule(name) for name in names)
        heads = _heads(part.get_submodule(names[0].rpartition(".")[0]), _size(query), _size(key))
        if heads < 2 or _size(query) % heads or _size(key) % heads:
            return 0
        order = shuffled(heads, rng)
        for layer in (query, key, value):
            reorder(layer, blocks(order, _size(layer) // heads), outputs=True)
        reorder(out, blocks(order, _size(query) // heads), outputs=False)
        return 1
    return 0


def _heads(part: Any, query: int, key: int) -> int:
    """Heads that can change places: of grouped queries, those of the keys."""
    wide = getattr(part, "head_dim", None)
    count = next((getattr(part, name) for name in COUNTS if isinstance(getattr(part, name, None), int)), 0)
    return key // int(wide) if wide else int(count) * key // query


def _permute_fused(part: Any, rng: torch.Generator) -> int:
    """GPT-2: queries, keys and values side by side in one layer."""
    width, heads = _size(part.c_proj), int(getattr(part, "num_heads", 0))
    if heads < 2 or _size(part.c_attn) != 3 * width:
        return 0
    index = blocks(shuffled(heads, rng), width // heads)
    reorder(part.c_attn, torch.cat([index + third * width for third in range(3)]), outputs=True)
    reorder(part.c_proj, index, outputs=False)
    return 1


@torch.no_grad()
def permute_neurons(module: nn.Module, rng: torch.Generator) -> int:
    if isinstance(module, OneLayerClassifier):  # no MLP: the coordinates of the values
        order = shuffled(module.config.d_out, rng)
        module.value.copy_(module.value[:, order])
        module.readout.copy_(module.readout[:, :, order])
        return int(len(order) > 1)
    found = 0
    for part in module.modules():
        for into, out in NEURONS:
            if _have(part, (*into, out)):
                order = shuffled(_size(part.get_submodule(into[0])), rng)
                for name in into:
                    reorder(part.get_submodule(name), order, outputs=True)
                reorder(part.get_submodule(out), order, outputs=False)
                found += 1
    return found


def _have(part: nn.Module, names: Sequence[str]) -> bool:
    """Whether all of these are linear layers."""
    for name in names:
        try:
            if not is_linear(part.get_submodule(name)):
                return False
        except AttributeError:
            return False
    return True


def is_linear(layer: nn.Module) -> bool:
    """A torch or a transformers linear layer; not a subclass, which may read its weight in other ways."""
    return type(layer) is nn.Linear or type(layer).__name__ == "Conv1D"


def _outputs_first(layer: Any) -> bool:
    return isinstance(layer, nn.Linear)  # transformers' Conv1D keeps weights (in, out)


def _size(layer: Any) -> int:
    """Outputs of a layer."""
    return int(layer.weight.shape[0 if _outputs_first(layer) else 1])


def reorder(layer: Any, index: Tensor, *, outputs: bool) -> None:
    """The outputs (or inputs) of a layer in another order."""
    index = index.to(layer.weight.device)
    layer.weight.copy_(layer.weight.index_select(0 if outputs == _outputs_first(layer) else 1, index))
    if outputs and layer.bias is not None:
        layer.bias.copy_(layer.bias[index])


def blocks(order: Tensor, size: int) -> Tensor:
    """Indices of whole blocks in that order."""
    return (order[:, None] * size + torch.arange(size)).flatten()


def shuffled(count: int, rng: torch.Generator) -> Tensor:
    """A permutation in which something moves, where something can."""
    order = torch.randperm(count, generator=rng)
    return order.roll(1) if bool((order == torch.arange(count)).all()) else order


# --- split layers ------------------------------------------------------------------------------------------


class Product(nn.Module):
    """A linear layer as two."""

    def __init__(self, weight: Tensor, bias: Tensor | None, rng: torch.Generator) -> None:
        super().__init__()
        mirror = householder(min(weight.shape), rng).to(weight)
        if weight.shape[1] <= weight.shape[0]:
            self.first, self.second = _linear(mirror), _linear(weight @ mirror, bias)
        else:
            self.first, self.second = _linear(mirror @ weight), _linear(mirror, bias)

    @property
    def weight(self) -> Tensor:
        """(out, in): some models look here to learn the dtype."""
        return self.second.weight @ self.first.weight

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.second(self.first(x))
        return out


class Sum(nn.Module):
    """A linear layer as the sum of two."""

    def __init__(self, weight: Tensor, bias: Tensor | None, rng: torch.Generator) -> None:
        super().__init__()
        part = weight * torch.rand(weight.shape, generator=rng).to(weight)
        half = None if bias is None else bias / 2
        self.first, self.second = _linear(part, half), _linear(weight - part, half)

    @property
    def weight(self) -> Tensor:
        """(out, in): some models look here to learn the dtype."""
        return self.first.weight + self.second.weight

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.first(x) + self.second(x)
        return out


def _linear(weight: Tensor, bias: Tensor | None = None) -> nn.Linear:
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias=False)  # draws, but from a fork: see `split`
    layer.weight = nn.Parameter(weight.detach().clone())
    if bias is not None:
        layer.bias = nn.Parameter(bias.detach().clone())
    return layer


def householder(size: int, rng: torch.Generator) -> Tensor:
    """(size, size) I - 2 v v' / v'v: orthogonal, symmetric, and dense."""
    v = torch.randn(size, generator=rng, dtype=torch.float64)
    return torch.eye(size, dtype=torch.float64) - 2 * torch.outer(v, v) / (v @ v)


def split(module: nn.Module, rng: torch.Generator, kind: type[Product] | type[Sum]) -> int:
    """Every linear layer replaced; a layer that stands in two places stays one layer."""
    made: dict[nn.Module, nn.Module] = {}
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        for parent, name, layer in list(_layers(module)):
            if layer not in made:
                weight = layer.weight if _outputs_first(layer) else layer.weight.t()
                made[layer] = kind(weight, layer.bias, rng).train(layer.training)
            setattr(parent, name, made[layer])
    return len(made)


def _layers(module: nn.Module) -> Iterator[tuple[nn.Module, str, Any]]:
    for parent in module.modules():
        for name, layer in parent._modules.items():  # named_children leaves out the second place of a layer
            if layer is not None and is_linear(layer):
                yield parent, name, layer


def as_products(module: nn.Module, rng: torch.Generator) -> int:
    if isinstance(module, OneLayerClassifier):
        mirror = householder(module.config.d_out, rng).to(module.value)
        with torch.no_grad():
            module.value.copy_(mirror @ module.value)
            module.readout.copy_(module.readout @ mirror)
        return 1
    return split(module, rng, Product)


def as_sums(module: nn.Module, rng: torch.Generator) -> int:
    return split(module, rng, Sum)


Change = Callable[[nn.Module, torch.Generator], int]
CHANGES: dict[str, Change] = {
    "heads permuted": permute_heads,
    "neurons permuted": permute_neurons,
    "layers as products": as_products,
    "layers as sums": as_sums,
}
