"""The door to attention: what it shows is what transformers shows, and what it changes is what it says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

import heedful
from heedful.core.errors import HeedfulError
from heedful.models.attention_hooks import AttentionState, Site, uniform
from heedful.models.backend import Inputs
from heedful.models.contexts import attention_of
from heedful.nn.one_layer import OneLayerClassifier, OneLayerConfig

TEXTS = ("the cat sat on the mat.", "hello world")


def batch(family: Any) -> Inputs:
    """Two texts of different lengths: padding is part of the proof."""
    rows = [family.tokenizer(text)["input_ids"] for text in TEXTS]
    width = max(map(len, rows))
    pad = family.model.backend.special_id("pad") or 0
    ids = torch.tensor([row + [pad] * (width - len(row)) for row in rows])
    mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows])
    answer = None
    if family.model.kind == "encoder-decoder":
        answer = torch.tensor([[family.model.backend.special_id("decoder_start"), 5, 6]] * 2)
    return Inputs(ids, mask, answer=answer)


def one_row(inputs: Inputs) -> Inputs:
    return Inputs(
        inputs.ids[:1], inputs.mask[:1], answer=None if inputs.answer is None else inputs.answer[:1]
    )


def run(family: Any, inputs: Inputs, edit: Callable[[AttentionState], AttentionState]) -> torch.Tensor:
    with family.model.attending(edit), torch.inference_mode():
        return family.model.backend.forward(inputs)  # type: ignore[no-any-return]


def test_shows_the_maps_that_transformers_shows(family: Any) -> None:
    inputs = one_row(batch(family))
    seen: dict[Site, torch.Tensor] = {}

    def look(now: AttentionState) -> AttentionState:
        seen[now.site] = now.weights
        return now

    run(family, inputs, look)
    family.hf.set_attn_implementation("eager")
    with torch.inference_mode():
        out = family.hf(**family.model.backend._arguments(inputs), output_attentions=True)
    family.hf.set_attn_implementation("sdpa")
    fields = {"self": "encoder_attentions", "decoder": "decoder_attentions", "cross": "cross_attentions"}
    if not family.hf.config.is_encoder_decoder:
        fields = {"self": "attentions"}
    expected = {
        Site(stack, layer): weights
        for stack, field in fields.items()
        for layer, weights in enumerate(out[field])
    }
    assert seen.keys() == expected.keys()
    assert all(torch.equal(seen[site], expected[site]) for site in expected)


def test_an_edit_that_gives_back_the_same_weights_changes_nothing(family: Any) -> None:
    inputs = one_row(batch(family))
    with torch.inference_mode():
        plain = family.model.backend.forward(inputs)
    same = run(family, inputs, lambda seen: seen.reweighed(seen.weights.clone()))
    torch.testing.assert_close(same, plain, rtol=1e-4, atol=1e-5)


def test_allowed_keys_are_those_with_weight(family: Any) -> None:
    """Padding and the future get none, all else some; uniform weights spread over just these."""
    inputs = one_row(batch(family)) if family.model.backend.one_row_at_a_time else batch(family)
    flat: list[torch.Tensor] = []

    def look(seen: AttentionState) -> AttentionState:
        allowed = seen.allowed.expand_as(seen.weights)
        real = allowed.any(-1)
        assert torch.equal(allowed[real], seen.weights[real] > 0)
        flat.append(uniform(seen)[real])
        return seen

    run(family, inputs, look)
    for weights in flat:
        torch.testing.assert_close(weights.sum(-1), torch.ones(len(weights)))
        assert all(len(row[row > 0].unique()) == 1 for row in weights)


def test_a_head_put_to_zero_is_a_projection_without_its_columns(shared: Any) -> None:
    """Oracle: BERT's own output projection with the head's input columns at zero."""
    family = shared("bert")
    inputs = one_row(batch(family))

    def silence(seen: AttentionState) -> AttentionState:
        if seen.site != Site("self", 1):
            return seen
        heads = seen.heads.clone()
        heads[:, 2] = 0
        return replace(seen, heads=heads)

    found = run(family, inputs, silence)
    dense = family.hf.bert.encoder.layer[1].attention.output.dense
    before = dense.weight.data.clone()
    try:
        dense.weight.data[:, 16:24] = 0  # head 2 of width 8
        with torch.inference_mode():
            expected = family.model.backend.forward(inputs)
    finally:
        dense.weight.data.copy_(before)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    with torch.inference_mode():
        assert not torch.allclose(found, family.model.backend.forward(inputs), atol=1e-3)


def test_grouped_values_go_to_their_heads(shared: Any) -> None:
    """Llama shares values between heads: each head's output is its weights times its own group's values."""
    family = shared("llama")

    def look(seen: AttentionState) -> AttentionState:
        torch.testing.assert_close(seen.weights @ seen.values, seen.heads)
        assert torch.equal(seen.values[:, 0], seen.values[:, 1])
        assert not torch.allclose(seen.values[:, 1], seen.values[:, 2])
        return seen

    run(family, one_row(batch(family)), look)


def test_edits_nest_and_traces_see_them(shared: Any) -> None:
    """The inner edit sees what the outer one left, and so does a trace, which asks for eager attention."""
    family = shared("bert")
    x = family.x()
    target = family.model.target(x)
    seen: list[torch.Tensor] = []
    with family.model.attending(lambda now: now.reweighed(uniform(now))):
        with family.model.attending(lambda now: (seen.append(now.weights), now)[1]):
            inside = family.model.logits(x)
        trace = family.model.trace(x, target)
        assert torch.equal(family.model.logits(x), inside)
    assert all((weights - 1 / len(x)).abs().max() < 1e-6 for weights in seen)
    assert all((weights - 1 / len(x)).abs().max() < 1e-6 for weights in trace.attentions)
    assert trace.output == pytest.approx(float(target.score(inside[None])[0]), abs=1e-5)
    assert attention_of(family.hf) == "sdpa"


def test_layers_that_share_a_module_are_told_apart(tokenizer_of: Any) -> None:
    from transformers import AlbertConfig, AlbertForSequenceClassification

    torch.manual_seed(0)
    config = AlbertConfig(
        vocab_size=220,
        embedding_size=16,
        hidden_size=32,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=64,
        pad_token_id=3,
        initializer_range=0.2,
    )
    model = heedful.load((AlbertForSequenceClassification(config).eval(), tokenizer_of("wordpiece")))
    sites: list[Site] = []
    for _ in range(2):
        with model.attending(lambda seen: (sites.append(seen.site), seen)[1]):
            model.logits(model.encode("the cat"))
    assert sites == [Site("self", layer) for layer in range(3)] * 2


def test_generation_runs_edited(shared: Any) -> None:
    """What is written one token at a time, with a cache, is what whole passes say under the same edit."""
    for name in ("gpt2", "bart"):
        family = shared(name)
        x = family.x("the cat sat")
        with family.model.attending(lambda seen: seen.reweighed(uniform(seen))):
            written = family.model.answer(x, max_new_tokens=4)
            again: list[int] = []
            for _ in written:
                again.append(int(family.model._next_logits(x, again).argmax()))
        assert written == again


def test_the_one_layer_model_has_the_same_door() -> None:
    module = OneLayerClassifier(OneLayerConfig(vocab_size=50, heads=3, width=8, d_att=4, d_out=4, context=16))
    ids = torch.tensor([[3, 4, 5, 6, 0]])
    from heedful.models.torch_module import TorchBackend

    class Tokens:
        model_max_length = 16

        def __call__(self, text: str, **_: Any) -> dict[str, list[int]]:
            return {"input_ids": [3, 4, 5]}

        def __len__(self) -> int:
            return 50

    backend = TorchBackend(module, Tokens(), forward=lambda e, m: tuple(module(None, m, e, True)))
    mask = torch.tensor([[1, 1, 1, 1, 0]])
    with backend.attending(lambda seen: seen.reweighed(uniform(seen))), torch.inference_mode():
        found = backend.traced(Inputs(ids, mask))
    e = module.embed(ids)[0, :4]
    each = torch.einsum("kco,kod,d->kc", module.readout, module.value, e.mean(0))  # the analytic mean
    torch.testing.assert_close(found.logits[0], each.mean(0))
    torch.testing.assert_close(found.attentions[0][0, :, :4], torch.full((3, 4), 0.25))
    assert "edits" in backend.offers()
    assert not module.mix._forward_hooks


def test_models_without_the_door_are_refused_in_words(tokenizer_of: Any) -> None:
    class Bag(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = torch.nn.Embedding(220, 4)
            self.head = torch.nn.Linear(4, 2)

    bag = Bag()
    model = heedful.load(
        bag, tokenizer=tokenizer_of("wordpiece"), embed=bag.table, forward=lambda e, m: bag.head(e.mean(1))
    )
    with pytest.raises(HeedfulError, match="attention"), model.attending(lambda seen: seen):
        pass


def test_values_are_not_zeroed_while_heads_are_edited(shared: Any) -> None:
    family = shared("bert")
    assert "value-maps" in family.model.capabilities  # probed before heads are edited
    uniformly = family.model.attending(lambda seen: seen.reweighed(uniform(seen)))
    with uniformly, pytest.raises(HeedfulError, match="edited"):
        heedful.explain(family.model, "the cat sat", ["value-zeroing"], evidence=False)
