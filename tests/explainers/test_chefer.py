"""Chefer's rules and value zeroing against hand-written re-implementations on the raw models."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from heedful.engine.question import run_explainer
from heedful.explainers.chefer import normalised, relevance

TEXT = "the cat sat on the mat"


def raw_maps(family: Any, x: Any, target: Any) -> dict[str, list[tuple[np.ndarray, np.ndarray]]]:
    """(maps, gradients) of a plain transformers call and `backward`: none of heedful's tracing."""
    hf = family.hf
    inputs = {"input_ids": torch.tensor([x.ids])}
    if x.type_ids is not None:
        inputs["token_type_ids"] = torch.tensor([x.type_ids])
    if family.model.kind == "encoder-decoder":
        start = hf.config.decoder_start_token_id
        inputs["decoder_input_ids"] = torch.tensor([[start, *target.sequence[:-1]]])
    hf.set_attn_implementation("eager")
    try:
        out = hf(**inputs, output_attentions=True)
        groups = (
            {
                "encoder": out.encoder_attentions,
                "own": out.decoder_attentions,
                "cross": out.cross_attentions,
            }
            if hf.config.is_encoder_decoder
            else {"own": out.attentions}
        )
        for maps in groups.values():
            for layer in maps:
                layer.retain_grad()
        logits = out.logits[0]
        if target.kind == "sequence":
            logp = logits.log_softmax(-1)
            score = sum(logp[i, token] for i, token in enumerate(target.sequence))
        else:
            score = (logits[-1] if logits.ndim == 2 else logits)[target.index]
        score.backward()
        return {
            name: [(a[0].detach().double().numpy(), a.grad[0].double().numpy()) for a in maps]
            for name, maps in groups.items()
        }
    finally:
        hf.set_attn_implementation("sdpa")
        hf.zero_grad(set_to_none=True)


