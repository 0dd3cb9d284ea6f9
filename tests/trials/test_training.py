"""Rows, passes and fits of models trained again, against the user's own model and the door."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch

from heedful.core.errors import HeedfulError
from heedful.io.rationales import Marked
from heedful.models.attention_hooks import uniform
from heedful.models.contexts import attention_of
from heedful.nn.train import TrainConfig
from heedful.stats.divergence import jsd
from heedful.trials.batches import joined, marked, of_cases, rows
from heedful.trials.examples import prepare
from heedful.trials.training import answers, apart, copied, fit, fresh, maps, place_of, read, run

TEXTS = ["the cat sat on the mat.", "hello world", "not bad at all, a dog ran to the low house"]
FILLER = ["the", "sat", "on", "mat", "ran", "to", "low", "not", "bad", "all"]
QUICK = TrainConfig(steps=120, batch=16, lr=1e-2, warmup=5, weight_decay=0.01, progress=False)


def planted(n: int, seed: int) -> tuple[list[str], list[int]]:
    """A cat says yes, a dog says no; everything else is noise."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, n)
    texts = []
    for label in labels:
        words = list(rng.choice(FILLER, rng.integers(3, 8)))
        words.insert(int(rng.integers(0, len(words) + 1)), ("dog", "cat")[label])
        texts.append(" ".join(words))
    return texts, [int(label) for label in labels]


def one(model: Any, text: str) -> Any:
    return rows(model, [text], [0])


def test_rows_are_what_the_model_reads(shared: Any) -> None:
    model = shared("bert").model
    data = rows(model, TEXTS, [0, 1, "positive"], 10)
    cases = of_cases(prepare(model, TEXTS, [0, 1, 1]), 10)
    for row, text in enumerate(TEXTS):
        own = model.encode(text).ids
        length = int(data.mask[row].sum())
        assert length == min(len(own), 10)
        expected = own if len(own) <= 10 else (*own[:9], own[-1])  # [SEP] stays
        assert tuple(data.ids[row, :length].tolist()) == expected
        assert data.special[row].nonzero().flatten().tolist() == [0, length - 1]
    assert data.ids[1, -1] == 3  # [PAD]
    assert data.labels.tolist() == [0, 1, 1]
    assert torch.equal(data.ids, cases.ids)
    assert torch.equal(data.special, cases.special)
    assert data.pick(torch.tensor([1])).ids.shape[1] == int(data.mask[1].sum())


def test_marks_lie_on_their_tokens(shared: Any) -> None:
    model = shared("bert").model
    text = "the cat sat on the mat."
    data = marked(model, [Marked(text, ((4, 7), (19, 22)))], [1])
    tokens = [model.encode(text).tokens[t] for t in data.marks[0].nonzero().flatten()]  # type: ignore[index]
    assert tokens == ["cat", "mat"]
    both = joined(rows(model, TEXTS, [0, 0, 0]), data)
    assert both.marks is not None
    assert both.marks.any(1).tolist() == [False, False, False, True]
    assert both.labels.tolist() == [0, 0, 0, 1]
    alone, last = data.pick(torch.tensor([0])), both.pick(torch.tensor([3]))
    assert torch.equal(alone.ids, last.ids)
    assert both.ids[1, -1] == 3


@pytest.mark.parametrize("name", ["bert", "mean-pool", "llama-classifier"])
def test_passes_show_the_user_s_own_maps_and_answers(name: str, shared: Any) -> None:
    """Padding beside longer texts changes nothing, and rows of padding count for nothing."""
    family = shared(name)
    model, data = family.model, rows(family.model, TEXTS, [0, 0, 0])
    (passed,) = maps(model, data)
    place = place_of(model, data)
    for row, text in enumerate(TEXTS):
        x = model.encode(text)
        trace = model.trace(x, model.target(x, 0))
        torch.testing.assert_close(passed.logits[row], model.logits(x), rtol=1e-3, atol=1e-4)
        for layer, expected in enumerate(trace.attentions):
            got = passed.maps[layer][row, :, : len(x), : len(x)]
            torch.testing.assert_close(got, expected, rtol=1e-3, atol=1e-5)
            share = torch.tensor(trace.readout)
            if place == "all":  # a mean pool: all alike, but for the gradient's rounding
                share = torch.full_like(share, 1 / len(share))
            shown = torch.einsum("hqt,q->ht", expected, share)
            torch.testing.assert_close(
                read(passed, place)[row, layer, :, : len(x)], shown, rtol=1e-2, atol=1e-4
            )
    np.testing.assert_allclose(answers(model, data), passed.logits.double().softmax(-1).numpy(), atol=1e-5)
    assert attention_of(family.hf) == "sdpa"


@pytest.mark.parametrize(
    ("name", "where"), [("bert", "first"), ("mean-pool", "all"), ("llama-classifier", "last")]
)
def test_where_the_answer_is_read(name: str, where: str, shared: Any) -> None:
    model = shared(name).model
    assert place_of(model, rows(model, TEXTS, [0, 0, 0])) == where


