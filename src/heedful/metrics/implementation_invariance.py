"""Networks that compute the same function in another way, built from the user's network.

    heads permuted          attention: blocks of rows of W_q, W_k, W_v and of columns of W_o change places
    neurons permuted        MLP: rows of W_in (and W_gate) and columns of W_out change places
    layers as products      W x + b = (W H) (H x) + b,  H = I - 2 v v' / v'v, its own inverse
    layers as sums          W x + b = (U x + b/2) + ((W - U) x + b/2)

    implementation-invariance = mean over such twins of |phi(twin) - phi(x)| / |phi(x)|;  0 is the best

Two networks with equal outputs for all inputs should have equal explanations. A twin counts only if its
outputs are equal (to MAX_OUTPUT_CHANGE) for the text and for the text without each of a few words; otherwise
it is skipped, with the reason. Outputs are equal except for rounding, so in float32 a value of 1e-6 is zero;
a method that stops at a tolerance may differ by that tolerance. A method that reads weights layer by layer,
or treats heads one by one, can fail.

There is no list of architectures. Attention and MLPs are recognised by the shapes of their linear layers,
    attention   three layers side by side and one that takes what the first gives (d -> HD, 2 of d -> KD,
                HD -> d), or one that gives three times what the second takes; K < H: grouped queries, which
                move with their keys. H is read from the attention maps
    MLP         one or two layers side by side and one that takes what they give, d -> h -> d
and linear layers by what they compute; these are replaced everywhere. If a layer is recognised wrongly, the
outputs change and the twin is skipped. The one-layer classifier has no linear modules; H is put between its
values and read-out.

Cost: one explanation and one copy of the model per twin. Sundararajan, Taly & Yan 2017.
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
from heedful.core.registry import MetricRows, metric
from heedful.core.target import Target
from heedful.metrics.metric_input import MetricInput
from heedful.metrics.robustness import own_seed
from heedful.models.model_copies import can_copy, copied
from heedful.nn.one_layer import OneLayerClassifier

MAX_OUTPUT_CHANGE = 1e-5
COMPARED_WORDS = 8  # removed one at a time to compare outputs


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
    needs={"text"},
    expensive=True,
    rows=lambda model, x, target, unit: _rows(model, x),
)
def implementation_invariance(subject: MetricInput, rng: np.random.Generator) -> float:
    """How far the scores differ between networks that compute the same function, relative to their size.

    Limitations: Only networks that were built to compute the same function are compared. The metric says
    nothing about weights from different training runs.
    """
    scores, item = subject.scores, subject.item
    if not scores.any() or not can_copy(subject.model):
        return float("nan")
    gaps = []
    for twin in twins(subject.model, item.x, item.target, int(rng.integers(2**31))).found:
        again = subject.again(twin.model, item.x, item.target, own_seed(subject))
        gaps.append(float(np.linalg.norm(again.unit_scores(subject.units.name) - scores)))
    return float(np.mean(gaps) / np.linalg.norm(scores)) if gaps else float("nan")


def _rows(model: Model, x: Input) -> MetricRows:
    """Outputs of the model and of every twin, one look at the heads, one explanation per twin."""
    compared = 1 + min(COMPARED_WORDS, len(x.units("word")))
    return (
        MetricRows((1 + len(CHANGES)) * compared, 1, len(CHANGES) * (x,)) if can_copy(model) else MetricRows()
    )


def twins(model: Model, x: Input, target: Target, seed: int = 0) -> Twins:
    """Every change that applies to the model, each on a copy of its own, held to the model's outputs."""
    wanted, heads = outputs(model, x, target), head_count(model, x, target)
    result, left_out = [], {}
    for name, change in CHANGES.items():
        copy = copied(model)
        places = change(copy.module, torch.Generator().manual_seed(seed), heads)
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
            result.append(Twin(name, other, places, gap))
    return Twins(tuple(result), left_out)


def outputs(model: Model, x: Input, target: Target) -> Floats:
    """f of the text, and of the text less one word, for a few words."""
    d = len(x.units("word"))
    keep = np.concatenate([np.ones((1, d), dtype=bool), ~np.eye(d, dtype=bool)[:COMPARED_WORDS]])
    return model.values(x, target, keep)


def head_count(model: Model, x: Input, target: Target) -> int:
    """Heads of a layer, as its attention maps show; 0 where they cannot be seen."""
    return 0 if model.lacks(["attentions"]) else len(model.trace(x, target).attentions[0])


# --- permutations: each change works in place, and returns the number of layers it changed -----------------


@torch.no_grad()
def permute_heads(module: nn.Module, rng: torch.Generator, heads: int) -> int:
    if isinstance(module, OneLayerClassifier):
        order = shuffled(module.config.heads, rng)
        for weight in (module.query, module.key, module.value, module.readout):
            weight.copy_(weight[order])
        return int(len(order) > 1)
    return sum(_permute_attention(layers, heads, rng) for layers in _attention(module))


