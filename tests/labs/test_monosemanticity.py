"""The monosemanticity lab: its claims on planted dictionaries and figures, and where they fail."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from heedful.core.evidence import MeasuredValue
from heedful.core.lab_report import Claim, Paragraph
from heedful.features.activations.eval_windows import activations, corpus
from heedful.features.measures.quality import Measured
from heedful.features.measures.splitting import split
from heedful.features.measures.universality import Likeness, Universality
from heedful.features.sae.autoencoder import SAE
from heedful.features.sae.config import Config
from heedful.labs import LabRun
from heedful.labs import monosemanticity as lab

D = 64


def dictionary(directions: torch.Tensor, d: int = D) -> SAE:
    width = len(directions)
    config = Config("topk", d, width, k=width)
    return SAE(config, directions.T.contiguous(), torch.zeros(width), directions, torch.zeros(d))


def held(run: LabRun) -> list[bool]:
    return [part.holds for part in run.parts if isinstance(part, Claim)]


@pytest.mark.parametrize(("noise", "expected"), [(0.02, True), (3.0, False)])
def test_split_features_are_told_from_unrelated_ones(noise: float, expected: bool) -> None:
    """Wider dictionaries hold every feature four times, slightly turned; or turned beyond recognition."""
    rng = torch.Generator().manual_seed(7)  # the control draws from seeds of its own
    saes = [torch.nn.functional.normalize(torch.randn(20, D, generator=rng), dim=1)]
    for _ in range(2):
        many = saes[-1].repeat_interleave(4, 0)
        many = many + noise * torch.randn(many.shape, generator=rng)
        saes.append(torch.nn.functional.normalize(many, dim=1))
    run = LabRun()
    names = [[f"“{number}”" for number in range(len(one))] for one in saes]
    lab.splitting(run, split([dictionary(one) for one in saes], seed=0), names)
    assert held(run) == [expected, expected]


def measured(value: float, random: float = 0.1) -> Measured:
    figure = MeasuredValue(value, value - 0.02, value + 0.02)
    names = ("recovered (zero)", "recovered (mean)", "explained", "dead")
    controls = {"random dictionary": dict.fromkeys(names, random)}
    return Measured(dict.fromkeys(names, figure), controls, {}, {})


@pytest.mark.parametrize(
    ("values", "random", "expected"),
    [
        ((0.3, 0.5, 0.95), 0.1, [True, True, True]),
        ((0.95, 0.95, 0.95), 0.1, [True, True, False]),  # width does not matter
        ((0.1, 0.2, 0.4), 0.1, [False, False, True]),  # less than half
        ((0.3, 0.5, 0.8), 0.1, [False, True, True]),  # less than nine tenths
        ((0.3, 0.5, 0.95), 0.97, [False, False, True]),  # a random dictionary does better
    ],
)
def test_loss_recovered(values: tuple[float, ...], random: float, expected: list[bool]) -> None:
    run = LabRun()
    lab.recovered(run, [measured(value, random) for value in values], lab.FAST)
    assert held(run) == expected


@pytest.mark.parametrize(
    ("neurons", "random", "expected", "told"),
    [
        (0.4, 0.3, [True], "are above those of neurons"),
        (0.7, 0.3, [True], "overlapping intervals"),
        (0.9, 0.8, [False], "are below those of neurons"),
    ],
)
def test_universality(neurons: float, random: float, expected: list[bool], told: str) -> None:
    values = {"features": 0.7, "back": 0.7, "neurons": neurons, "random": random, "shuffled": 0.05}
    figures = {name: MeasuredValue(value, value - 0.02, value + 0.02) for name, value in values.items()}
    run = LabRun()
    lab.universality(run, Universality(figures, Likeness(np.zeros(1), np.zeros(1)), {}))
    assert held(run) == expected
    assert any(isinstance(part, Paragraph) and told in part.text for part in run.parts)


def test_a_feature_is_named_by_the_token_on_which_it_is_strongest() -> None:
    """One dictionary direction is a neuron; the token is found by reading the neuron itself."""
    model = lab.language_model(LabRun(), replace(lab.FAST, vocab=300, width=8, steps=2), 0)
    texts = ["My fellow citizens, we the people of the Union.", "Tonight I ask you to vote for peace."]
    found = corpus(model, texts, context=16)
    neurons = dictionary(torch.eye(32), d=32)
    names = lab.strongest(neurons, model, found)
    rows, ids = [], []
    for batch, seen in activations(model, found, [lab.SITE]):
        rows.append(seen[lab.SITE][batch.keep])
        ids.append(batch.ids[batch.keep])
    best = torch.cat(rows).max(0)
    tops = [model.tokenizer.decode([i]) for i in torch.cat(ids)[best.indices].tolist()]
    assert names == [f"“{top}”" if value > 0 else "" for top, value in zip(tops, best.values, strict=True)]
    assert len(set(names)) > 3


def test_models_of_two_seeds_differ_and_read_the_same_tokens() -> None:
    sizes = replace(lab.FAST, vocab=300, width=8, steps=2)
    one, two = (lab.language_model(LabRun(), sizes, seed) for seed in (0, 1))
    text = "My fellow citizens"
    assert one.tokenizer(text)["input_ids"] == two.tokenizer(text)["input_ids"]
    assert one.facts()["fingerprint"] != two.facts()["fingerprint"]
    assert one.backend.module.config.activation_function == "relu"
