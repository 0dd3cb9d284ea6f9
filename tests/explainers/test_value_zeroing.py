"""Value zeroing against L x T passes of the whole raw model with a hook on its own value projection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from heedful.comparisons.execute import BudgetSpentError
from heedful.core import registry
from heedful.core.errors import HeedfulError
from heedful.engine.question import Question, run_explainer
from heedful.engine.session import Session
from heedful.explainers.value_zeroing import mixing, shares
from heedful.models.value_zeroing import NAME, value_maps

TEXT = "the cat sat on the mat"
WIDTH = 32
PARTS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any], slice]] = {
    # layers, value projection of a layer, columns of its output that are values
    "bert": (lambda m: m.bert.encoder.layer, lambda b: b.attention.self.value, slice(None)),
    "mean-pool": (lambda m: m.bert.encoder.layer, lambda b: b.attention.self.value, slice(None)),
    "roberta": (lambda m: m.roberta.encoder.layer, lambda b: b.attention.self.value, slice(None)),
    "distilbert": (lambda m: m.distilbert.transformer.layer, lambda b: b.attention.v_lin, slice(None)),
    "gpt2": (lambda m: m.transformer.h, lambda b: b.attn.c_attn, slice(2 * WIDTH, None)),
    "gpt2-classifier": (lambda m: m.transformer.h, lambda b: b.attn.c_attn, slice(2 * WIDTH, None)),
    "llama": (lambda m: m.model.layers, lambda b: b.self_attn.v_proj, slice(None)),
    "llama-classifier": (lambda m: m.model.layers, lambda b: b.self_attn.v_proj, slice(None)),
}
ONE_STACK = list(PARTS)


def raw_maps(family: Any, ids: list[int]) -> list[np.ndarray]:
    """Row-normalised distances from whole passes, one for each layer and token."""
    layers, value_of, columns = PARTS[family.name]
    blocks = layers(family.hf)
    states: list[torch.Tensor] = []

    def keep(_module: Any, _args: Any, output: Any) -> None:
        states.append((output if isinstance(output, torch.Tensor) else output[0])[0].double())

    def run() -> list[torch.Tensor]:
        states.clear()
        handles = [block.register_forward_hook(keep) for block in blocks]
        with torch.no_grad():
            family.hf(torch.tensor([ids]))
        for handle in handles:
            handle.remove()
        return list(states)

    plain = run()
    found = []
    for index, block in enumerate(blocks):
        distance = np.zeros((len(ids), len(ids)))
        for j in range(len(ids)):

            def zero(_module: Any, _args: Any, output: torch.Tensor, j: int = j) -> torch.Tensor:
                output = output.clone()
                output[:, j, columns] = 0
                return output

            handle = value_of(block).register_forward_hook(zero)
            other = run()[index]
            handle.remove()
            distance[:, j] = 1 - torch.cosine_similarity(plain[index], other, dim=-1).numpy()
        found.append(distance / distance.sum(1, keepdims=True))
    return found


@pytest.mark.parametrize("name", ONE_STACK)
def test_whole_passes_agree(shared: Any, name: str) -> None:
    family = shared(name)
    x = family.model.encode(TEXT)
    target = family.model.target(x)
    expected = raw_maps(family, list(x.ids))
    found = mixing(Question(Session(family.model), x, target), target, 2)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs, atol=1e-5)  # float32, sdpa against eager
        assert ours.max(1).values.min() > 1e-2
    scores = run_explainer("value-zeroing", family.model, x, target).scores
    readout = np.array(family.model.trace(x, target).readout)
    np.testing.assert_allclose(scores, readout @ expected[1] @ expected[0], atol=1e-5)
    assert scores.sum() == pytest.approx(1.0)


def test_decoders_do_not_look_ahead(shared: Any) -> None:
    family = shared("llama")
    x = family.model.encode(TEXT)
    for layer in mixing(
        Question(Session(family.model), x, family.model.target(x)), family.model.target(x), 2
    ):
        assert float(layer.triu(1).abs().max()) < 1e-9
        assert layer[0, 0] == pytest.approx(1.0)


def test_shares() -> None:
    rows = shares(torch.tensor([[1.0, 3.0], [0.0, 0.0]], dtype=torch.float64))
    assert rows.tolist() == [[0.25, 0.75], [0.0, 1.0]]


def test_small_chunks_and_little_memory_change_nothing(shared: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from heedful.models import value_zeroing

    model = shared("bert").model
    x = model.encode(TEXT)
    target = model.target(x)
    whole = run_explainer("value-zeroing", model, x, target).scores
    plain = value_zeroing.moved

    def little_memory(call: Any, module: Any, tokens: torch.Tensor) -> torch.Tensor:
        if len(tokens) > 3:
            raise MemoryError
        return plain(call, module, tokens)

    monkeypatch.setattr(value_zeroing, "moved", little_memory)
    np.testing.assert_allclose(run_explainer("value-zeroing", model, x, target).scores, whole, atol=1e-7)


def test_the_model_is_left_as_it_was(fresh: Any) -> None:
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    family = fresh("gpt2")
    family.hf.train()
    x = family.model.encode(TEXT)
    target = family.model.target(x)
    before = [set(vars(m)) for m in family.hf.modules()]
    run_explainer("value-zeroing", family.model, x, target)
    assert family.hf.config._attn_implementation == "sdpa"
    assert all(m.training for m in family.hf.modules())
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in family.hf.modules())
    assert [set(vars(m)) for m in family.hf.modules()] == before
    assert NAME not in ALL_ATTENTION_FUNCTIONS

    def broken() -> None:
        raise RuntimeError("on purpose")

    with pytest.raises(RuntimeError, match="on purpose"):
        value_maps(family.hf, broken, 2)
    assert family.hf.config._attn_implementation == "sdpa"
    assert not any(m._forward_hooks for m in family.hf.modules())


def test_offered_where_it_works(family: Any) -> None:
    assert ("value-maps" in family.model.capabilities) == (
        family.name in (*ONE_STACK, "bert-multi", "bert-regression")
    )


def test_refused_in_a_sentence(shared: Any) -> None:
    model = shared("bart-classifier").model
    with pytest.raises(HeedfulError, match="one stack of layers"):
        model.require(registry.get("value-zeroing").needs, "value-zeroing")


def test_cost(fresh: Any) -> None:
    model = fresh("bert").model
    x = model.encode(TEXT)
    target = model.target(x)
    assert "value-maps" in model.capabilities
    before = model.spent
    run_explainer("value-zeroing", model, x, target)
    assert (model.spent - before).forwards == 1 + 1 + len(x)


def test_the_budget_counts_its_rows(shared: Any) -> None:
    model = shared("bert").model
    x = model.encode(TEXT)
    target = model.target(x)
    run = Session(model, budget=len(x) + 4)  # the trace is one of them
    run_explainer("value-zeroing", run, x, target)  # type: ignore[arg-type]
    assert run.left == 2
    with pytest.raises(BudgetSpentError, match=f"2 model inputs left and this method needs {len(x) + 1}"):
        run_explainer("value-zeroing", run, x, target)  # type: ignore[arg-type]


def test_an_earlier_position_and_a_continuation(shared: Any) -> None:
    model = shared("gpt2").model
    x = model.encode(TEXT)
    early = run_explainer("value-zeroing", model, x, model.target(x, {"position": 3}))
    assert early.scores[3:].tolist() == [0.0] * (len(x) - 3)
    assert early.scores.sum() == pytest.approx(1.0)
    long = run_explainer("value-zeroing", model, x, model.target(x, {"sequence": " a dog ran"}))
    assert 0 < long.scores.sum() < 1


def test_layers_that_are_shared(tokenizer_of: Any) -> None:
    """ALBERT runs one layer's weights several times: each run is a layer of its own."""
    from transformers import AlbertConfig, AlbertForSequenceClassification

    from heedful.models.load import load

    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 64, "embedding_size": 16}
    config = AlbertConfig(
        vocab_size=220, num_hidden_layers=3, max_position_embeddings=64, pad_token_id=3, **sizes
    )
    model = load((AlbertForSequenceClassification(config).eval(), tokenizer_of("wordpiece")))
    assert "value-maps" in model.capabilities
    x = model.encode(TEXT)
    assert len(mixing(Question(Session(model), x, model.target(x)), model.target(x), 3)) == 3
