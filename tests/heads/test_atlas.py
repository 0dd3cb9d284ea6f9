"""The atlas against transformers' own maps, what it says about its sides, and nothing left on the model."""

from __future__ import annotations

import copy
import csv
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import heedful
from heedful.core.errors import HeedfulError
from heedful.heads import word_maps as wording
from heedful.models.load import load
from heedful.models.written_text import decoder_text

TEXT = "the cat sat on the mat. hello world! lower login"
PLAIN = ["bert", "bert-multi", "bert-regression", "mean-pool", "distilbert", "roberta", "gpt2", "llama"]
TWO_STACKS = ["bart", "t5", "bart-classifier", "t5-classifier"]


def eager(hf: Any) -> Any:
    """A copy of the model in eager attention: what transformers itself shows."""
    other = copy.deepcopy(hf).eval()
    other.set_attn_implementation("eager")
    return other


def shown(hf: Any, **inputs: Any) -> Any:
    with torch.no_grad():
        return eager(hf)(**inputs, output_attentions=True)


def stacked(maps: Any) -> Any:
    return np.stack([layer[0].numpy() for layer in maps])


def tensors(x: Any, **more: Any) -> dict[str, Any]:
    given = {"input_ids": torch.tensor([x.ids]), "attention_mask": torch.ones(1, len(x), dtype=torch.long)}
    return given | more


def albert(tokenizer: Any) -> Any:
    """Layers share their weights, so one module is asked twice."""
    from transformers import AlbertConfig, AlbertForSequenceClassification

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
    with torch.random.fork_rng():
        torch.manual_seed(5)
        return AlbertForSequenceClassification(config).eval(), tokenizer


# --- parity ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gradients", [True, False])
@pytest.mark.parametrize("name", PLAIN)
def test_maps_are_those_of_transformers(shared: Any, name: str, gradients: bool) -> None:
    family = shared(name)
    assert family.hf.config._attn_implementation == "sdpa"  # which shows none
    atlas = heedful.attention(family.model, TEXT, gradients=gradients)
    types = {} if atlas.x.type_ids is None else {"token_type_ids": torch.tensor([atlas.x.type_ids])}
    types = types if name.startswith("bert") else {}
    expected = stacked(shown(family.hf, **tensors(atlas.x, **types)).attentions)
    np.testing.assert_array_equal(atlas.maps, expected)
    assert atlas.maps.dtype == np.float32
    assert atlas.stacks[0].causal == (name in ("gpt2", "llama"))
    assert [maps.stack for maps in atlas.stacks] == ["self"]
    assert any("sdpa" in note for note in atlas.notes)
    assert (atlas.target is not None) == gradients == (atlas.stacks[0].grads is not None)


def test_shared_layers_are_each_shown(tokenizer_of: Callable[[str], Any]) -> None:
    hf, tokenizer = albert(tokenizer_of("wordpiece"))
    atlas = heedful.attention((hf, tokenizer), TEXT)
    types = torch.tensor([atlas.x.type_ids])
    expected = stacked(shown(hf, **tensors(atlas.x, token_type_ids=types)).attentions)
    np.testing.assert_array_equal(atlas.maps, expected)
    assert not np.allclose(expected[0], expected[1])


@pytest.mark.parametrize("gradients", [True, False])
@pytest.mark.parametrize("name", TWO_STACKS)
def test_three_stacks_are_those_of_transformers(shared: Any, name: str, gradients: bool) -> None:
    family = shared(name)
    answer = None if name.endswith("classifier") else "the dog"
    atlas = heedful.attention(family.model, TEXT, answer=answer, gradients=gradients)
    more = {}
    if answer:
        ids = family.tokenizer(answer, add_special_tokens=False)["input_ids"]
        more["decoder_input_ids"] = torch.tensor([[family.hf.config.decoder_start_token_id, *ids]])
    out = shown(family.hf, **tensors(atlas.x, **more))
    for stack, maps in (
        ("self", out.encoder_attentions),
        ("decoder", out.decoder_attentions),
        ("cross", out.cross_attentions),
    ):
        np.testing.assert_array_equal(atlas.stack(stack).weights, stacked(maps))
        assert atlas.stack(stack).causal == (stack == "decoder")
    assert atlas.stack("cross").keys.labels == atlas.stack("self").keys.labels
    assert atlas.stack("cross").queries.labels == atlas.stack("decoder").keys.labels


