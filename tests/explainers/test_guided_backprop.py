"""Guided backpropagation against captum, and by hand on ReLU networks whose ReLUs are called in every way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from captum.attr import GuidedBackprop
from torch import nn
from torch.nn import functional

import heedful
from heedful.engine.question import run_explainer


class Net(nn.Module):
    """Embedding -> Linear -> ReLU -> Linear -> ReLU -> mean over tokens -> Linear."""

    def __init__(self, words: int) -> None:
        super().__init__()
        self.table = nn.Embedding(words, 8)
        self.body = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU())
        self.head = nn.Linear(16, 2)

    def embed(self, ids: torch.Tensor) -> torch.Tensor:
        return self.table(ids)

    def forward(
        self, inputs_embeds: torch.Tensor, attention_mask: torch.Tensor | None = None
    ) -> torch.Tensor:
        return self.head(self.body(inputs_embeds).mean(1))


class Functional(Net):
    """The same network without ReLU modules: it calls a function instead, twice."""

    relu: Callable[[torch.Tensor], torch.Tensor]

    def forward(
        self, inputs_embeds: torch.Tensor, attention_mask: torch.Tensor | None = None
    ) -> torch.Tensor:
        hidden = self.relu(self.body[0](inputs_embeds))
        return self.head(self.relu(self.body[2](hidden)).mean(1))


def _halves(z: torch.Tensor) -> torch.Tensor:
    """In place, on a view of a tensor that is read as a whole."""
    z = z.clone()
    z[..., :5].relu_()
    return torch.cat([z[..., :5], z[..., 5:].relu()], -1)


def _modules(z: torch.Tensor) -> torch.Tensor:
    return nn.ReLU(inplace=True)(z + 0)


RELUS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "F.relu": functional.relu,
    "F.relu in place": lambda z: functional.relu(z + 0, inplace=True),
    "F.relu in place, by position": lambda z: functional.relu(z + 0, True),
    "F.relu_": lambda z: functional.relu_(z + 0),
    "torch.relu": torch.relu,
    "torch.relu_": lambda z: torch.relu_(z + 0),
    "Tensor.relu": lambda z: z.relu(),
    "Tensor.relu_": lambda z: (z + 0).relu_(),
    "torch.clamp": lambda z: torch.clamp(z, min=0),
    "Tensor.clamp": lambda z: z.clamp(0.0),
    "Tensor.clamp_": lambda z: (z + 0).clamp_(min=0),
    "clamp_min": lambda z: z.clamp_min(0),
    "clamp_min_": lambda z: torch.clamp_min_(z + 0, 0),
    "by name": lambda z: torch.relu(input=z),
    "views": _halves,
    "module in place": _modules,
}


@pytest.fixture
def net(shared: Any) -> Any:
    return loaded(shared, Net)


def loaded(shared: Any, kind: type[Net], seed: int = 0) -> Any:
    tokenizer = shared("bert").tokenizer
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        module = kind(len(tokenizer)).double()
    return heedful.load(module, tokenizer=tokenizer, labels=["no", "yes"])


def by_hand(module: Net, embeds: torch.Tensor, index: int, top: float = np.inf) -> np.ndarray:
    """(T,): the backward pass in numpy, layer by layer; `top` is where ReLUs are cut above."""
    e = embeds.detach().numpy()  # (T, d)
    (w1, b1), (w2, b2) = (
        (module.body[i].weight.detach().numpy(), module.body[i].bias.detach().numpy()) for i in (0, 2)
    )
    z1 = e @ w1.T + b1
    z2 = np.clip(z1, 0, top) @ w2.T + b2
    dh2 = np.broadcast_to(module.head.weight.detach().numpy()[index] / len(e), z2.shape)
    dh1 = (dh2 * (z2 > 0) * (z2 < top) * (dh2 > 0)) @ w2
    return np.asarray(((dh1 * (z1 > 0) * (z1 < top) * (dh1 > 0)) @ w1 * e).sum(-1))


@pytest.mark.parametrize("way", RELUS)
def test_a_relu_counts_however_it_is_called(shared: Any, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Written with modules or with functions: equal scores, and those of a backward pass by hand."""
    monkeypatch.setattr(Functional, "relu", staticmethod(RELUS[way]), raising=False)
    for seed in (11, 12, 13):
        written, modules = (loaded(shared, kind, seed) for kind in (Functional, Net))
        assert "relu" in written.capabilities
        x = modules.encode("the cat sat on the mat")
        target = modules.target(x)
        ours = run_explainer("guided-backprop", written, x, target)
        expected = by_hand(modules.module, modules.lookup(x, target), target.index)
        np.testing.assert_allclose(ours.scores, expected, rtol=1e-10, atol=1e-14)
        np.testing.assert_allclose(
            run_explainer("guided-backprop", modules, x, target).scores, expected, rtol=1e-10, atol=1e-14
        )
        embeds = modules.lookup(x, target)
        (grad,) = written.gradients(x, target, embeds[None])[1]
        plain = (grad * embeds).sum(-1).numpy()
        assert np.abs(ours.scores - plain).max() > 1e-3  # the rule ends with the method


