"""Relevance propagation against a relprop written out by hand for BERT, and what the rules conserve."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from heedful.core import registry
from heedful.core.errors import HeedfulError
from heedful.engine.question import run_explainer
from heedful.explainers.chefer_lrp import cam, rolled
from heedful.models.relevance_rules import RelevanceRules, safe_divide

TEXT = "the cat sat on the mat"
WITH_RULES = {"bert", "bert-multi", "bert-regression", "mean-pool", "distilbert", "roberta"}


def over(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a / (b + 1e-9 * torch.sign(b))


def linear_back(r: torch.Tensor, x: torch.Tensor, layer: Any) -> torch.Tensor:
    """Token by token, output by output: shares of the positive contributions x_i w_ij."""
    rows = []
    for x_row, r_row in zip(x.reshape(-1, x.shape[-1]), r.reshape(-1, r.shape[-1]), strict=True):
        pushes = (layer.weight * x_row).clamp_min(0)  # (out, in): (x+, w+) and (x-, w-)
        rows.append((over(r_row, pushes.sum(1))[:, None] * pushes).sum(0))
    return torch.stack(rows).reshape(x.shape)


def add_back(r: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    to_a, to_b = a * over(r, a + b), b * over(r, a + b)
    size_a, size_b = to_a.sum().abs(), to_b.sum().abs()
    share_a, share_b = size_a / (size_a + size_b), size_b / (size_a + size_b)
    return to_a * share_a * r.sum() / to_a.sum(), to_b * share_b * r.sum() / to_b.sum()


def heads_of(x: torch.Tensor, heads: int) -> torch.Tensor:
    return x.reshape(len(x), heads, -1).transpose(0, 1)  # (H, T, d)


def joined(x: torch.Tensor) -> torch.Tensor:
    return x.transpose(0, 1).reshape(x.shape[1], -1)


def matmul_back(r: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Each product a_ik b_kj gets its share of R_ij; half for each factor."""
    shares = torch.einsum("hij,hik,hkj->hikj", over(r, a @ b), a, b)
    return shares.sum(3) / 2, shares.sum(1) / 2


def block_back(r: torch.Tensor, hidden: torch.Tensor, block: Any, heads: int) -> tuple[Any, Any]:
    """(relevance of the block's input, of its attention weights), the forward repeated by hand."""
    own, out = block.attention.self, block.attention.output
    q, k, v = (heads_of(part(hidden), heads) for part in (own.query, own.key, own.value))
    weights = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)
    context = joined(weights @ v)
    dense = out.dense(context)
    middle = out.LayerNorm(dense + hidden)
    wide = F.gelu(block.intermediate.dense(middle))
    narrow = block.output.dense(wide)
    r_narrow, r_middle = add_back(r, narrow, middle)
    r_wide = linear_back(r_narrow, wide, block.output.dense)
    r_middle = r_middle + linear_back(r_wide, middle, block.intermediate.dense)
    r_dense, r_hidden = add_back(r_middle, dense, hidden)
    r_context = heads_of(linear_back(r_dense, context, out.dense), heads)
    r_weights, r_v = matmul_back(r_context, weights, v)
    r_q, r_k = matmul_back(r_weights, q, k.mT)
    for part, found in ((own.query, r_q), (own.key, r_k.mT), (own.value, r_v)):
        r_hidden = r_hidden + linear_back(joined(found), hidden, part)
    return r_hidden, r_weights


def bert_by_hand(hf: Any, states: Any, start: torch.Tensor) -> tuple[list[torch.Tensor], torch.Tensor]:
    """(relevance of each layer's attention weights, first layer first; of the first layer's input)."""
    first = states[-1][0][0]
    pooled = torch.tanh(hf.bert.pooler.dense(first))
    r_first = linear_back(linear_back(start, pooled, hf.classifier), first, hf.bert.pooler.dense)
    r = torch.zeros_like(states[-1][0])
    r[0] = r_first
    found = []
    for index in reversed(range(len(hf.bert.encoder.layer))):
        r, r_weights = block_back(
            r, states[index][0], hf.bert.encoder.layer[index], hf.config.num_attention_heads
        )
        found.append(r_weights)
    return found[::-1], r


@pytest.fixture(scope="module")
def wide_bert(fresh: Any) -> Any:
    """BERT in float64: R / Z magnifies rounding where Z is near zero."""
    family = fresh("bert")
    family.hf.double()
    return family