def test_a_forced_answer_is_what_the_decoder_reads(shared: Any) -> None:
    atlas = heedful.attention(shared("bart").model, TEXT, answer="the cat sat")
    side = atlas.stack("cross").queries
    assert side.labels[0] == "</s>"  # this model's start token
    assert atlas.words().stack("cross").queries.labels == ("</s>", "the", "cat", "sat")
    assert side.special == (True, *[False] * (len(side) - 1))
    assert atlas.target is not None
    assert atlas.target.kind == "sequence"


def test_without_an_answer_the_decoder_reads_what_it_wrote(shared: Any) -> None:
    family = shared("t5")
    atlas = heedful.attention(family.model, TEXT)
    written = family.model.answer(family.model.encode(TEXT))
    assert len(atlas.stack("decoder").keys) == len(written)  # the start, and all but the last
    without = heedful.attention(family.model, TEXT, gradients=False)
    np.testing.assert_array_equal(without.stack("cross").weights, atlas.stack("cross").weights)


def test_a_decoder_that_classifies_reads_the_text_again(shared: Any) -> None:
    atlas = heedful.attention(shared("bart-classifier").model, "the cat sat")
    read, written = atlas.stack("self").keys, atlas.stack("decoder").keys
    assert len(written) == len(read)
    assert written.labels[0] == "</s>"
    assert [label.removeprefix("##") for label in written.labels[1:]] == [
        label.removeprefix("##") for label in read.labels[:-1]
    ]


def test_a_headless_encoder_shows_its_maps(tokenizer_of: Callable[[str], Any]) -> None:
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=220,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=64,
        pad_token_id=3,
        initializer_range=0.2,
    )
    hf = BertModel(config).eval()
    atlas = heedful.attention((hf, tokenizer_of("wordpiece")), TEXT)
    types = torch.tensor([atlas.x.type_ids])
    expected = stacked(shown(hf, **tensors(atlas.x, token_type_ids=types)).attentions)
    np.testing.assert_array_equal(atlas.maps, expected)
    assert atlas.target is None
    assert atlas.stacks[0].grads is None
    assert atlas.model["prediction"] == []
    assert any("no gradients" in note for note in atlas.notes)
    with pytest.raises(HeedfulError, match="makes no prediction"):
        heedful.attention((hf, tokenizer_of("wordpiece")), TEXT, "positive")


def test_a_single_query_layer() -> None:
    model: Any = heedful.load("zoo:one-layer")
    atlas = heedful.attention(model, "the service is not bad")
    with torch.no_grad():
        alpha = model.module.attend(torch.tensor([atlas.x.ids]))[1]
    assert atlas.maps.shape == (1, alpha.shape[1], 1, len(atlas.x))
    np.testing.assert_allclose(atlas.maps[0, :, 0], alpha[0].numpy(), rtol=0, atol=1e-7)
    assert atlas.stacks[0].queries.labels == ("answer",)
    assert atlas.readout == (1.0,)


def test_a_token_the_tokenizer_has_no_name_for_is_shown_by_its_number(shared: Any) -> None:
    """Models often have more embeddings than their tokenizer has tokens, and may write one of those."""
    family = shared("t5")
    beyond = len(family.tokenizer)
    assert family.hf.config.vocab_size > beyond
    atlas = heedful.attention(family.model, "the cat", answer=[5, beyond, 6])
    assert f"<{beyond}>" in decoder_text(family.tokenizer, [0, 5, beyond]).tokens
    assert atlas.stack("decoder").keys.labels[2] == f"<{beyond}>"
    assert f"&lt;{beyond}&gt;" in atlas.page() or f"<{beyond}>" in json.dumps(atlas.to_dict())
    heedful.attention(family.model, "a").page()


# --- masks ----------------------------------------------------------------------------------------------