def _permute_attention(layers: Sequence[nn.Module], heads: int, rng: torch.Generator) -> int:
    *into, out = layers
    width = _inputs(out)
    shared = (
        heads * min(map(_size, into)) // width if len(into) == 3 else heads
    )  # of grouped queries, the keys'
    if shared < 2 or any(_size(layer) % shared for layer in into) or width % shared:
        return 0
    order = shuffled(shared, rng)
    for layer in into:
        size = _size(layer) if len(into) == 3 else width  # or queries, keys and values in one layer
        index = blocks(order, size // shared)
        reorder(layer, torch.cat([index + start for start in range(0, _size(layer), size)]), outputs=True)
    reorder(out, blocks(order, width // shared), outputs=False)
    return 1


@torch.no_grad()
def permute_neurons(module: nn.Module, rng: torch.Generator, _heads: int = 0) -> int:
    if isinstance(module, OneLayerClassifier):  # no MLP: the coordinates of the values
        order = shuffled(module.config.d_out, rng)
        module.value.copy_(module.value[:, order])
        module.readout.copy_(module.readout[:, :, order])
        return int(len(order) > 1)
    changed = 0
    for *into, out in _mlps(module):
        order = shuffled(_inputs(out), rng)
        for layer in into:
            reorder(layer, order, outputs=True)
        reorder(out, order, outputs=False)
        changed += 1
    return changed


# --- what a model is made of -------------------------------------------------------------------------------


def _attention(module: nn.Module) -> list[tuple[nn.Module, ...]]:
    """The linear layers of each attention, the one that gives its output last."""
    return _parts(module, _attends, set())


def _mlps(module: nn.Module) -> list[tuple[nn.Module, ...]]:
    """The linear layers of each MLP, the one that gives its output last."""
    return _parts(module, _mixes_neurons, {layer for layers in _attention(module) for layer in layers})


def _parts(
    module: nn.Module, fits: Callable[[Sequence[nn.Module]], bool], others: set[nn.Module]
) -> list[tuple[nn.Module, ...]]:
    """Linear layers, in the order they are defined, of every part whose layers but `others` fit."""
    linear = {layer for layer in module.modules() if is_linear(layer)} - others
    each = (tuple(layer for layer in part.modules() if layer in linear) for part in module.modules())
    return [layers for layers in dict.fromkeys(each) if fits(layers)]


def _attends(layers: Sequence[nn.Module]) -> bool:
    *into, out = layers or (None,)
    if len(into) == 1:
        return _size(into[0]) == 3 * _inputs(out)
    sizes = sorted(map(_size, into))
    return len(into) == 3 and sizes[0] == sizes[1] and sizes[2] == _inputs(out) and sizes[2] % sizes[0] == 0


def _mixes_neurons(layers: Sequence[nn.Module]) -> bool:
    *into, out = layers or (None,)
    return len(into) in (1, 2) and all(
        _size(layer) == _inputs(out) and _inputs(layer) == _size(out) for layer in into
    )


def is_linear(layer: nn.Module) -> bool:
    """A torch linear layer, or another that computes W x + b; not a subclass, which may read its weight in
    other ways."""
    return type(layer) is nn.Linear or _inputs_first(layer)


def _inputs_first(layer: Any) -> bool:
    """Whether it computes x W + b, its weight (in, out), as transformers' Conv1D does; seen by running it."""
    weight, bias = getattr(layer, "weight", None), getattr(layer, "bias", None)
    if isinstance(layer, nn.Linear) or not isinstance(weight, nn.Parameter) or weight.ndim != 2:
        return False
    if len(list(layer.parameters())) > 1 + (bias is not None) or next(layer.children(), None) is not None:
        return False
    x = torch.arange(len(weight)).cos()[None].to(weight)
    try:
        with torch.no_grad():
            wanted = x @ weight if bias is None else x @ weight + bias
            given = layer(x)
    except (AttributeError, IndexError, RuntimeError, TypeError, ValueError):
        return False
    return (
        isinstance(given, Tensor)
        and given.shape == wanted.shape
        and torch.allclose(given, wanted, atol=MAX_OUTPUT_CHANGE)
    )


def _outputs_first(layer: Any) -> bool:
    return isinstance(layer, nn.Linear)


def _size(layer: Any) -> int:
    """Outputs of a layer."""
    return int(layer.weight.shape[0 if _outputs_first(layer) else 1])


def _inputs(layer: Any) -> int:
    return int(layer.weight.shape[1 if _outputs_first(layer) else 0])


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


def as_products(module: nn.Module, rng: torch.Generator, _heads: int = 0) -> int:
    if isinstance(module, OneLayerClassifier):
        mirror = householder(module.config.d_out, rng).to(module.value)
        with torch.no_grad():
            module.value.copy_(mirror @ module.value)
            module.readout.copy_(module.readout @ mirror)
        return 1
    return split(module, rng, Product)


def as_sums(module: nn.Module, rng: torch.Generator, _heads: int = 0) -> int:
    return split(module, rng, Sum)


Change = Callable[[nn.Module, torch.Generator, int], int]  # a module, and the heads of its layers
CHANGES: dict[str, Change] = {
    "heads permuted": permute_heads,
    "neurons permuted": permute_neurons,
    "layers as products": as_products,
    "layers as sums": as_sums,
}