def positive_mean(pair: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """mean_h (grad A * A)^+ with loops over heads."""
    maps, grads = pair
    total = np.zeros(maps.shape[1:])
    for head in range(len(maps)):
        total += np.maximum(maps[head] * grads[head], 0)
    return total / len(maps)


def row_normalised_apart_from_the_identity(r: np.ndarray) -> np.ndarray:
    out = np.eye(len(r))
    for i, row in enumerate(r - np.eye(len(r))):
        if row.sum() > 0:
            out[i] += row / row.sum()
    return out


@pytest.mark.parametrize("name", ["bert", "roberta", "gpt2-classifier", "gpt2", "llama"])
def test_self_attention_rule(fresh: Any, name: str) -> None:
    family = fresh(name)
    x = family.model.encode(TEXT)
    target = family.model.target(x)
    r = np.eye(len(x))
    for pair in raw_maps(family, x, target)["own"]:
        r = r + positive_mean(pair) @ r
    position = 0 if name in ("bert", "roberta") else len(x) - 1
    expected = r[position] - np.eye(len(x))[position]
    found = run_explainer("chefer", family.model, x, target)
    np.testing.assert_allclose(found.scores, expected, rtol=1e-4, atol=1e-7)
    assert expected.max() > 1e-3  # far above the tolerance


@pytest.mark.parametrize("name", ["t5", "bart"])
def test_encoder_decoder_rules(fresh: Any, name: str) -> None:
    family = fresh(name)
    x = family.model.encode(TEXT)
    target = family.model.target(x, {"sequence": "a dog"})
    maps = raw_maps(family, x, target)
    r_tt = np.eye(len(x))
    for pair in maps["encoder"]:
        r_tt = r_tt + positive_mean(pair) @ r_tt
    answer = len(target.sequence)
    r_aa, r_at = np.eye(answer), np.zeros((answer, len(x)))
    for own, cross in zip(maps["own"], maps["cross"], strict=True):
        r_aa, r_at = r_aa + positive_mean(own) @ r_aa, r_at + positive_mean(own) @ r_at
        left = row_normalised_apart_from_the_identity(r_aa)
        r_at = r_at + left.T @ positive_mean(cross) @ row_normalised_apart_from_the_identity(r_tt)
    trace = family.model.trace(x, target)
    expected = np.array(trace.readout) @ r_at
    found = run_explainer("chefer", family.model, x, target)
    np.testing.assert_allclose(found.scores, expected, rtol=1e-4, atol=1e-7)
    assert expected.max() > 1e-3


def test_by_hand(shared: Any) -> None:
    """One layer, two heads: row 0 of grad A * A is (.5, -.2) and (.1, .4), so (.3, .2)."""
    model = shared("bert").model
    x = model.encode("cat")
    trace = model.trace(x, model.target(x))
    maps = torch.tensor([[[0.5, 0.5], [0.0, 1.0]], [[0.2, 0.8], [0.5, 0.5]]])
    grads = torch.tensor([[[1.0, -0.4], [0.0, 0.0]], [[0.5, 0.5], [-1.0, 2.0]]])
    one = replace(trace, attentions=(maps,), grad_attentions=(grads,), readout=(1.0, 0.0))
    np.testing.assert_allclose(relevance(one), [0.3, 0.2], atol=1e-7)
    # twice: R = (I + B)^2 - I = 2 B + B B, B = [[.3, .2], [0, .5]], row 0: (.6 + .09, .4 + .06 + .1)
    two = replace(one, attentions=(maps, maps), grad_attentions=(grads, grads))
    np.testing.assert_allclose(relevance(two), [0.69, 0.56], atol=1e-7)


def test_order_of_layers(shared: Any) -> None:
    """R <- R + B R: the later layer stands on the left."""
    model = shared("bert").model
    x = model.encode("cat")
    trace = model.trace(x, model.target(x))
    first, second = torch.tensor([[[0.0, 1.0], [0.0, 0.0]]]), torch.tensor([[[0.0, 0.0], [1.0, 0.0]]])
    ones = torch.ones(1, 2, 2)
    both = replace(
        trace, attentions=(first, second), grad_attentions=(ones, ones), readout=(0.0, 1.0)
    )  # row 1 of B2 + B1 + B2 B1 = (1, 0) + (0, 0) + (0, 1)
    assert relevance(both).tolist() == [1.0, 1.0]


def test_normalised() -> None:
    assert normalised(torch.zeros(3, 3, dtype=torch.float64)).tolist() == np.eye(3).tolist()  # 0 / 0 is 0
    gained = torch.tensor([[1.0, 3.0], [0.0, 0.0]], dtype=torch.float64)
    for unit in (1.0, 2.0**-60):
        assert normalised(unit * gained).tolist() == [[1.25, 0.75], [0.0, 1.0]]


def test_no_gradient_no_relevance(shared: Any) -> None:
    model = shared("bart").model
    x = model.encode(TEXT)
    trace = model.trace(x, model.target(x))
    none = replace(
        trace,
        grad_attentions=tuple(map(torch.zeros_like, trace.grad_attentions)),
        grad_cross=tuple(map(torch.zeros_like, trace.grad_cross)),
        grad_decoder_attentions=tuple(map(torch.zeros_like, trace.grad_decoder_attentions)),
    )
    assert relevance(none).tolist() == [0.0] * len(x)


@pytest.mark.parametrize("method", ["chefer"])
def test_every_family(family: Any, method: str) -> None:
    x = family.model.encode(TEXT)
    found = run_explainer(method, family.model, x, family.model.target(x))
    assert np.isfinite(found.scores).all()
    assert (found.scores >= 0).all()
    assert found.scores.max() > 0


def test_an_earlier_position_and_a_continuation(shared: Any) -> None:
    model = shared("gpt2").model
    x = model.encode(TEXT)
    early = run_explainer("chefer", model, x, model.target(x, {"position": 3}))
    assert early.scores[3:].tolist() == [0.0] * (len(x) - 3)
    long = run_explainer("chefer", model, x, model.target(x, {"sequence": " a dog ran"}))
    assert long.scores.shape == (len(x),)
    assert (long.scores > 0).any()
