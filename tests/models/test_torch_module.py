"""Any nn.Module with an embedding and a forward function."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import heedful
from heedful.core.errors import HeedfulError
from heedful.models.load import load


class Bag(nn.Module):
    """Linear bag of embeddings: logits = W sum_t m_t e_t + b. Every explanation has a closed form."""

    def __init__(self, vocabulary: int, labels: int = 3, width: int = 8) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.table, self.head = nn.Embedding(vocabulary, width), nn.Linear(width, labels)

    def embed(self, ids: Tensor) -> Tensor:
        return self.table(ids)

    def forward(self, inputs_embeds: Tensor, attention_mask: Tensor) -> Tensor:
        return self.head((inputs_embeds * attention_mask[..., None]).sum(1))


class Attending(Bag):
    """One query attends to all tokens; shows its map as (B, H, T)."""

    def forward(self, inputs_embeds: Tensor, attention_mask: Tensor) -> tuple[Tensor, Tensor]:
        scores = inputs_embeds @ self.head.weight[0]  # (B, T)
        weights = scores.masked_fill(attention_mask == 0, -1e9).softmax(-1)[:, None]  # (B, H, T), H = 1
        return self.head(torch.einsum("bht,btd->bd", weights, inputs_embeds)), weights


@pytest.fixture
def tokenizer(tokenizer_of: Any) -> Any:
    return tokenizer_of("wordpiece")


@pytest.fixture
def bag(tokenizer: Any) -> Bag:
    return Bag(len(tokenizer))


def test_closed_form(bag: Bag, tokenizer: Any) -> None:
    model = load(bag, tokenizer=tokenizer, labels=("a", "b", "c"))
    assert model.capabilities == {"values", "gradients"}
    x = model.encode("the cat sat on the mat")
    target = model.target(x, "b")
    each = (bag.table.weight[list(x.ids)] @ bag.head.weight[1]).detach().double().numpy()  # (T,): w . e_t
    output = each.sum() + float(bag.head.bias[1].detach())
    methods = {"occlusion": {"operator": "delete"}}
    cmp = heedful.explain(model, x, ["occlusion", "grad-x-input"], target, params=methods)
    content = ~np.array(x.special)
    np.testing.assert_allclose(cmp["occlusion"].scores[content], each[content], atol=1e-5)
    np.testing.assert_allclose(cmp["occlusion"].scores[~content], 0)
    np.testing.assert_allclose(cmp["grad-x-input"].scores, each, atol=1e-6)
    assert cmp["occlusion"].output == pytest.approx(output, abs=1e-5)
    assert cmp["grad-x-input"].output == pytest.approx(output, abs=1e-5)


@pytest.mark.parametrize("operator", ["mask", "unk", "pad", "mean", "delete"])
def test_operators_in_closed_form(bag: Bag, tokenizer: Any, operator: str) -> None:
    model = load(bag, tokenizer=tokenizer)
    x = model.encode("the cat sat")
    target = model.target(x, 0)
    weights, direction = bag.table.weight.detach(), bag.head.weight[0].detach()
    stands_in = {
        "mask": weights[tokenizer.mask_token_id],
        "unk": weights[tokenizer.unk_token_id],
        "mean": weights.mean(0),
    }.get(operator, torch.zeros(weights.shape[1]))
    keep = ~np.eye(3, dtype=bool)
    values = model.values(x, target, keep, operator)
    whole = float(bag.head(weights[list(x.ids)].sum(0))[0].detach())
    expected = [whole - float(direction @ (weights[x.ids[t]] - stands_in)) for t in (1, 2, 3)]
    np.testing.assert_allclose(values, expected, atol=1e-5)


def test_attention_of_a_single_query(tokenizer: Any) -> None:
    module = Attending(len(tokenizer))
    model = load(module, tokenizer=tokenizer)
    assert "attentions" in model.capabilities
    x = model.encode("the cat sat")
    cmp = heedful.explain(model, x, ["attention-avg", "attention-max"])
    expected = (module.table.weight[list(x.ids)] @ module.head.weight[0]).softmax(-1).detach().numpy()
    np.testing.assert_allclose(cmp["attention-avg"].scores, expected, rtol=1e-5)
    np.testing.assert_allclose(cmp["attention-max"].scores, expected, rtol=1e-5)


def test_functions_in_place_of_methods(bag: Bag, tokenizer: Any) -> None:
    class Bare(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = bag

    bare = Bare()
    with pytest.raises(HeedfulError, match="shows no embedding function"):
        load(bare, tokenizer=tokenizer)
    model = load(bare, tokenizer=tokenizer, embed=bag.embed, forward=lambda e, m: bag(e, m))
    x = model.encode("the cat")
    torch.testing.assert_close(model.logits(x), load(bag, tokenizer=tokenizer).logits(x))
    assert model.labels == ("label 0", "label 1", "label 2")


def test_a_wrong_number_of_labels_is_refused(bag: Bag, tokenizer: Any) -> None:
    with pytest.raises(HeedfulError, match=r"2 labels.*3"):
        load(bag, tokenizer=tokenizer, labels=("a", "b"))


@pytest.mark.parametrize("shape", ["(B,)", "(B, T, C)", "(logits,)"])
def test_what_forward_returns_is_checked(bag: Bag, tokenizer: Any, shape: str) -> None:
    def forward(embeds: Tensor, mask: Tensor) -> Any:
        logits = bag(embeds, mask)
        return {"(B,)": logits[:, 0], "(B, T, C)": logits[:, None], "(logits,)": (logits,)}[shape]

    if shape == "(logits,)":
        assert len(load(bag, tokenizer=tokenizer, forward=forward).labels) == 3
    else:
        with pytest.raises(HeedfulError, match=r"logits of shape.*\(B, C\)"):
            load(bag, tokenizer=tokenizer, forward=forward)


def test_mean_is_offered_only_with_one_token_table_that_is_used(bag: Bag, tokenizer: Any) -> None:
    bag.second = nn.Embedding(len(tokenizer), 8)
    assert "mean" not in load(bag, tokenizer=tokenizer).operators
    del bag.second
    assert "mean" in load(bag, tokenizer=tokenizer).operators
    around = load(bag, tokenizer=tokenizer, embed=lambda ids: bag.table.weight[ids])  # goes around the module
    x = around.encode("the cat")
    with pytest.raises(HeedfulError, match="mean"):
        around.values(x, around.target(x, 0), np.zeros((1, 2), dtype=bool), "mean")


def test_a_text_with_every_word_removed(tokenizer_of: Any) -> None:
    tokenizer = tokenizer_of("byte-level")  # adds no special tokens: nothing at all is left
    model = load(Attending(len(tokenizer)), tokenizer=tokenizer)
    x = model.encode("the")
    assert np.isfinite(model.values(x, model.target(x, 0), np.zeros((1, 1), dtype=bool), "delete")).all()


def test_nan_names_the_layer(bag: Bag, tokenizer: Any) -> None:
    model = load(bag, tokenizer=tokenizer)
    with torch.no_grad():
        bag.head.weight[0, 0] = float("nan")
    with pytest.raises(HeedfulError, match=r"NaN.*is head"):
        model.logits(model.encode("the cat"))


def test_padding_does_not_leak(tokenizer: Any) -> None:
    model = load(Attending(len(tokenizer)), tokenizer=tokenizer)
    x = model.encode("the cat sat on the mat")
    target = model.target(x, 0)
    keep = np.tril(np.ones((6, 6), dtype=bool))
    together = model.values(x, target, keep, "delete")
    alone = [model.values(x, target, keep[i : i + 1], "delete")[0] for i in range(6)]
    np.testing.assert_allclose(together, alone, atol=1e-6)


def test_the_module_is_left_untouched(tokenizer: Any) -> None:
    module = Attending(len(tokenizer)).train()
    keys, hooks = (
        [list(vars(m)) for m in module.modules()],
        [list(m._forward_hooks) for m in module.modules()],
    )
    heedful.explain(
        (module, tokenizer),
        "the cat sat",
        ["occlusion", "grad-l2", "attention-avg"],
        params={"occlusion": {"operator": "mean"}},
    )
    assert module.training
    assert [list(vars(m)) for m in module.modules()] == keys
    assert [list(m._forward_hooks) for m in module.modules()] == hooks
    assert all(p.grad is None for p in module.parameters())


def test_a_module_with_one_output_is_a_regression(tokenizer: Any) -> None:
    """Its prediction is the number, not a share of 100 %."""
    module = Bag(len(tokenizer), labels=1)
    model = load(module, tokenizer=tokenizer)
    x = model.encode("the cat sat on the mat")
    with torch.no_grad():
        output = module(module.embed(torch.tensor([x.ids])), torch.ones(1, len(x))).item()
    assert model.kind == "regression"
    assert model.predict(x)[0][1] == pytest.approx(output, rel=1e-5)
