"""float64, float32 and bfloat16: a model can do the same in each, and answers the same but for rounding."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch

from heedful.models.contexts import untouched
from heedful.models.load import load

TEXT = "the cat sat on the mat"
DTYPES = {"float64": torch.float64, "bfloat16": torch.bfloat16}
LOST = {"float64": set(), "bfloat16": {"relevance"}}  # its rules divide by sums that bfloat16 rounds away


def values(model: Any, x: Any, target: Any, operator: str) -> np.ndarray:
    """Without each token, without the first few, and without all."""
    count = len(x.units("token"))
    keep = np.concatenate([~np.eye(count, dtype=bool), ~np.tri(count, dtype=bool)])
    return np.asarray(model.values(x, target, keep, operator=operator, unit="token"))


def close(found: np.ndarray, expected: np.ndarray, dtype: torch.dtype) -> None:
    """16 roundings of the coarser of the two, of the largest value."""
    eps = max(torch.finfo(kind).eps for kind in (dtype, torch.float32))
    np.testing.assert_allclose(found, expected, rtol=0, atol=16 * eps * max(1.0, np.abs(expected).max()))


@pytest.mark.parametrize("name", ["float64", pytest.param("bfloat16", marks=pytest.mark.slow)])
def test_every_family_in_every_precision(family: Any, name: str) -> None:
    """The same capabilities, and every operator gives the float32 model's values."""
    own, dtype = family.model, DTYPES[name]
    other: Any = load((copy.deepcopy(family.hf).to(dtype), family.tokenizer))
    assert other.capabilities == own.capabilities - LOST[name]
    assert other.operators == own.operators
    x = own.encode(TEXT)
    target = own.target(x)
    for operator in own.operators:
        close(values(other, x, target, operator), values(own, x, target, operator), dtype)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("kind", ["Llama", "Qwen2", "Mistral"])
def test_the_first_token_hidden_without_a_bos(tokenizer_of: Any, kind: str, attention: str) -> None:
    """A decoder's first row then sees nothing: no NaN, in the plain pass and where attention is edited."""
    import transformers

    config = getattr(transformers, f"{kind}Config")(
        vocab_size=330,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=64,
        max_position_embeddings=64,
        initializer_range=0.2,
    )
    with torch.random.fork_rng():
        torch.manual_seed(len(kind))
        hf = getattr(transformers, f"{kind}ForCausalLM")(config).eval()
    hf.set_attn_implementation(attention)
    tokenizer = tokenizer_of("byte-level")
    own: Any = load((hf, tokenizer))
    x = own.encode(TEXT)
    target = own.target(x)
    expected = values(own, x, target, "pad")
    for dtype in (torch.float64, torch.bfloat16):
        other: Any = load((copy.deepcopy(hf).to(dtype), tokenizer))
        assert not any(x.special)
        assert "edits" in other.capabilities
        close(values(other, x, target, "pad"), expected, dtype)
        with other.attending(lambda seen: seen.reweighed(seen.weights.clone())):
            close(values(other, x, target, "pad"), expected, dtype)


def test_a_float64_model_answers_bit_for_bit_as_without_heedful(shared: Any) -> None:
    """Scores that float32 cannot hold are the only ones touched."""
    family = shared("llama")
    ids = torch.tensor([family.x(TEXT).ids])
    for attention in ("sdpa", "eager"):
        hf = copy.deepcopy(family.hf).double()
        hf.set_attn_implementation(attention)
        with torch.no_grad():
            bare = hf(ids).logits
            with untouched(hf):
                inside = hf(ids).logits
        assert torch.equal(inside, bare)