def test_distances_leave_padding_out(shared: Any) -> None:
    """A short text is as far from another model's view alone as beside a long one."""
    model, other = shared("bert").model, fresh(shared("bert").model, 1)
    data = rows(model, TEXTS, [0, 0, 0])
    (mine,), (theirs,) = maps(model, data), maps(other, data)
    together = apart(mine, theirs, jsd)
    for row, text in enumerate(TEXTS):
        (a,), (b,) = maps(model, one(model, text)), maps(other, one(model, text))
        expected = jsd(a.alpha, b.alpha).mean()
        assert together[row] == pytest.approx(float(expected), rel=1e-3)
        assert expected > 1e-3


@pytest.mark.parametrize("name", ["small", "bert", "llama-classifier"])
def test_frozen_is_uniform_attention_through_the_door(name: str, shared: Any, small: Any) -> None:
    model = small() if name == "small" else shared(name).model
    data = rows(model, TEXTS, [0, 1, 0])
    inputs = data.pick(torch.arange(3))
    with model.attending(lambda seen: seen.reweighed(uniform(seen))), torch.inference_mode():
        expected = model.backend.forward(inputs)
    (passed,) = maps(model, data, frozen=True)
    torch.testing.assert_close(passed.logits, expected, rtol=1e-4, atol=1e-5)
    (free,) = maps(model, data)
    assert not torch.allclose(free.logits, expected, atol=1e-4)
    if name == "small":  # the hook is gone
        torch.testing.assert_close(run(model, inputs).logits, free.logits)
        length = int(data.mask[1].sum())
        torch.testing.assert_close(passed.alpha[1, 0, 0, :length], torch.full((length,), 1 / length))


def test_another_of_the_same_kind(shared: Any) -> None:
    family = shared("bert")
    before = copy.deepcopy(family.hf.state_dict())
    again, same, twin = fresh(family.model, 3), fresh(family.model, 3), copied(family.model)
    for name, value in family.hf.state_dict().items():
        assert torch.equal(again.module.state_dict()[name], same.module.state_dict()[name])
        assert torch.equal(twin.module.state_dict()[name], value)
    weight = "classifier.weight"
    assert not torch.equal(again.module.state_dict()[weight], before[weight])
    assert again.module.config is not family.hf.config
    texts, labels = planted(32, 0)
    fit(twin, rows(twin, texts, labels), TrainConfig(steps=2, batch=4, warmup=1, progress=False), 0)
    assert not torch.equal(twin.module.state_dict()[weight], before[weight])
    assert all(torch.equal(value, before[name]) for name, value in family.hf.state_dict().items())
    assert all(p.grad is None for p in family.hf.parameters())


@pytest.mark.parametrize("frozen", [False, True])
def test_a_fit_learns_and_can_be_made_again(frozen: bool, small: Any) -> None:
    model = small()
    train, test = rows(model, *planted(200, 0)), rows(model, *planted(100, 1))
    losses = []
    for _ in range(2):
        student = fresh(model, 0)
        losses.append(fit(student, train, QUICK, 5, frozen=frozen))
        right = answers(student, test, frozen).argmax(1) == test.labels.numpy()
        assert right.mean() > 0.97
    assert losses[0] == losses[1]
    assert fit(fresh(model, 0), train, QUICK, 6, frozen=frozen) != losses[0]


def test_frozen_attention_learns_nothing(small: Any, shared: Any) -> None:
    """No gradient reaches what makes the weights."""
    model = fresh(small(), 0)
    data = rows(model, *planted(8, 0))
    run(model, data.pick(torch.arange(8)), frozen=True).logits.sum().backward()  # type: ignore[no-untyped-call]
    assert model.module.key.grad is None or not model.module.key.grad.any()
    assert model.module.value.grad.any()
    deep = fresh(shared("bert").model, 0)
    run(deep, data.pick(torch.arange(8)), frozen=True).logits.sum().backward()  # type: ignore[no-untyped-call]
    grads = {name: p.grad for name, p in deep.module.named_parameters()}
    assert all(g is None or not g.any() for name, g in grads.items() if ".key." in name)
    assert all(g.any() for name, g in grads.items() if ".value.weight" in name)


def test_a_loss_on_attention_sees_no_dropout(shared: Any) -> None:
    model, seen = fresh(shared("bert").model, 0), []
    assert model.module.config.attention_probs_dropout_prob > 0

    def loss(passed: Any, pick: torch.Tensor) -> torch.Tensor:
        seen.append(float((passed.alpha.detach().sum(-1) - 1).abs()[:, :, 0].max()))
        return passed.logits.sum() * 0

    fit(model, rows(model, *planted(8, 0)), TrainConfig(steps=2, batch=4, progress=False), 0, loss)
    assert max(seen) < 1e-5


def test_what_cannot_be_trained_is_refused_in_words(
    shared: Any, small: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(HeedfulError, match="compare classifiers"):
        fresh(shared("bert-regression").model, 0)
    with pytest.raises(HeedfulError, match="no training texts"):
        rows(small(), [], [])
    with pytest.raises(HeedfulError, match="1 labels"):
        rows(small(), TEXTS, [0])
    with pytest.raises(HeedfulError, match="no label"):
        rows(small(), TEXTS, [0, None, 1])
    monkeypatch.setattr("heedful.trials.training.MAX_PARAMETERS", 10)
    with pytest.raises(HeedfulError, match="parameters"):
        copied(small())