def test_by_hand_for_bert(wide_bert: Any) -> None:
    model, hf = wide_bert.model, wide_bert.hf
    x = model.encode(TEXT)
    with torch.no_grad():
        states = hf(torch.tensor([x.ids]), output_hidden_states=True).hidden_states
        for_zero, for_one = (bert_by_hand(hf, states, start)[0] for start in torch.eye(2).double())
    rather = [one - zero for one, zero in zip(for_one, for_zero, strict=True)]
    for spec, expected in ((0, for_zero), (1, for_one), ({"label": 1, "contrast": 0}, rather)):
        target = model.target(x, spec)
        found = model.relevances(x, target)
        for ours, theirs in zip(found, expected, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-7 * float(theirs.abs().max()))
        trace = model.trace(x, target)
        joint = np.eye(len(x))
        for grad, relevance in zip(trace.grad_attentions, expected, strict=True):
            positive = np.maximum((grad * relevance).numpy(), 0).mean(0)
            joint = (np.eye(len(x)) + positive) @ joint
        scores = run_explainer("chefer-lrp", model, x, target).scores
        np.testing.assert_allclose(scores, joint[0] - np.eye(len(x))[0], rtol=1e-4, atol=1e-9)
        assert scores.max() > 1e-4


def test_relevance_is_kept(wide_bert: Any) -> None:
    """What starts as one at the logit is still one at the first layer's input."""
    hf, x = wide_bert.hf, wide_bert.model.encode(TEXT)
    hf.set_attn_implementation("eager")
    try:
        with RelevanceRules():
            out = hf(torch.tensor([x.ids]), output_hidden_states=True)
    finally:
        hf.set_attn_implementation("sdpa")
    plain = hf(torch.tensor([x.ids])).logits
    np.testing.assert_allclose(out.logits.detach(), plain.detach(), atol=1e-9)
    start = torch.tensor([[0.0, 1.0]], dtype=torch.float64)
    for state in out.hidden_states:
        (r,) = torch.autograd.grad(out.logits, state, start, retain_graph=True)
        assert float(r.sum()) == pytest.approx(1.0, abs=1e-4)  # 1e-9 in each denominator


def test_pooling_shares_by_contribution() -> None:
    x = torch.tensor([[[1.0], [3.0], [5.0]]], dtype=torch.float64, requires_grad=True)
    mask = torch.tensor([[[1.0], [1.0], [0.0]]], dtype=torch.float64)
    with RelevanceRules():
        pooled = (x * mask).sum(1) / mask.sum(1).clamp(min=1e-9)
    (r,) = torch.autograd.grad(pooled, x, torch.ones(1, 1, dtype=torch.float64))
    np.testing.assert_allclose(r[0, :, 0], [0.25, 0.75, 0.0], atol=1e-8)


def test_parameters_are_constants_frozen_or_not() -> None:
    weight = torch.nn.Parameter(torch.tensor([[1.0, -2.0]], dtype=torch.float64))
    for trainable in (True, False):
        weight.requires_grad_(trainable)
        x = torch.tensor([[3.0, 4.0]], dtype=torch.float64, requires_grad=True)
        with RelevanceRules():
            out = F.linear(x + weight, weight)
        (r,) = torch.autograd.grad(out, x, torch.ones(1, 1, dtype=torch.float64))
        np.testing.assert_allclose(r, [[1.0, 0.0]], atol=1e-8)  # 4 pushes, 2 * -2 pulls


def test_an_operation_without_a_rule_is_refused() -> None:
    x = torch.ones(2, requires_grad=True)
    with RelevanceRules(), pytest.raises(HeedfulError, match="no relevance rule for the operation 'exp'"):
        x.exp()
    with RelevanceRules(), pytest.raises(HeedfulError, match=r"'(__)?mul(__)?'"):
        _ = x * x


def test_safe_divide() -> None:
    found = safe_divide(torch.tensor([1.0, 1.0, 1.0]), torch.tensor([0.0, 2.0, -2.0]))
    assert found.tolist() == [0.0, 0.5, -0.5]


def test_cam_and_product_by_hand() -> None:
    grad = torch.tensor([[[1.0, -1.0], [2.0, 0.0]], [[1.0, 1.0], [0.0, 1.0]]])
    relevance = torch.tensor([[[2.0, 3.0], [1.0, 1.0]], [[-4.0, 2.0], [1.0, 1.0]]])
    layer = cam(grad, relevance)  # (2 + 0, 0 + 2; 2 + 0, 0 + 1) / 2
    assert layer.tolist() == [[1.0, 1.0], [1.0, 0.5]]
    other = torch.tensor([[0.0, 1.0], [0.0, 0.0]], dtype=torch.float64)
    # (I + other)(I + layer) - I: row 0 is (1, 1) + (1, 1.5)
    assert rolled([layer, other]).tolist() == [[2.0, 2.5], [1.0, 0.5]]