def mistral(tokenizer: Any, window: int | None, layers: int = 2) -> Any:
    """Queries are 0, so every head attends uniformly."""
    from transformers import MistralConfig, MistralForCausalLM

    config = MistralConfig(
        vocab_size=330,
        hidden_size=32,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=64,
        max_position_embeddings=64,
        sliding_window=window,
    )
    hf = MistralForCausalLM(config).eval()
    for layer in hf.model.layers:
        torch.nn.init.zeros_(layer.self_attn.q_proj.weight)
    return hf, tokenizer


def modernbert(tokenizer: Any) -> Any:
    """Layers 0 and 3 look everywhere, the others two tokens to each side."""
    from transformers import ModernBertConfig, ModernBertForSequenceClassification

    config = ModernBertConfig(
        vocab_size=220,
        hidden_size=32,
        num_hidden_layers=4,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=64,
        local_attention=4,
        global_attn_every_n_layers=3,
        pad_token_id=3,
        cls_token_id=1,
        sep_token_id=2,
        bos_token_id=1,
        eos_token_id=2,
        num_labels=2,
    )
    with torch.random.fork_rng():
        torch.manual_seed(5)
        return ModernBertForSequenceClassification(config).eval(), tokenizer


def assert_uniform(atlas: Any) -> None:
    for kind in atlas.kinds():
        assert kind.kind == "broad"
        expected = {name: 1.0 if name == "broad" else 0.0 for name in kind.scores}
        assert kind.scores == pytest.approx(expected, abs=1e-5)
        assert len(kind.scores) >= 3


@pytest.mark.parametrize("window", [2, 4, None])
@pytest.mark.parametrize("gradients", [True, False])
def test_a_uniform_head_in_a_sliding_window_is_the_control(
    tokenizer_of: Callable[[str], Any], window: int | None, gradients: bool
) -> None:
    atlas = heedful.attention(mistral(tokenizer_of("byte-level"), window), TEXT, gradients=gradients)
    maps, size = atlas.stacks[0], len(atlas.x)
    ahead = np.arange(size)[:, None] - np.arange(size)
    expected = (ahead >= 0) & (ahead < (window or size))
    assert maps.causal
    if window is None:
        assert maps.allowed is None
    else:
        assert maps.allowed is not None
        np.testing.assert_array_equal(maps.allowed, np.stack([expected] * 2))
    np.testing.assert_allclose(atlas.uniform().maps, atlas.maps, atol=1e-6)
    np.testing.assert_allclose(atlas.words().uniform().maps, atlas.words().maps, atol=1e-6)
    assert_uniform(atlas)


def test_a_word_may_look_where_any_of_its_tokens_may(tokenizer_of: Callable[[str], Any]) -> None:
    atlas = heedful.attention(mistral(tokenizer_of("byte-level"), 2), TEXT)
    words = atlas.words().stacks[0]
    assert words.allowed is not None
    assert len(words.keys) < len(atlas.x)
    np.testing.assert_array_equal(words.allowed, words.weights.any(1))


def test_layers_have_masks_of_their_own(tokenizer_of: Callable[[str], Any]) -> None:
    hf, tokenizer = modernbert(tokenizer_of("wordpiece"))
    atlas = heedful.attention((hf, tokenizer), TEXT)
    maps, size = atlas.stacks[0], len(atlas.x)
    near = np.abs(np.arange(size)[:, None] - np.arange(size)) <= 2
    assert maps.allowed is not None
    assert not maps.causal
    for layer in range(4):
        np.testing.assert_array_equal(maps.allowed[layer], near if layer % 3 else np.ones_like(near))
    assert_uniform(atlas.uniform())
    assert "first" in atlas.kinds()[0].scores
    assert "first" not in atlas.kinds()[4].scores  # too few can see it
    shares = wording.special_mass(atlas.uniform().stacks[0])[:, 0]
    assert shares[0] == pytest.approx(2 / size)
    assert shares[1] < shares[0]
    assert atlas.special_share() == pytest.approx(shares.mean())
    assert json.loads(atlas.to_json())["stacks"][0]["allowed"] == maps.allowed.tolist()


def test_attention_so_sharp_that_it_underflows_is_no_mask(fresh: Any) -> None:
    family = fresh("bert")
    with torch.no_grad():
        for layer in family.hf.bert.encoder.layer:
            layer.attention.self.query.weight *= 1e4
    maps = heedful.attention(family.model, TEXT).stacks[0]
    assert not maps.weights.any(1).all()
    assert maps.allowed is None


