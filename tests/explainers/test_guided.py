"""Guided backpropagation against captum, and by hand on a ReLU network."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from captum.attr import GuidedBackprop
from torch import nn

import heedful
from heedful.explainers.guided import guided_backprop


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


@pytest.fixture
def net(shared: Any) -> Any:
    tokenizer = shared("bert").tokenizer
    torch.manual_seed(0)
    return heedful.load(Net(len(tokenizer)).double(), tokenizer=tokenizer, labels=["no", "yes"])


def test_equals_captum(net: Any) -> None:
    x = net.encode("the cat sat on the mat")
    target = net.target(x)
    ours = guided_backprop(net, x, target)
    embeds = net.lookup(x, target)[None].requires_grad_(True)
    with pytest.warns(UserWarning, match="backward hooks on ReLU"):
        theirs = GuidedBackprop(net.module).attribute(embeds, target=target.index)
    np.testing.assert_allclose(
        ours.scores, (theirs * embeds).sum(-1)[0].detach().numpy(), rtol=1e-10, atol=1e-14
    )


def test_differs_from_the_plain_gradient_and_leaves_no_hook(net: Any) -> None:
    x = net.encode("the cat sat on the mat")
    target = net.target(x)
    guided = guided_backprop(net, x, target).scores
    plain = heedful.explain(net, x, ["grad-x-input"])["grad-x-input"].scores
    assert np.abs(guided - plain).max() > 1e-3
    assert not any(part._forward_hooks for part in net.module.modules())


def test_offered_where_there_are_relus(shared: Any) -> None:
    assert "relu" in shared("t5").model.capabilities
    with pytest.raises(heedful.HeedfulError, match="it needs ReLU modules"):
        heedful.explain(shared("bert").model, "the cat", ["guided-backprop"])
