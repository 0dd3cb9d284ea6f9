"""Sites: what is read is what hooks written by hand on each family's modules see; edits do what they say."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

import heedful
from heedful.core.errors import HeedfulError
from heedful.models.backend import Inputs
from heedful.models.sites import access
from heedful.models.sites.access import changing, place, read, reading, site_names, width

# family -> (block, attention, MLP, last linear layer of the MLP) of layer {L}, by their own names
PATHS = {
    "bert": ("bert.encoder.layer.{L}", "attention.output.dense", "output.dense", "output.dense"),
    "mean-pool": ("bert.encoder.layer.{L}", "attention.output.dense", "output.dense", "output.dense"),
    "distilbert": ("distilbert.transformer.layer.{L}", "attention.out_lin", "ffn", "ffn.lin2"),
    "roberta": ("roberta.encoder.layer.{L}", "attention.output.dense", "output.dense", "output.dense"),
    "gpt2": ("transformer.h.{L}", "attn", "mlp", "mlp.c_proj"),
    "gpt2-classifier": ("transformer.h.{L}", "attn.c_proj", "mlp.c_proj", "mlp.c_proj"),
    "llama": ("model.layers.{L}", "self_attn.o_proj", "mlp", "mlp.down_proj"),
    "t5": (
        "encoder.block.{L}",
        "layer.0.SelfAttention.o",
        "layer.1.DenseReluDense",
        "layer.1.DenseReluDense.wo",
    ),
    "bart": ("model.encoder.layers.{L}", "self_attn.out_proj", "fc2", "fc2"),
    "bart-classifier": ("model.encoder.layers.{L}", "self_attn.out_proj", "fc2", "fc2"),
}
DECODERS = {  # family -> (block, attention, attention to the encoder, MLP, its last linear layer)
    "t5": (
        "decoder.block.{L}",
        "layer.0.SelfAttention.o",
        "layer.1.EncDecAttention.o",
        "layer.2.DenseReluDense",
        "layer.2.DenseReluDense.wo",
    ),
    "bart": ("model.decoder.layers.{L}", "self_attn.out_proj", "encoder_attn.out_proj", "fc2", "fc2"),
}
PRE_NORM = ("gpt2", "llama", "t5")


def batch(family: Any, texts: tuple[str, ...] = ("the cat sat on the mat.", "hello world")) -> Inputs:
    rows = [family.tokenizer(text)["input_ids"] for text in texts]
    if family.model.backend.one_row_at_a_time or family.name == "bart-classifier":
        rows = rows[:1]
    longest = max(map(len, rows))
    pad = family.model.backend.special_id("pad") or 0
    ids = torch.tensor([row + [pad] * (longest - len(row)) for row in rows])
    mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows])
    answer = None
    if family.model.kind == "encoder-decoder":
        answer = torch.tensor([[family.model.backend.special_id("decoder_start"), 5, 6]] * len(rows))
    return Inputs(ids, mask, answer=answer)


def run(family: Any, inputs: Inputs) -> torch.Tensor:
    with torch.inference_mode():
        return family.model.backend.forward(inputs)  # type: ignore[no-any-return]


def by_hand(family: Any, inputs: Inputs, prefix: str, paths: tuple[str, ...]) -> dict[str, torch.Tensor]:
    """Hooks on the modules that the family's own source code names."""
    found: dict[str, torch.Tensor] = {}
    handles = []

    def keep(site: str, module: nn.Module, taken: bool = False) -> None:
        def hook(_module: Any, args: Any, output: Any) -> None:
            value = args[0] if taken else output[0] if isinstance(output, tuple) else output
            found[site] = value.clone()

        handles.append(module.register_forward_hook(hook))

    block, *parts, last = paths
    names = ("attn", "mlp") if len(parts) == 2 else ("attn", "cross", "mlp")
    for layer in range(2):
        whole = family.hf.get_submodule(block.format(L=layer))
        keep(f"{prefix}blocks.{layer}.resid", whole)
        for name, part in zip(names, parts, strict=True):
            keep(f"{prefix}blocks.{layer}.{name}", whole.get_submodule(part))
        keep(f"{prefix}blocks.{layer}.neurons", whole.get_submodule(last), taken=True)
    run(family, inputs)
    for handle in handles:
        handle.remove()
    return found


