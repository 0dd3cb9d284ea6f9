"""Heads removed: against projections without the head's columns, closed forms, and nothing left behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch

import heedful
from heedful.core.errors import HeedfulError
from heedful.heads.ablation import ablate
from heedful.heads.ablation.ablate import Head
from heedful.heads.capture import answer_ids
from heedful.models.attention_hooks import AttentionState, Site
from heedful.models.backend import Inputs
from heedful.models.contexts import attention_of
from heedful.nn.one_layer import OneLayerClassifier, OneLayerConfig

TEXT = "the cat sat on the mat. hello world"
SHAPE = {"self": (4, 4), "cross": (2, 2, 2)}

# where each family keeps its output projection: name -> (stack, layer) -> module
PROJECTIONS: dict[str, Callable[[Any, str, int], Any]] = {
    "bert": lambda hf, _, layer: hf.bert.encoder.layer[layer].attention.output.dense,
    "distilbert": lambda hf, _, layer: hf.distilbert.transformer.layer[layer].attention.out_lin,
    "gpt2": lambda hf, _, layer: hf.transformer.h[layer].attn.c_proj,
    "llama": lambda hf, _, layer: hf.model.layers[layer].self_attn.o_proj,
    "t5": lambda hf, stack, layer: {
        "self": lambda: hf.encoder.block[layer].layer[0].SelfAttention.o,
        "decoder": lambda: hf.decoder.block[layer].layer[0].SelfAttention.o,
        "cross": lambda: hf.decoder.block[layer].layer[1].EncDecAttention.o,
    }[stack](),
    "bart": lambda hf, stack, layer: {
        "self": lambda: hf.model.encoder.layers[layer].self_attn.out_proj,
        "decoder": lambda: hf.model.decoder.layers[layer].self_attn.out_proj,
        "cross": lambda: hf.model.decoder.layers[layer].encoder_attn.out_proj,
    }[stack](),
}
SITES = [(name, stack) for name in PROJECTIONS for stack in ("self", "decoder", "cross")]
SITES = [(name, stack) for name, stack in SITES if stack == "self" or name in ("t5", "bart")]


def inputs_of(family: Any, text: str = TEXT) -> Inputs:
    ids = torch.tensor([family.tokenizer(text)["input_ids"]])
    answer = None
    if family.model.kind == "encoder-decoder":
        answer = torch.tensor([[family.model.backend.special_id("decoder_start"), 5, 6]])
    return Inputs(ids, torch.ones_like(ids), answer=answer)


def logits(family: Any) -> torch.Tensor:
    with torch.inference_mode():
        return family.model.backend.forward(inputs_of(family))  # type: ignore[no-any-return]


@contextmanager
def without_columns(projection: Any, heads: list[int], width: int = 8) -> Iterator[None]:
    """The user's own model, the inputs of its output projection that come from these heads at zero."""
    before = projection.weight.data.clone()
    flipped = type(projection).__name__ == "Conv1D"  # GPT-2 keeps its weights (in, out)
    try:
        for head in heads:
            columns = slice(width * head, width * (head + 1))
            projection.weight.data[columns if flipped else (slice(None), columns)] = 0
        yield
    finally:
        projection.weight.data.copy_(before)


@pytest.mark.parametrize(("name", "stack"), SITES)
def test_zero_is_the_output_projection_without_the_heads_columns(shared: Any, name: str, stack: str) -> None:
    family = shared(name)
    for layer, heads in ((0, [1]), (1, [0, 3])):
        with heedful.ablated(family.model, [f"{stack}:{layer}.{head}" for head in heads]):
            found = logits(family)
        with without_columns(PROJECTIONS[name](family.hf, stack, layer), heads):
            expected = logits(family)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
        assert not torch.allclose(found, logits(family), atol=1e-4)


@pytest.mark.parametrize(("name", "stack"), [("bert", "self"), ("gpt2", "self"), ("bart", "cross")])
def test_all_heads_at_zero_is_the_model_without_attention(shared: Any, name: str, stack: str) -> None:
    family = shared(name)
    stacks = ("self", "decoder", "cross") if name == "bart" else ("self",)
    with heedful.ablated(family.model, "all"):
        found = logits(family)
    with contextmanager_stack(
        [
            without_columns(PROJECTIONS[name](family.hf, one, layer), [0, 1, 2, 3])
            for one in stacks
            for layer in range(2)
        ]
    ):
        expected = logits(family)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@contextmanager
