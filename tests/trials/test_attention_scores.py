"""What attention says: rows of the map from where the answer is read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import heedful
from heedful.trials.attention_scores import shown
from heedful.trials.examples import prepare
from heedful.trials.forward import predicted

TEXTS = ["the cat sat on the mat"]


def test_one_layer_shows_its_one_row(by_hand: Any) -> None:
    toy = by_hand({"cat": (2.0, 1.0), "dog": (-1.0, 0.0)}, "cat dog")
    said = shown(toy.cases, toy.cases.cases[0])
    np.testing.assert_allclose(said.layers, toy.weights[None], rtol=1e-5)
    assert said.words.tolist() == [False, True, True, False]
    assert list(said.views()) == ["layer 0"]
    assert said.readout.tolist() == [1.0]


def test_layers_are_head_means_of_the_rows_the_answer_is_read_from(shared: Any) -> None:
    """Oracle: the model's own maps. BERT reads at [CLS], GPT-2 at the last token, a mean pool everywhere."""
    for name in ("bert", "gpt2", "mean-pool"):
        cases = prepare(shared(name).model, TEXTS)
        case = cases.cases[0]
        said = shown(cases, case)
        maps = [layer.double().mean(0).numpy() for layer in cases.model.attention_only(case.x).attentions]
        if name == "mean-pool":
            assert (said.readout > 0).sum() > 2
            expected = [said.readout @ layer for layer in maps]
        else:
            expected = [layer[0 if name == "bert" else -1] for layer in maps]
        np.testing.assert_allclose(said.layers, expected, atol=1e-6)
        np.testing.assert_allclose(said.layers.sum(1), 1, atol=1e-5)
        np.testing.assert_allclose(said.views()["all layers"], np.mean(expected, 0), atol=1e-6)
        assert list(said.views()) == ["layer 0", "layer 1", "all layers", "rollout"]


def test_rollout_is_the_explainers(shared: Any) -> None:
    for name in ("bert", "bart-classifier"):
        cases = prepare(shared(name).model, TEXTS)
        case = cases.cases[0]
        said = shown(cases, case)
        assert said.stack == ("self" if name == "bert" else "cross")
        found = heedful.explain(cases.model, TEXTS[0], ["attention-rollout"], evidence=False)
        np.testing.assert_allclose(said.rollout, found["attention-rollout"].scores, atol=1e-6)


@pytest.mark.parametrize("name", ["bert", "bert-multi", "bert-regression", "gpt2"])
def test_it_is_about_what_the_model_predicts(shared: Any, name: str) -> None:
    cases = prepare(shared(name).model, TEXTS)
    case = cases.cases[0]
    target, own = predicted(cases, case), cases.model.target(case.x)
    assert (target.kind, target.index) == (own.kind, own.index)
