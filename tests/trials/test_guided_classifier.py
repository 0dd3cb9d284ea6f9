"""Guides of a token-wise network: perfect where they point at the word that decides."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import torch

from heedful.nn.train import TrainConfig
from heedful.trials.batches import PaddedTexts, rows
from heedful.trials.tests.guided_classifier import TokenWise, guide, shuffled, train_guided, weights_of
from heedful.trials.training import fresh

WORDS = ["cat", "dog"]
BUDGET = TrainConfig(steps=80, batch=32, lr=1e-2, warmup=5, weight_decay=0.01, progress=False)


def second(n: int, seed: int) -> tuple[list[str], list[int]]:
    """Cats and dogs at random; the second word decides: only a guide can tell which that is."""
    rng = np.random.default_rng(seed)
    words = rng.integers(0, 2, (n, 7))
    return [" ".join(WORDS[word] for word in row) for row in words], [int(row[1]) for row in words]


def pointing(data: PaddedTexts) -> torch.Tensor:
    weights = torch.zeros(data.ids.shape)
    weights[:, 2] = 1.0  # after [CLS]
    return weights


def test_a_guide_that_points_at_the_word_is_perfect(small: Any) -> None:
    model = small()
    train, test = rows(model, *second(300, 0)), rows(model, *second(300, 1))
    truth = test.labels.numpy()

    def accuracy(weights: Any) -> float:
        return float((train_guided(model, train, test, weights, 0, BUDGET) == truth).mean())

    assert accuracy((pointing(train), pointing(test))) == 1.0
    even = [data.mask / data.mask.sum(1, keepdim=True) for data in (train, test)]
    assert accuracy(tuple(even)) < 0.75  # the most frequent word: 21 of 32 times
    assert accuracy(None) < 0.75  # own weights see words, not places


def test_the_network_is_its_formula() -> None:
    network = TokenWise(10, 3, seed=4)
    ids = torch.tensor([[4, 5, 6, 0]])
    mask = torch.tensor([[1, 1, 1, 0]])
    weights = torch.tensor([[0.2, 0.5, 0.3, 0.0]])
    h = torch.tanh(network.token.weight[ids[0]] @ network.affine.weight.T + network.affine.bias)
    expected = network.out.weight @ (weights[0] @ h) + network.out.bias
    torch.testing.assert_close(network(ids, mask, weights)[0], expected)
    own = (h[:3] @ network.scores.weight[0] + network.scores.bias).softmax(0)
    expected = network.out.weight @ (own @ h[:3]) + network.out.bias
    torch.testing.assert_close(network(ids, mask, None)[0], expected)


def test_weights_are_what_the_model_shows(shared: Any) -> None:
    texts = ["the cat sat on the mat.", "hello world"] * 40  # more than one pass
    for name in ("bert", "llama-classifier"):
        model = shared(name).model
        data = rows(model, texts, [0] * len(texts))
        found = weights_of(model, data)
        torch.testing.assert_close(found.sum(1), torch.ones(len(texts)))
        assert not found[data.mask == 0].any()
        for row in (0, 1, 79):
            x = model.encode(texts[row])
            trace = model.trace(x, model.target(x, 0))
            shown = torch.stack(trace.attentions).mean((0, 1)).T @ torch.tensor(trace.readout)
            torch.testing.assert_close(found[row, : len(x)], shown, rtol=1e-3, atol=1e-4)


def test_shuffled_weights_stay_in_their_text(small: Any) -> None:
    model = small()
    data = rows(model, ["the cat sat on the mat", "a dog", "not bad at all"], [0, 1, 0])
    weights = weights_of(model, data)
    other = shuffled(weights, data, 3)
    for row in range(3):
        length = int(data.mask[row].sum())
        torch.testing.assert_close(other[row, :length].sort().values, weights[row, :length].sort().values)
    assert not other[data.mask == 0].any()
    assert not torch.equal(other, weights)
    assert torch.equal(other, shuffled(weights, data, 3))
    assert not torch.equal(other, shuffled(weights, data, 4))


def test_all_guides_are_told(small: Any) -> None:
    """A model that looks at the second word alone guides as well as the pointing weights do."""
    model = small(0, heads=1)
    with torch.no_grad():  # scores by place alone: position 2 wins by far
        module = model.module
        module.token.weight.mul_(1e-3)
        module.position.mul_(0).add_(0)
        module.position[:, 0] = 0.0
        module.position[2, 0] = 1.0
        module.position[0, 1] = 1.0
        module.query.zero_()
        module.key.zero_()
        module.query[0, 0, 1] = module.key[0, 0, 0] = 6.0
    train, test = rows(model, *second(300, 0)), rows(model, *second(200, 1))
    assert float(weights_of(model, test)[:, 2].min()) > 0.99
    steps: list[tuple[int, int]] = []
    found = guide(
        model,
        train,
        test,
        (0,),
        BUDGET,
        others={"adversary": fresh(model, 5)},
        progress=lambda a, b: steps.append((a, b)),
    )
    assert steps[-1] == (5, 5)
    accuracy = {name: float(own.scores("accuracy")[0]) for name, own in found.judged.items()}
    assert list(accuracy) == ["uniform", "trained", "model", "adversary", "shuffled"]
    assert accuracy["model"] > 0.97
    assert max(accuracy[name] for name in accuracy if name != "model") < 0.8
    lines = {line.what: line for line in found.findings()}
    assert lines["accuracy, guide: model"].control == accuracy["shuffled"]
    assert lines["accuracy, guide: model rather than shuffled"].interval[0] > 0.1
    json.dumps(found.to_dict())