@pytest.mark.parametrize("name", list(PATHS))
def test_reads_what_hooks_on_the_known_modules_see(shared: Any, name: str) -> None:
    family = shared(name)
    inputs = batch(family)
    expected = by_hand(family, inputs, "", PATHS[name])
    if name in DECODERS:
        expected |= by_hand(family, inputs, "decoder.", DECODERS[name])
    names = [site for site in site_names(family.model) if not site.endswith("embed")]
    if name == "bart-classifier":
        names = [site for site in names if not site.startswith("decoder")]
    assert set(names) == set(expected)
    with reading(family.model, names) as seen:
        run(family, inputs)
    for site in names:
        assert torch.equal(seen[site], expected[site]), site
        assert width(family.model, site) == expected[site].shape[-1]


def test_embed_enters_the_first_block(shared: Any) -> None:
    """Oracle: hidden_states[0] of transformers, which is what the first layer takes."""
    for name in ("bert", "gpt2", "llama", "t5"):
        family = shared(name)
        inputs = batch(family)
        with reading(family.model, ["embed"]) as seen:
            run(family, inputs)
        with torch.inference_mode():
            out = family.hf(**family.model.backend._arguments(inputs), output_hidden_states=True)
        states = out.encoder_hidden_states if name == "t5" else out.hidden_states
        assert torch.equal(seen["embed"], states[0]), name


@pytest.mark.parametrize("name", PRE_NORM)
def test_parts_sum_to_the_stream(shared: Any, name: str) -> None:
    family = shared(name)
    with reading(family.model, site_names(family.model)) as seen:
        run(family, batch(family))
    for prefix in ("", "decoder.") if name == "t5" else ("",):
        before = seen[f"{prefix}embed"]
        for layer in range(2):
            parts = [seen[f"{prefix}blocks.{layer}.{part}"] for part in ("attn", "mlp")]
            parts += [seen[f"{prefix}blocks.{layer}.cross"]] if prefix else []
            torch.testing.assert_close(seen[f"{prefix}blocks.{layer}.resid"], before + sum(parts))
            before = seen[f"{prefix}blocks.{layer}.resid"]
        assert not place(family.model, f"{prefix}blocks.0.attn").normed


def test_in_post_norm_blocks_parts_are_added_before_the_norm(shared: Any) -> None:
    family = shared("bert")
    with reading(family.model, site_names(family.model)) as seen:
        run(family, batch(family))
    layer = family.hf.bert.encoder.layer[0]
    with torch.inference_mode():
        mid = layer.attention.output.LayerNorm(seen["embed"] + seen["blocks.0.attn"])
        out = layer.output.LayerNorm(mid + seen["blocks.0.mlp"])
    torch.testing.assert_close(seen["blocks.0.resid"], out)
    assert place(family.model, "blocks.0.mlp").normed


def test_an_edit_that_changes_nothing_changes_nothing(family: Any) -> None:
    """Bit for bit, at every site at once, for the same tensor and for a copy."""
    inputs = batch(family)
    plain = run(family, inputs)
    for edit in (lambda x: x, torch.clone):
        for site in site_names(family.model):
            with changing(family.model, site, edit):
                assert torch.equal(run(family, inputs), plain), site