def test_offered_where_every_operation_has_a_rule(family: Any) -> None:
    assert ("relevance" in family.model.capabilities) == (family.name in WITH_RULES)
    x = family.model.encode(TEXT)
    method = registry.get("chefer-lrp")
    if family.name not in WITH_RULES:
        with pytest.raises(HeedfulError, match="relevance rules"):
            family.model.require(method.needs, "chefer-lrp")
        return
    found = run_explainer(method, family.model, x, family.model.target(x))
    assert np.isfinite(found.scores).all()
    assert (found.scores >= 0).all()
    assert found.scores.max() > 0


def test_the_model_is_left_as_it_was(fresh: Any) -> None:
    family = fresh("bert")
    family.hf.train()
    for parameter in family.hf.parameters():
        parameter.requires_grad_(False)
    x = family.model.encode(TEXT)
    with torch.inference_mode():
        found = run_explainer("chefer-lrp", family.model, x, family.model.target(x))
    assert found.scores.max() > 0
    assert family.hf.config._attn_implementation == "sdpa"
    assert all(m.training and not m._forward_hooks for m in family.hf.modules())


def tiny_vit() -> Any:
    """One block, in float64."""
    from transformers import ViTConfig, ViTForImageClassification

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(11)
        config = ViTConfig(
            hidden_size=12,
            num_hidden_layers=1,
            num_attention_heads=3,
            intermediate_size=16,
            image_size=16,
            patch_size=8,
            num_labels=3,
            initializer_range=0.4,
        )
        return ViTForImageClassification(config).double().eval()


def vit_by_hand(vit: Any, pixels: torch.Tensor, label: int) -> tuple[Any, Any, Any]:
    """(logits, relevance of the attention weights, their gradient), (H, N, N), of one block whose norms stand
    before its parts; the forward repeated by hand."""
    layers = {name.rsplit(".", 1)[-1]: part for name, part in vit.named_modules()}
    q_layer, k_layer, v_layer, o_layer = (layers[f"{letter}_proj"] for letter in "qkvo")
    heads, hidden = vit.config.num_attention_heads, vit.vit.embeddings(pixels)[0].detach()
    before = layers["layernorm_before"](hidden)
    q, k, v = (heads_of(part(before), heads) for part in (q_layer, k_layer, v_layer))
    weights = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1).detach().requires_grad_(True)
    context = joined(weights @ v)
    dense = o_layer(context)
    middle = dense + hidden
    after = layers["layernorm_after"](middle)
    wide = F.gelu(layers["fc1"](after))
    narrow = layers["fc2"](wide)
    last = vit.vit.layernorm(narrow + middle)
    logits = vit.classifier(last[0])
    (grad,) = torch.autograd.grad(logits[label], weights)
    with torch.no_grad():
        r = torch.zeros_like(last)
        r[0] = linear_back(torch.eye(len(logits)).double()[label], last[0], vit.classifier)
        r_narrow, r_middle = add_back(r, narrow, middle)
        r_wide = linear_back(r_narrow, wide, layers["fc2"])
        r_middle = r_middle + linear_back(r_wide, after, layers["fc1"])
        r_dense, _ = add_back(r_middle, dense, hidden)
        r_context = heads_of(linear_back(r_dense, context, o_layer), heads)
        r_weights, _ = matmul_back(r_context, weights, v)
    return logits.detach(), r_weights, grad


@pytest.mark.parametrize("label", range(3))
def test_by_hand_for_a_vision_transformer(label: int) -> None:
    from heedful.models.image_model import ImageModel
    from heedful.models.image_reader import ImageReader

    vit = tiny_vit()
    model = ImageModel(vit, ImageReader((16, 16)))
    picture = np.random.default_rng(4).integers(0, 256, (16, 16, 3)).astype(np.uint8)
    # the reader's colours are float32
    pixels = torch.from_numpy((picture / np.float32(255)).astype(np.float32)).double().permute(2, 0, 1)[None]
    logits, relevance, grad = vit_by_hand(vit, pixels, label)
    np.testing.assert_allclose(logits, vit(pixels).logits[0].detach(), rtol=1e-9)
    x = model.encode(picture)
    target = model.target(x, label)
    (found,) = model.relevances(x, target)
    # R / Z magnifies the rounding of the colours where Z is near zero
    np.testing.assert_allclose(found, relevance, rtol=1e-4, atol=1e-6 * float(relevance.abs().max()))
    expected = np.maximum((grad * relevance).numpy(), 0).mean(0)[0, 1:]  # what the class token reads
    scores = run_explainer("chefer-lrp", model, x, target).scores
    np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-6 * expected.max())
    assert expected.max() > 0
