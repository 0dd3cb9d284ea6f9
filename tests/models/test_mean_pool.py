"""MeanPoolClassifier on random weights: formula, padding, embeddings, attentions, save and load."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor
from transformers import AutoConfig, AutoModelForSequenceClassification

from heedful.models.mean_pool import MeanPoolClassifier, MeanPoolConfig

IDS = torch.tensor([[5, 9, 2, 7]])


@pytest.fixture
def model() -> MeanPoolClassifier:
    config = MeanPoolConfig(
        vocab_size=20,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=32,
        head_size=8,
        initializer_range=0.5,  # large enough that the logits move with the input
        id2label={0: "benign", 1: "injection"},
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return MeanPoolClassifier(config).eval()


def logits(model: MeanPoolClassifier, **inputs: Tensor) -> Tensor:
    with torch.no_grad():
        out: Tensor = model(**inputs).logits
    return out


def test_the_formula(model: MeanPoolClassifier) -> None:
    mask = torch.tensor([[1, 1, 1, 0]])
    with torch.no_grad():
        hidden = model.bert(IDS, attention_mask=mask).last_hidden_state[0, :3]  # (3, d)
    first, last = model.classifier[0], model.classifier[3]
    pooled = hidden.mean(0)
    inner = torch.relu(first.weight @ pooled + first.bias)
    want = (last.weight @ inner + last.bias)[None]
    torch.testing.assert_close(logits(model, input_ids=IDS, attention_mask=mask), want)


def test_padding_changes_nothing_and_tokens_do(model: MeanPoolClassifier) -> None:
    plain = logits(model, input_ids=IDS)
    padded = torch.tensor([[5, 9, 2, 7, 0, 0]])
    mask = torch.tensor([[1, 1, 1, 1, 0, 0]])
    torch.testing.assert_close(logits(model, input_ids=padded, attention_mask=mask), plain)
    assert not torch.allclose(logits(model, input_ids=padded), plain, atol=1e-2)
    assert not torch.allclose(logits(model, input_ids=IDS + 1), plain, atol=1e-2)


def test_embeddings_in_place_of_ids_and_gradients_to_them(model: MeanPoolClassifier) -> None:
    embeds = model.get_input_embeddings()(IDS).detach().requires_grad_()
    out = model(inputs_embeds=embeds).logits
    torch.testing.assert_close(out.detach(), logits(model, input_ids=IDS))
    (gradient,) = torch.autograd.grad(out[0, 1], embeds)
    assert gradient.abs().sum(-1).min() > 0  # every token reaches the logit


def test_attention_implementation_switches_and_shows_weights(model: MeanPoolClassifier) -> None:
    fast = logits(model, input_ids=IDS)
    model.set_attn_implementation("eager")
    with torch.no_grad():
        out = model(input_ids=IDS, output_attentions=True, output_hidden_states=True)
    torch.testing.assert_close(out.logits, fast)
    assert [tuple(maps.shape) for maps in out.attentions] == [(1, 4, 4, 4)] * 2
    torch.testing.assert_close(out.attentions[0].sum(-1), torch.ones(1, 4, 4))
    assert len(out.hidden_states) == 3
    assert isinstance(model(input_ids=IDS, return_dict=False), tuple)


def test_a_folder_loads_through_the_auto_classes(model: MeanPoolClassifier, tmp_path: Path) -> None:
    model.save_pretrained(tmp_path)
    assert (tmp_path / "model.safetensors").is_file()
    config = AutoConfig.from_pretrained(tmp_path)
    assert type(config) is MeanPoolConfig
    assert config.head_size == 8
    again = AutoModelForSequenceClassification.from_pretrained(tmp_path)
    assert type(again) is MeanPoolClassifier
    assert again.config.id2label == {0: "benign", 1: "injection"}
    assert torch.equal(logits(again, input_ids=IDS), logits(model, input_ids=IDS))