def test_an_edit_of_the_last_stream_is_what_the_head_reads(shared: Any) -> None:
    """Oracle: the rest of the network by hand."""
    gpt2, llama = shared("gpt2"), shared("llama")
    for family, norm in ((gpt2, gpt2.hf.transformer.ln_f), (llama, llama.hf.model.norm)):
        inputs = batch(family)
        plain = run(family, inputs)
        seen: list[torch.Tensor] = []
        with changing(family.model, "blocks.1.resid", lambda x, seen=seen: (seen.append(x), x.flip(-1))[1]):
            found = run(family, inputs)
        with torch.inference_mode():
            expected = family.hf.lm_head(norm(seen[0].flip(-1)))
        assert torch.equal(found, expected)
        assert not torch.allclose(found, plain, atol=1e-3)
    bert = shared("bert")
    with changing(bert.model, "blocks.1.resid", torch.zeros_like), torch.inference_mode():
        found = bert.model.backend.forward(batch(bert))
        expected = bert.hf.classifier(torch.tanh(bert.hf.bert.pooler.dense.bias))
    torch.testing.assert_close(found, expected.expand_as(found))


def test_zeroed_parts_leave_the_stream_alone(shared: Any) -> None:
    """Without attention and MLP a pre-norm block hands on what it got."""
    family = shared("llama")
    with (
        changing(family.model, "blocks.1.attn", torch.zeros_like),
        changing(family.model, "blocks.1.mlp", torch.zeros_like),
        reading(family.model, ["blocks.0.resid", "blocks.1.resid"]) as seen,
    ):
        run(family, batch(family))
    assert torch.equal(seen["blocks.0.resid"], seen["blocks.1.resid"])


def test_neurons_are_changed_where_the_last_linear_layer_takes_them(shared: Any) -> None:
    family = shared("gpt2")
    silent = changing(family.model, "blocks.0.neurons", torch.zeros_like)
    with silent, reading(family.model, ["blocks.0.mlp"]) as seen:
        run(family, batch(family))
    bias = family.hf.transformer.h[0].mlp.c_proj.bias
    torch.testing.assert_close(seen["blocks.0.mlp"], bias.detach().expand_as(seen["blocks.0.mlp"]))


def test_edits_nest_and_the_inner_sees_what_the_outer_left(shared: Any) -> None:
    family = shared("gpt2")
    inputs = batch(family)
    with reading(family.model, ["blocks.0.mlp"]) as plain:
        run(family, inputs)
    with changing(family.model, "blocks.0.mlp", lambda x: x + 1):
        twice = changing(family.model, "blocks.0.mlp", lambda x: x * 2)
        with twice, reading(family.model, ["blocks.0.mlp"]) as seen:
            run(family, inputs)
        with reading(family.model, ["blocks.0.mlp"]) as outer:
            run(family, inputs)
    assert torch.equal(seen["blocks.0.mlp"], (plain["blocks.0.mlp"] + 1) * 2)
    assert torch.equal(outer["blocks.0.mlp"], plain["blocks.0.mlp"] + 1)


@pytest.mark.parametrize(
    ("name", "site"),
    [
        ("gpt2", "blocks.0.resid"),
        ("llama", "blocks.1.neurons"),
        ("t5", "blocks.0.mlp"),
        ("bart", "decoder.blocks.0.attn"),
    ],
)
def test_generation_with_a_cache_runs_edited(shared: Any, name: str, site: str) -> None:
    """What is written one token at a time is what whole passes say under the same edit, and not the plain."""
    family = shared(name)
    x = family.x("the cat sat")
    torch.manual_seed(0)
    push = 8 * torch.randn(width(family.model, site))
    plain = family.model.answer(x, max_new_tokens=4)
    with changing(family.model, site, lambda h: h + push):
        written = family.model.answer(x, max_new_tokens=4)
        again: list[int] = []
        for _ in written:
            again.append(int(family.model._next_logits(x, again).argmax()))
    assert written == again
    assert written != plain


