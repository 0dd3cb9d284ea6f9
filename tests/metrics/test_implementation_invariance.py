"""Twins: each change by hand, equal outputs in every family, and methods that can and cannot tell them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import heedful
from heedful import checks
from heedful.checks.known_models import stack_model, textbook_model
from heedful.checks.module_state import changes, noticed
from heedful.core import registry
from heedful.engine.question import run_explainer
from heedful.metrics import implementation_invariance as e
from heedful.metrics.metric_input import MetricInput
from heedful.nn.attention import MultiHeadAttention
from heedful.nn.blocks import MLP

TEXT = "the cat sat on the mat"
RECOGNISED = {
    "bert": 4,
    "mean-pool": 4,
    "distilbert": 4,
    "roberta": 4,
    "gpt2": 4,
    "gpt2-classifier": 4,
    "llama": 4,
    "llama-classifier": 4,
    "bart": 4,
    "bart-classifier": 4,
    "t5": 3,
    "t5-classifier": 3,
}


def draw() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def subject_of(model: Any, method: str, **params: Any) -> MetricInput:
    entry = registry.get(method)
    x = model.encode(TEXT)
    target = model.target(x)
    item = run_explainer(entry, model, x, target, **params)
    return MetricInput(model, item, lambda m, y, t, seed: run_explainer(entry, m, y, t, **params))


@pytest.mark.parametrize("name", RECOGNISED)
def test_every_family_has_twins_that_answer_alike(name: str, shared: Any) -> None:
    model = shared(name).model
    x = model.encode(TEXT)
    target = checks.conventions.target_of(model, x)
    before = noticed(model.module)
    found = e.twins(model, x, target)
    assert not changes(before, noticed(model.module))
    assert len(found.found) == RECOGNISED[name], found.left_out
    for twin in found.found:
        assert twin.gap <= e.MAX_OUTPUT_CHANGE
        assert twin.places > 0
        mine, theirs = (dict(m.module.named_parameters()) for m in (model, twin.model))
        differ = mine.keys() != theirs.keys() or any(not torch.equal(mine[k], theirs[k]) for k in mine)
        assert differ, f"{twin.name} changed nothing"


def test_a_twin_that_answers_otherwise_is_left_out(shared: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model = shared("bert").model

    def spoil(module: Any, rng: torch.Generator, heads: int) -> int:
        with torch.no_grad():
            module.classifier.weight.add_(0.01)
        return 1

    def broken(module: Any, rng: torch.Generator, heads: int) -> int:
        module.classifier = nn.Linear(1, 1)
        return 1

    monkeypatch.setattr(
        e, "CHANGES", {"spoilt": spoil, "broken": broken, "none": lambda module, rng, heads: 0}
    )
    x = model.encode(TEXT)
    found = e.twins(model, x, model.target(x))
    assert not found.found
    assert found.left_out["spoilt"].startswith("outputs differ by")
    assert found.left_out["broken"].startswith("the changed model does not run")
    assert found.left_out["none"] == "no part of the model was recognised"
    assert np.isnan(e.implementation_invariance(subject_of(model, "grad-l2"), np.random.default_rng(0)))


def test_heads_change_places_and_the_output_does_not() -> None:
    layer = MultiHeadAttention(12, 3).double()
    x = torch.randn(2, 5, 12, generator=draw(), dtype=torch.float64)
    before = layer(x)
    assert e.permute_heads(layer, draw(), 3) == 1
    after = layer(x)
    torch.testing.assert_close(after.out, before.out)
    order = e.shuffled(3, draw())
    torch.testing.assert_close(after.weights, before.weights[:, order])
    assert not torch.allclose(after.weights, before.weights)


def test_grouped_queries_move_with_their_keys(shared: Any) -> None:
    model = shared("llama").model
    config = model.module.config
    assert config.num_key_value_heads < config.num_attention_heads, "or this family shows nothing"
    x = model.encode(TEXT)
    found = e.twins(model, x, checks.conventions.target_of(model, x))
    assert "heads permuted" in {twin.name for twin in found.found}


@pytest.mark.parametrize("activation", ["gelu", "relu", "solu"])
def test_neurons_change_places_and_the_output_does_not(activation: str) -> None:
    layer = MLP(6, activation=activation).double()
    x = torch.randn(3, 6, generator=draw(), dtype=torch.float64)
    before, weights = layer(x), layer.up.weight.clone()
    assert e.permute_neurons(layer, draw()) == 1
    torch.testing.assert_close(layer(x), before)
    assert not torch.equal(layer.up.weight, weights)


class Sideways(nn.Module):
    """x W + b, as some libraries keep their weights."""

    def __init__(self, into: int, out: int, size: float = 1.0) -> None:
        super().__init__()
        self.weight, self.bias = (
            nn.Parameter(torch.randn(into, out, generator=draw())),
            nn.Parameter(torch.ones(out)),
        )
        self.size = size

    def forward(self, x: Any) -> Any:
        return self.size * x @ self.weight + self.bias


class Unnamed(nn.Module):
    """A block whose names say nothing: grouped queries in a part of their own, the MLP beside it."""

    def __init__(self) -> None:
        super().__init__()
        layers = {"p": nn.Linear(8, 4), "q": nn.Linear(8, 4), "r": Sideways(8, 8), "s": Sideways(8, 8)}
        self.first, self.t, self.u = nn.ModuleDict(layers), Sideways(8, 20), nn.Linear(20, 8)

    def forward(self, x: Any) -> Any:
        query = self.first["r"](x).unflatten(-1, (2, 2, 2))  # (T, groups, heads, size)
        key, value = (self.first[name](x).unflatten(-1, (2, 2)) for name in "pq")
        weights = torch.einsum("qghd,kgd->ghqk", query, key).softmax(-1)
        x = x + self.first["s"](torch.einsum("ghqk,kgd->qghd", weights, value).flatten(1))
        return x + self.u(self.t(x).tanh())


def test_parts_are_recognised_whatever_they_are_called() -> None:
    block = Unnamed().double()
    x = torch.randn(5, 8, generator=draw(), dtype=torch.float64)
    before, own = block(x), {name: weight.clone() for name, weight in block.named_parameters()}
    assert e.permute_heads(block, draw(), 4) == 1
    assert e.permute_neurons(block, draw()) == 1
    torch.testing.assert_close(block(x), before)
    moved = {name for name, weight in block.named_parameters() if not torch.equal(weight, own[name])}
    assert {*(f"first.{part}.weight" for part in "pqrs"), "t.weight", "u.weight"} <= moved


def test_a_layer_is_linear_by_what_it_computes() -> None:
    assert e.is_linear(nn.Linear(3, 3))
    assert e.is_linear(Sideways(3, 4))
    assert not e.is_linear(Sideways(3, 4, size=2.0))
    assert not e.is_linear(nn.Embedding(3, 4))


@pytest.mark.parametrize("kind", [e.Product, e.Sum])
@pytest.mark.parametrize(("into", "out", "bias"), [(7, 3, True), (3, 7, False), (4, 4, True)])
def test_a_split_layer_is_the_layer(kind: Any, into: int, out: int, bias: bool) -> None:
    module = nn.Sequential(nn.Linear(into, out, bias=bias), nn.Tanh()).double()
    x = torch.randn(5, into, generator=draw(), dtype=torch.float64)
    before, weight, state = module(x), module[0].weight, torch.get_rng_state()
    assert e.split(module, draw(), kind) == 1
    assert isinstance(module[0], kind)
    torch.testing.assert_close(module(x), before)
    torch.testing.assert_close(module[0].weight, weight)
    for part in (module[0].first.weight, module[0].second.weight):
        for plain in (weight, torch.eye(len(part), part.shape[1], dtype=torch.float64)):
            assert part.shape != plain.shape or not torch.allclose(part, plain)
    assert torch.equal(torch.get_rng_state(), state)


def test_a_layer_in_two_places_stays_one_layer() -> None:
    layer = nn.Linear(3, 3)
    module = nn.Sequential(layer, nn.Tanh(), layer)
    assert e.split(module, draw(), e.Product) == 1
    assert module[0] is module[2]


def test_a_mirror_is_its_own_inverse() -> None:
    mirror = e.householder(5, draw())
    torch.testing.assert_close(mirror @ mirror, torch.eye(5, dtype=torch.float64))
    assert int((mirror.abs() > 1e-3).sum()) == 25


def test_one_layer_classifier_has_twins() -> None:
    model = textbook_model()
    x = model.encode(TEXT)
    found = e.twins(model, x, model.target(x))
    assert [twin.name for twin in found.found] == ["heads permuted", "neurons permuted", "layers as products"]
    assert all(twin.gap < 1e-12 for twin in found.found)


@pytest.mark.parametrize("method", ["occlusion", "grad-x-input", "integrated-gradients", "attention-avg"])
def test_methods_that_see_the_function_or_all_heads_cannot_tell_twins_apart(method: str) -> None:
    assert e.implementation_invariance(subject_of(stack_model(), method), np.random.default_rng(0)) < 1e-9


def test_relevance_rules_can(shared: Any) -> None:
    """Relevance is handed down layer by layer, so splitting a layer changes it (Sundararajan et al.)."""
    subject = subject_of(shared("bert").model, "chefer-lrp")
    assert e.implementation_invariance(subject, np.random.default_rng(0)) > 1e-3


def test_by_hand() -> None:
    """An explanation of the first head alone differs where heads change places, and nowhere else."""
    model = stack_model()

    def first_head(m: Any, x: Any, target: Any, seed: int) -> Any:
        trace = m.trace(x, target)
        return replace(
            run_explainer("random", m, x, target), scores=trace.attentions[0][0, 0].double().numpy()
        )

    x = model.encode(TEXT)
    target = model.target(x)
    subject = MetricInput(model, first_head(model, x, target, 0), first_head)
    heads = [head[0].double().numpy()[1:-1] for head in model.trace(x, target).attentions[0]]
    wanted = np.linalg.norm(heads[1] - heads[0]) / np.linalg.norm(heads[0])
    found = e.implementation_invariance(subject, np.random.default_rng(0))
    assert found == pytest.approx(wanted / 4)  # one twin of four; two heads can only swap


def test_nothing_is_said_of_functions() -> None:
    model = heedful.load(lambda texts: [float(len(text)) for text in texts])
    assert np.isnan(e.implementation_invariance(subject_of(model, "occlusion"), np.random.default_rng(0)))