CUT: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "F.relu6": lambda z: functional.relu6(z * 20) / 20,
    "F.relu6 in place": lambda z: functional.relu6(z * 20, inplace=True) / 20,
    "module": lambda z: nn.ReLU6()(z * 20) / 20,
    "module in place": lambda z: nn.ReLU6(True)(z * 20) / 20,
    "clamp": lambda z: z.clamp(0, 0.3),
    "clamp_": lambda z: (z + 0).clamp_(min=0, max=0.3),
    "F.hardtanh": lambda z: functional.hardtanh(z, 0.0, 0.3),
    "F.hardtanh_": lambda z: functional.hardtanh_(z + 0, min_val=0.0, max_val=0.3),
}


@pytest.mark.parametrize("way", CUT)
def test_a_relu_that_is_cut_above(shared: Any, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """ReLU6 and its kin stop the gradient above, too; scaled so that a good part of the units is cut."""
    monkeypatch.setattr(Functional, "relu", staticmethod(CUT[way]), raising=False)
    for seed in (11, 12):
        written = loaded(shared, Functional, seed)
        assert "relu" in written.capabilities
        x = written.encode("the cat sat on the mat")
        target = written.target(x)
        embeds = written.lookup(x, target)
        ours = run_explainer("guided-backprop", written, x, target).scores
        np.testing.assert_allclose(
            ours, by_hand(written.module, embeds, target.index, 0.3), rtol=1e-10, atol=1e-14
        )
        assert np.abs(ours - by_hand(written.module, embeds, target.index)).max() > 1e-3


@pytest.mark.parametrize(
    "other", [functional.gelu, lambda z: z.clamp(min=-1.0), functional.hardtanh, torch.tanh]
)
def test_what_is_no_relu_is_no_relu(shared: Any, other: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Functional, "relu", staticmethod(other), raising=False)
    written = loaded(shared, Functional)
    assert "relu" not in written.capabilities
    with pytest.raises(heedful.HeedfulError, match="it needs ReLUs"):
        heedful.explain(written, "the cat", ["guided-backprop"])


def test_equals_captum(net: Any) -> None:
    x = net.encode("the cat sat on the mat")
    target = net.target(x)
    ours = run_explainer("guided-backprop", net, x, target)
    embeds = net.lookup(x, target)[None].requires_grad_(True)
    with pytest.warns(UserWarning, match="backward hooks on ReLU"):
        theirs = GuidedBackprop(net.module).attribute(embeds, target=target.index)
    np.testing.assert_allclose(
        ours.scores, (theirs * embeds).sum(-1)[0].detach().numpy(), rtol=1e-10, atol=1e-14
    )


def test_differs_from_the_plain_gradient_and_leaves_no_hook(net: Any) -> None:
    x = net.encode("the cat sat on the mat")
    target = net.target(x)
    guided = run_explainer("guided-backprop", net, x, target).scores
    plain = heedful.explain(net, x, ["grad-x-input"])["grad-x-input"].scores
    assert np.abs(guided - plain).max() > 1e-3
    assert not any(part._forward_hooks for part in net.module.modules())


def test_offered_where_there_are_relus(shared: Any) -> None:
    assert "relu" in shared("t5").model.capabilities
    with pytest.raises(heedful.HeedfulError, match="it needs ReLUs"):
        heedful.explain(shared("bert").model, "the cat", ["guided-backprop"])


def test_the_variant_size_is_the_gradient_itself(net: Any) -> None:
    """captum's own output, before any product with the input."""
    x = net.encode("the cat sat on the mat")
    target = net.target(x)
    ours = run_explainer("guided-backprop", net, x, target, variant="size")
    embeds = net.lookup(x, target)[None].requires_grad_(True)
    with pytest.warns(UserWarning, match="backward hooks on ReLU"):
        theirs = GuidedBackprop(net.module).attribute(embeds, target=target.index)
    expected = theirs.abs().sum(-1)[0].detach().numpy()
    np.testing.assert_allclose(ours.scores, expected, rtol=1e-10, atol=1e-14)
    assert not ours.signed
    with pytest.raises(heedful.HeedfulError, match="no variant 'both'"):
        run_explainer("guided-backprop", net, x, target, variant="both")