def test_edits_work_where_heads_are_edited_too(fresh: Any) -> None:
    """Also when the sites are looked for inside: the edit of heads must not mislead the search."""
    family = fresh("bert")
    inputs = batch(family)
    calls: list[int] = []

    def silence(seen: Any) -> Any:
        calls.append(1)
        return replace(seen, heads=torch.zeros_like(seen.heads))

    with family.model.attending(silence):
        names = site_names(family.model)
        assert not calls
        with reading(family.model, ["blocks.0.attn"]) as seen:
            run(family, inputs)
    assert set(names) == set(site_names(load_again(family)))
    bias = family.hf.bert.encoder.layer[0].attention.output.dense.bias
    torch.testing.assert_close(seen["blocks.0.attn"], bias.detach().expand_as(seen["blocks.0.attn"]))


def load_again(family: Any) -> Any:
    return heedful.load((family.hf, family.tokenizer))


def test_a_pass_ends_where_the_last_site_is_seen(shared: Any) -> None:
    family = shared("gpt2")
    inputs = batch(family)
    later: list[int] = []
    handle = family.hf.transformer.h[1].register_forward_pre_hook(lambda *_: later.append(1))
    with reading(family.model, ["blocks.0.resid", "blocks.0.attn"]) as seen:
        run(family, inputs)
    assert len(later) == 1
    with torch.inference_mode():
        found = read(family.model, inputs, ["blocks.0.resid", "blocks.0.attn"])
    assert len(later) == 1, "the second block was run for nothing"
    handle.remove()
    assert found.keys() == seen.keys()
    assert all(torch.equal(found[site], seen[site]) for site in found)


def test_gradients_flow_through_what_is_read(shared: Any) -> None:
    family = shared("llama")
    with reading(family.model, ["blocks.0.resid"]) as seen, torch.enable_grad():
        logits, _ = family.model.backend.forward_with_grad(batch(family))
    (grad,) = torch.autograd.grad(logits[0, 3, 7], seen["blocks.0.resid"])
    assert (grad[0, :4] != 0).any()
    assert not (grad[0, 4:] != 0).any(), "a later token"
    assert not (grad[1] != 0).any(), "another text"


def test_layers_that_share_a_module_are_told_apart(tokenizer_of: Any) -> None:
    """Also after a pass that was cut short."""
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
    albert = AlbertForSequenceClassification(config).eval()
    model = heedful.load((albert, tokenizer_of("wordpiece")))
    ids = torch.tensor([model.encode("the cat sat").ids])
    inputs = Inputs(ids, torch.ones_like(ids))
    with torch.inference_mode():
        states = albert(ids, output_hidden_states=True).hidden_states
        names = [f"blocks.{layer}.resid" for layer in range(3)]
        with reading(model, names) as seen:
            read(model, inputs, ["blocks.1.mlp"])
            model.backend.forward(inputs)
    assert all(torch.equal(seen[name], states[i + 1]) for i, name in enumerate(names))


def others(tokenizer_of: Any) -> dict[str, tuple[Any, Any]]:
    """Families whose blocks are built otherwise: (model, what attention and the MLP are called there)."""
    import transformers as hf

    small = {
        "vocab_size": 330,
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 64,
        "max_position_embeddings": 64,
        "bos_token_id": 0,
        "eos_token_id": 0,
    }
    sizes = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads")
    few = {key: small[key] for key in (*sizes, "bos_token_id", "eos_token_id")}
    grouped = small | {"num_key_value_heads": 2}
    inner = ("post_attention_layernorm", "post_feedforward_layernorm", "mlp.down_proj")
    built: dict[str, tuple[Any, Any, Any]] = {
        "neox": (hf.GPTNeoXForCausalLM, hf.GPTNeoXConfig(**small), ("attention", "mlp", "mlp.dense_4h_to_h")),
        "falcon": (
            hf.FalconForCausalLM,
            hf.FalconConfig(**few),
            ("self_attention", "mlp", "mlp.dense_4h_to_h"),
        ),
        "gemma2": (hf.Gemma2ForCausalLM, hf.Gemma2Config(**grouped, head_dim=8), inner),
        "mixtral": (
            hf.MixtralForCausalLM,
            hf.MixtralConfig(**grouped, num_local_experts=4),
            ("self_attn", "mlp", None),
        ),
        "granite": (
            hf.GraniteForCausalLM,
            hf.GraniteConfig(**grouped, residual_multiplier=0.3),
            (None, None, None),
        ),
    }
    torch.manual_seed(0)
    return {
        name: (heedful.load((cls(config).eval(), tokenizer_of("byte-level"))), names)
        for name, (cls, config, names) in built.items()
    }


