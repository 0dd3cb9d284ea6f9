"""The lab on random weights: its cascade against the library's own curve, and methods that pass or fail."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import heedful
from heedful.core import registry
from heedful.core.lab_report import Claim
from heedful.engine.question import run_explainer
from heedful.labs import sanity_checks as lab
from heedful.labs.base.registry import LabRun
from heedful.labs.data.reviews import reviews
from heedful.labs.models.relu_net import relu_net
from heedful.metrics.metric_input import MetricInput
from heedful.metrics.sanity import randomisation_curve

TEXT = "a gripping film with a weak and tired ending"


@pytest.fixture(scope="module")
def net() -> Any:
    words: Any = heedful.load("zoo:one-layer")
    return relu_net(reviews("train")[::6], words, 120, 0)


def held(run: LabRun) -> list[bool]:
    return [part.holds for part in run.parts if isinstance(part, Claim)]


def test_the_network_learns_and_hides_padding(net: Any) -> None:
    sentences = reviews("train")[::6]
    said = [net.target(net.encode(s.text)).index == s.label for s in sentences[::20]]
    assert np.mean(said) > 0.7
    import torch

    ids = torch.tensor([net.encode(TEXT).ids])
    more = torch.cat([ids, torch.full((1, 3), 7)], dim=1)
    mask = torch.ones_like(more)
    mask[:, ids.shape[1] :] = 0
    with torch.inference_mode():
        alone = net.module(net.module.embed(ids), torch.ones_like(ids))
        padded = net.module(net.module.embed(more), mask)
    torch.testing.assert_close(alone, padded)


def test_the_cascade_is_the_librarys_curve(net: Any) -> None:
    run = LabRun(seed=0)
    names, left = lab.cascade(run, net, [TEXT], ["grad-x-input"], 2)
    assert names == ["top", "hidden", "second", "first", "token"]
    assert left.shape == (5, 1, 2)
    ask, x = registry.get("grad-x-input"), net.encode(TEXT)
    item = run_explainer(ask, net, x, net.target(x))
    for draw in range(2):
        subject = MetricInput(net, item, lambda model, x, target, seed: run_explainer(ask, model, x, target))
        want = randomisation_curve(subject, seed=draw, most=None)
        assert left[:, 0, draw].tolist() == pytest.approx([stage.signed for stage in want])


def test_what_forgets_fails_and_what_stays_holds() -> None:
    layers = ["top", "hidden", "second", "first", "token"]
    rng = np.random.default_rng(0)
    left = rng.normal(0, 0.05, (5, 4, 6))
    run = LabRun()
    lab.of_relu(run, lab.OF_RELU, layers, left)
    assert held(run) == [False, False, False]
    left[:3, 0] += 0.6  # guided backpropagation stays until the first convolution goes
    stays = LabRun()
    lab.of_relu(stays, lab.OF_RELU, layers, left)
    assert held(stays) == [True, True, True]
    left[-1, 0] += 0.6  # and then stays even so
    too_long = LabRun()
    lab.of_relu(too_long, lab.OF_RELU, layers, left)
    assert held(too_long)[2] is False


def test_attention_that_stays_fails() -> None:
    left = np.random.default_rng(0).normal(0.9, 0.02, (3, 4, 4))
    run = LabRun()
    lab.of_bert(run, lab.OF_BERT, ["classifier", "bert.pooler", "bert.encoder.layer.3"], left)
    assert held(run) == [False]