def contextmanager_stack(managers: list[Any]) -> Iterator[None]:
    from contextlib import ExitStack

    with ExitStack() as stack:
        for manager in managers:
            stack.enter_context(manager)
        yield


def test_a_head_that_says_nothing_is_not_missed(fresh: Any) -> None:
    family = fresh("bert")
    value = family.hf.bert.encoder.layer[1].attention.self.value
    value.weight.data[16:24] = 0
    value.bias.data[16:24] = 0
    plain = logits(family)
    means = heedful.head_means(family.model, [TEXT, "hello"])
    for how in ablate.HOWS:
        with heedful.ablated(family.model, "1.2", how, means=means):
            torch.testing.assert_close(logits(family), plain, rtol=1e-5, atol=1e-6)
        with heedful.ablated(family.model, "1.1", how, means=means):
            assert not torch.allclose(logits(family), plain, atol=1e-3), how


def test_the_mean_of_a_head_that_is_constant_changes_nothing(fresh: Any) -> None:
    """Values that do not depend on the token: whatever the weights, the output is the bias."""
    family = fresh("bert")
    value = family.hf.bert.encoder.layer[0].attention.self.value
    value.weight.data[16:24] = 0
    value.bias.data[16:24] = torch.linspace(1, 2, 8)
    plain = logits(family)
    means = heedful.head_means(family.model, ["hello world", "a dog ran"])
    torch.testing.assert_close(means.values[Site("self", 0)][2], torch.linspace(1, 2, 8).double())
    with heedful.ablated(family.model, "0.2", "mean", means=means):
        torch.testing.assert_close(logits(family), plain, rtol=1e-4, atol=1e-5)
    with heedful.ablated(family.model, "0.2", "zero"):
        assert not torch.allclose(logits(family), plain, atol=1e-3)


def test_means_are_over_all_tokens_of_all_texts(shared: Any) -> None:
    """Every token counts alike: a long text counts more than a short one."""
    for name in ("gpt2", "t5"):
        family = shared(name)
        seen: dict[Site, list[torch.Tensor]] = {}

        def look(now: AttentionState, seen: dict[Site, list[torch.Tensor]] = seen) -> AttentionState:
            seen.setdefault(now.site, []).append(now.heads[0].transpose(0, 1))  # (Q, H, d)
            return now

        texts, answers = ["hello", TEXT], ["the cat", "mat"]
        for text, answer in zip(texts, answers, strict=True):
            spec = {"sequence": answer_ids(family.model, answer)}
            x = family.x(text)
            target = family.model.target(x, spec) if name == "t5" else None
            with family.model.attending(look):
                family.model.attention_only(x, target)
        found = heedful.head_means(family.model, texts, answers=answers if name == "t5" else None)
        assert found.values.keys() == seen.keys()
        for site, parts in seen.items():
            expected = torch.cat(parts).double().mean(0)
            torch.testing.assert_close(found.values[site], expected, rtol=1e-6, atol=1e-8)
        assert found.tokens == sum(len(family.x(text)) for text in texts)