def test_parallel_blocks_inner_norms_experts_and_scales(tokenizer_of: Any) -> None:
    """Found by what they add; experts have no one layer of neurons, and scaled parts are refused in words."""
    for name, (model, paths) in others(tokenizer_of).items():
        for part, path in zip(("attn", "mlp", "neurons"), paths, strict=True):
            if path is not None:
                assert place(model, f"blocks.1.{part}").path.endswith(f".1.{path}"), name
                continue
            with pytest.raises(HeedfulError, match=r"cannot be identified.*(scaled|no linear layer)"):
                place(model, f"blocks.1.{part}")
        assert place(model, "blocks.1.resid").width == 32


def test_a_module_of_ones_own(tokenizer_of: Any) -> None:
    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(220, 16)
            layer = nn.TransformerEncoderLayer(16, 2, 24, batch_first=True)
            self.stack = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
            self.head = nn.Linear(16, 2)

    own = Own().eval()
    model = heedful.load(
        own,
        tokenizer=tokenizer_of("wordpiece"),
        embed=own.table,
        forward=lambda e, m: own.head(own.stack(e, src_key_padding_mask=m == 0).mean(1)),
    )
    paths = {site: where.path for site, where in access.sites(model).places.items()}
    assert paths["blocks.1.attn"] == "stack.layers.1.self_attn"
    assert paths["blocks.1.neurons"] == "stack.layers.1.linear2"
    assert width(model, "blocks.0.neurons") == 24


def test_what_has_no_sites_is_refused_in_words(shared: Any) -> None:
    with pytest.raises(HeedfulError, match="nothing inside it"):
        site_names(heedful.load(lambda texts: [[0.0, 1.0] for _ in texts]))
    with pytest.raises(HeedfulError, match="no stacks of layers"):
        site_names(heedful.load("zoo:one-layer"))
    model = shared("gpt2").model
    with pytest.raises(HeedfulError, match=r"no site 'blocks.7.resid'.*blocks.0.resid"):
        width(model, "blocks.7.resid")
    for edit in (lambda x: x[:, :1], lambda x: None):
        skipped = pytest.raises(HeedfulError, match=r"the edit at blocks\.0\.mlp gave")
        with skipped, changing(model, "blocks.0.mlp", edit):
            run(shared("gpt2"), batch(shared("gpt2")))


def test_nothing_is_left_behind(fresh: Any) -> None:
    """Nor after an exception, nor after a pass that was cut short."""
    hooks = ["_forward_hooks", "_forward_pre_hooks"]
    hooks += [f"{table}_with_kwargs" for table in hooks]
    for name in ("bert", "gpt2", "t5"):
        family = fresh(name)
        family.hf.train()
        family.hf.get_input_embeddings().register_forward_hook(lambda *_: None)

        def state(hf: Any = family.hf) -> list[Any]:
            return [
                (m.training, list(vars(m)), [list(getattr(m, table)) for table in hooks])
                for m in hf.modules()
            ]

        before, random = state(), torch.get_rng_state()
        inputs = batch(family)
        with changing(family.model, "blocks.0.neurons", lambda x: x), reading(family.model, ["embed"]):
            read(family.model, inputs, ["blocks.0.resid"])
        with pytest.raises(ZeroDivisionError), changing(family.model, "blocks.0.mlp", lambda x: 1 / 0):
            family.model.backend.forward(inputs)
        assert state() == before
        assert torch.equal(torch.get_rng_state(), random)
        assert all(p.grad is None for p in family.hf.parameters())