def test_zeros_of_a_module_that_shows_no_mask_are_told(tokenizer_of: Callable[[str], Any]) -> None:
    class Sharp(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.out = torch.nn.Embedding(300, 8), torch.nn.Linear(8, 2)

        def embed(self, ids: Any) -> Any:
            return self.table(ids)

        def forward(self, inputs_embeds: Any, attention_mask: Any) -> Any:
            size = inputs_embeds.shape[1]
            logits = 1e4 * torch.eye(size).roll(1, 1) + inputs_embeds.sum((1, 2))[:, None, None, None]
            maps = logits.softmax(-1)  # (B, 1, T, T), all but one of each row exactly 0
            return self.out((maps[:, 0] @ inputs_embeds).mean(1)), (maps,)

    atlas = heedful.attention(load(Sharp(), tokenizer=tokenizer_of("wordpiece")), "the cat sat")
    assert atlas.stacks[0].allowed is None
    assert any("does not show its masks" in note for note in atlas.notes)


# --- gradients ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["bert", "gpt2", "bart"])
def test_gradients_are_those_of_the_trace(shared: Any, name: str) -> None:
    family = shared(name)
    atlas = heedful.attention(family.model, TEXT)
    trace = family.model.trace(atlas.x, atlas.target)
    pairs = [("self", trace.grad_attentions), ("decoder", trace.grad_decoder_attentions)]
    for stack, grads in [*pairs, ("cross", trace.grad_cross)]:
        if grads:
            expected = np.stack([layer.numpy() for layer in grads])
            np.testing.assert_allclose(atlas.stack(stack).grads, expected, rtol=1e-5, atol=1e-8)
            assert np.abs(expected).max() > 0
    assert atlas.readout == pytest.approx(trace.readout)


def test_a_target_in_the_middle_leaves_the_map_whole(shared: Any) -> None:
    """Later rows are shown, and have no gradient, for no token looks ahead."""
    family = shared("gpt2")
    atlas = heedful.attention(family.model, TEXT, {"position": 4})
    plain = heedful.attention(family.model, TEXT, gradients=False)
    np.testing.assert_array_equal(atlas.maps, plain.maps)
    grads = atlas.stacks[0].grads
    assert grads is not None
    assert not grads[:, :, 4:].any()
    assert grads[:, :, :4].any()
    assert len(atlas.readout) == len(atlas.x)
    assert atlas.readout[3] == pytest.approx(1.0)


def test_what_was_written_is_part_of_a_causal_map(shared: Any) -> None:
    family = shared("gpt2")
    atlas = heedful.attention(family.model, "the cat sat", answer=" on the mat")
    ids = family.tokenizer("the cat sat on the mat")["input_ids"]
    assert atlas.x.ids == tuple(ids[:-1])  # the last is written, never read
    expected = stacked(shown(family.hf, input_ids=torch.tensor([ids[:-1]])).attentions)
    np.testing.assert_array_equal(atlas.maps, expected)
    plain = heedful.attention(family.model, "the cat sat", answer=" on the mat", gradients=False)
    np.testing.assert_array_equal(plain.maps, expected)


# --- refusals -------------------------------------------------------------------------------------------


def test_what_shows_no_attention_is_refused() -> None:
    with pytest.raises(HeedfulError, match="shows no attention"):
        heedful.attention(lambda texts: [[0.0, 1.0] for _ in texts], "the cat")


def test_a_module_without_maps_is_refused(tokenizer_of: Callable[[str], Any]) -> None:
    class Bag(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.out = torch.nn.Embedding(300, 8), torch.nn.Linear(8, 2)

        def embed(self, ids: Any) -> Any:
            return self.table(ids)

        def forward(self, inputs_embeds: Any, attention_mask: Any) -> Any:
            return self.out(inputs_embeds.mean(1))

    model = load(Bag(), tokenizer=tokenizer_of("wordpiece"))
    with pytest.raises(HeedfulError, match="no attention weights come back"):
        heedful.attention(model, "the cat")


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("bert", {"answer": "the dog"}, "writes no answer"),
        ("bert", {"long": "window"}, "one pass"),
        ("bert", {"target": "nonsense"}, "unknown label"),
        ("bart", {"answer": ""}, "the answer is empty"),
        ("bart", {"answer": "the dog", "target": {"sequence": "the cat"}}, "already contains"),
        ("gpt2", {"target": {"sequence": " dog", "contrast": " cat"}}, "one pass"),
    ],
)
def test_a_mistake_is_told_in_a_sentence(shared: Any, name: str, arguments: Any, message: str) -> None:
    with pytest.raises(HeedfulError, match=message):
        heedful.attention(shared(name).model, "the cat", **arguments)