def test_uniform_on_the_one_layer_model_is_the_mean_of_its_values(one_layer: Any) -> None:
    model, module = one_layer
    x = model.encode(TEXT)
    e = module.embed(torch.tensor([x.ids]))[0]  # (T, d)
    plain = model.logits(x)
    each = torch.einsum("kco,kod,d->kc", module.readout, module.value, e.mean(0))  # the analytic mean
    with heedful.ablated(model, "all", "uniform"):
        torch.testing.assert_close(model.logits(x), each.mean(0).detach())
        assert heedful.attention(model, TEXT).maps == pytest.approx(1 / len(x))
    alpha = heedful.attention(model, TEXT).maps[0, :, 0]  # (K, T)
    own = torch.einsum("kco,kod,td,kt->kc", module.readout, module.value, e, torch.tensor(alpha))
    with heedful.ablated(model, (0, 2), "uniform"):
        mixed = torch.stack([own[0], own[1], each[2]]).mean(0).detach()
        torch.testing.assert_close(model.logits(x), mixed, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(model.logits(x), plain)


def test_uniform_spreads_over_what_may_be_seen_and_no_further(shared: Any) -> None:
    """A causal head looks at 1, 2, 3 ... tokens alike; heads beside it look where they looked."""
    family = shared("gpt2")
    plain = heedful.attention(family.model, TEXT, gradients=False).maps
    with heedful.ablated(family.model, "0.1", "uniform"):
        found = heedful.attention(family.model, TEXT, gradients=False).maps
    size = found.shape[-1]
    lower = np.tril(np.ones((size, size))) / np.arange(1, size + 1)[:, None]
    assert found[0, 1] == pytest.approx(lower, abs=1e-6)
    assert found[0, [0, 2, 3]] == pytest.approx(plain[0, [0, 2, 3]], abs=1e-6)
    assert found[1] != pytest.approx(plain[1], abs=1e-3)


@pytest.fixture(scope="module")
def one_layer(tokenizer_of: Any) -> Any:
    config = OneLayerConfig(vocab_size=220, heads=3, width=8, d_att=4, d_out=4, context=64, pad_id=None)
    module = OneLayerClassifier(config, seed=1).eval()
    forward = lambda e, m: tuple(module(None, m, e, True))  # noqa: E731
    return heedful.load(module, tokenizer=tokenizer_of("wordpiece"), forward=forward), module


def test_every_kind_of_model_runs_without_a_head_and_is_left_as_it_was(family: Any) -> None:
    means = heedful.head_means(family.model, [TEXT])
    before, how_it_attends = logits(family), attention_of(family.hf)
    hooks = [len(module._forward_hooks) for module in family.hf.modules()]
    found = []
    for how in ablate.HOWS:
        with heedful.ablated(family.model, "1.2", how, means=means):
            found.append(logits(family))
        with pytest.raises(KeyError), heedful.ablated(family.model, "0", how, means=means):
            raise KeyError
    assert all(bool(out.isfinite().all()) and not torch.allclose(out, before) for out in found)
    assert not torch.allclose(found[0], found[1])
    assert not torch.allclose(found[1], found[2])
    assert torch.equal(logits(family), before)
    assert attention_of(family.hf) == how_it_attends
    assert [len(module._forward_hooks) for module in family.hf.modules()] == hooks


def test_an_encoder_without_a_head_loses_heads_too(tokenizer_of: Any) -> None:
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=220,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=64,
        initializer_range=0.2,
    )
    hf = BertModel(config).eval()
    model = heedful.load((hf, tokenizer_of("wordpiece")))
    x: Any = model.encode(TEXT)
    ids = torch.tensor([x.ids])

    def hidden() -> torch.Tensor:
        with torch.no_grad():
            return hf(input_ids=ids).last_hidden_state  # type: ignore[no-any-return]

    with heedful.ablated(model, "1.0"):
        found = hidden()
    with without_columns(hf.encoder.layer[1].attention.output.dense, [0]):
        torch.testing.assert_close(found, hidden(), rtol=1e-4, atol=1e-5)


def test_blocks_compose(shared: Any) -> None:
    family = shared("bert")
    with heedful.ablated(family.model, "0.1"), heedful.ablated(family.model, "1.*"):
        nested = logits(family)
    with heedful.ablated(family.model, ["0.1", (1, 0), "1.1,1.2", Head("self", 1, 3)]):
        torch.testing.assert_close(logits(family), nested)
    with heedful.ablated(family.model, "0.1", "uniform"), heedful.ablated(family.model, "0.1", "zero"):
        inner = logits(family)
    with heedful.ablated(family.model, "0.1", "zero"):
        torch.testing.assert_close(logits(family), inner, rtol=1e-4, atol=1e-5)


def test_explanations_and_atlases_inside_are_of_the_ablated_model(shared: Any) -> None:
    """Oracle: a model whose projection lacks the head's columns."""
    family = shared("bert")
    methods, target = ["occlusion", "grad-x-input"], "positive"
    with heedful.ablated(family.model, "0.2,1.1"):
        inside = heedful.explain(family.model, TEXT, methods, target=target, evidence=False)
        atlas = heedful.attention(family.model, TEXT, target)
    projection = PROJECTIONS["bert"]
    with (
        without_columns(projection(family.hf, "self", 0), [2]),
        without_columns(projection(family.hf, "self", 1), [1]),
    ):
        expected = heedful.explain(family.model, TEXT, methods, target=target, evidence=False)
        other = heedful.attention(family.model, TEXT, target)
    for method in methods:
        assert inside[method].scores == pytest.approx(expected[method].scores, abs=1e-5)
    assert atlas.maps == pytest.approx(other.maps, abs=1e-5)
    grads, wanted = atlas.stack().grads, other.stack().grads
    assert grads is not None
    assert grads == pytest.approx(wanted, abs=1e-5)
    assert not grads[0, 2].any()  # a head that is gone has no say


def test_what_is_written_inside_is_the_ablated_models(shared: Any) -> None:
    for name in ("gpt2", "bart"):
        family = shared(name)
        x = family.x("the cat sat")
        with heedful.ablated(family.model, "0,1.1"):
            found = family.model.answer(x, max_new_tokens=6)
        with (
            without_columns(PROJECTIONS[name](family.hf, "self", 0), [0, 1, 2, 3]),
            without_columns(PROJECTIONS[name](family.hf, "self", 1), [1]),
        ):
            assert found == family.model.answer(x, max_new_tokens=6)
        assert found != family.model.answer(x, max_new_tokens=6)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("1.3", [("self", 1, 3)]),
        ((1, 3), [("self", 1, 3)]),
        (("cross", 2, 1), [("cross", 2, 1)]),
        ("cross:2.1, 0.0", [("self", 0, 0), ("cross", 2, 1)]),
        ([(1, 0), "1.0"], [("self", 1, 0)]),
        ("cross:1", [("cross", 1, 0), ("cross", 1, 1)]),
        ("cross:1.*", [("cross", 1, 0), ("cross", 1, 1)]),
        (1, [("self", 1, head) for head in range(4)]),
        ("cross:all", [("cross", layer, head) for layer in range(3) for head in range(2)]),
        ("self:1.2", [("self", 1, 2)]),
    ],
)
def test_names_of_heads(spec: Any, expected: list[tuple[str, int, int]]) -> None:
    found = ablate.named(spec, SHAPE)
    assert list(found) == expected
    assert ablate.named([head.name for head in found], SHAPE) == found


def test_all_is_every_head_of_every_stack() -> None:
    assert len(ablate.named("all", SHAPE)) == 8 + 6


@pytest.mark.parametrize(
    "spec",
    [
        "2.0",
        "0.4",
        "cross:0.2",
        "decoder:0.0",
        "x",
        "1.",
        ".1",
        "1.x",
        "-1.0",
        "1.2.3",
        "",
        [],
        None,
        1.5,
        (0, 1, 2),
        (0, -1),
        {},
    ],
)
def test_heads_that_are_not_there_are_refused_by_what_is(spec: Any) -> None:
    with pytest.raises(HeedfulError) as caught:
        ablate.named(spec, SHAPE)
    said = str(caught.value)
    assert "layers 0 to 1 of 4 heads" in said or "Name heads as" in said or "(layer, head)" in said


def test_mistakes_are_told_before_anything_runs(shared: Any) -> None:
    family = shared("bert")
    with pytest.raises(HeedfulError, match="head_means"), heedful.ablated(family.model, "0.0", "mean"):
        pass
    with pytest.raises(HeedfulError, match="zero, mean, uniform"), heedful.ablated(family.model, "0", "no"):
        pass
    with (
        pytest.raises(HeedfulError, match="function"),
        heedful.ablated(heedful.load(lambda texts: [[0.5, 0.5] for _ in texts]), "0.0"),
    ):
        pass
    other = heedful.head_means(shared("t5").model, [TEXT])
    wide = ablate.Means({site: value[:, :4] for site, value in other.values.items()}, 1, 1)
    with (
        pytest.raises(HeedfulError, match="another model"),
        heedful.ablated(family.model, "0.0", "mean", means=wide),
    ):
        family.model.logits(family.x())
    with pytest.raises(HeedfulError, match="0 reference texts"):
        heedful.head_means(family.model, [])