def test_an_unknown_stack_is_told(shared: Any) -> None:
    with pytest.raises(HeedfulError, match="this model has: self"):
        heedful.attention(shared("bert").model, "the cat").stack("cross")


def test_a_short_text_says_how_little_kinds_mean(shared: Any) -> None:
    for text, told in (("cat", "1 word"), ("the cat", "2 words"), ("the cat sat", "")):
        notes = [note for note in heedful.attention(shared("bert").model, text).notes if "kinds" in note]
        assert [told in note for note in notes] == [True] * bool(told)


def test_a_long_text_is_cut_only_when_asked(shared: Any) -> None:
    model = shared("bert").model
    with pytest.raises(HeedfulError, match="tokens") as caught:
        heedful.attention(model, "the cat " * 60)
    assert "window" not in caught.value.fix  # which an atlas refuses
    assert "--long truncate" in caught.value.fix
    atlas = heedful.attention(model, "the cat " * 60, long="truncate")
    assert len(atlas.x) == model.window
    assert any("truncated" in note for note in atlas.notes)


# --- the model is left alone ----------------------------------------------------------------------------


@pytest.mark.parametrize("gradients", [True, False])
@pytest.mark.parametrize("name", ["bert", "gpt2", "bart"])
def test_nothing_is_left_behind(fresh: Any, name: str, gradients: bool) -> None:
    sys.path.insert(0, str(Path(__file__).parents[1] / "models"))
    try:
        from test_untouched import assert_same, lived_in, state
    finally:
        sys.path.pop(0)
    family = fresh(name)
    log = lived_in(family, True, "sdpa")
    before = state(family.hf)
    heedful.attention(family.model, "the cat sat", gradients=gradients)
    assert_same(before, state(family.hf))
    assert log


# --- as data --------------------------------------------------------------------------------------------


def test_the_document_and_the_tables(shared: Any) -> None:
    atlas = heedful.attention(shared("bart").model, "the cat sat", answer="a dog").words()
    document = json.loads(atlas.to_json())
    assert [stack["stack"] for stack in document["stacks"]] == ["self", "decoder", "cross"]
    np.testing.assert_allclose(document["stacks"][2]["weights"], atlas.stack("cross").weights)
    assert "weights" not in json.loads(atlas.to_json(weights=False))["stacks"][0]
    rows = list(csv.DictReader(io.StringIO(atlas.to_csv())))
    assert len(rows) == sum(maps.weights.size for maps in atlas.stacks)
    cross = next(row for row in rows if row["stack"] == "cross" and row["from"] == "dog")
    place = (int(cross["layer"]), int(cross["head"]), int(cross["query"]), int(cross["key"]))
    assert float(cross["weight"]) == pytest.approx(atlas.stack("cross").weights[place], rel=1e-5)
    heads = list(csv.DictReader(io.StringIO(atlas.to_csv("heads"))))
    assert len(heads) == sum(maps.layers * maps.heads for maps in atlas.stacks)
    with pytest.raises(HeedfulError, match="unknown table"):
        atlas.to_csv("lines")


def test_pairs_keep_their_segments(shared: Any) -> None:
    atlas = heedful.attention(shared("bert").model, ("the cat", "a dog ran"))
    assert set(atlas.stacks[0].keys.segments) == {-1, 0, 1}


def test_the_answer_of_repr_names_what_is_inside(shared: Any) -> None:
    assert "self 2 x 4 heads" in repr(heedful.attention(shared("bert").model, "the cat"))
