"""The first explainers against independent computations: captum, eager attention by hand, closed forms."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch

import heedful
from heedful.core.errors import HeedfulError

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from captum.attr import InputXGradient, Saliency

BY_EMBEDS = ["bert", "roberta", "distilbert", "mean-pool", "gpt2-classifier", "gpt2", "llama"]


def captum_scores(family: Any, method: Any, index: int, **options: Any) -> np.ndarray:
    """(T, d) of a captum method through inputs_embeds: no hook, no heedful."""
    hf, x = family.hf, family.x()
    embeds = hf.get_input_embeddings()(torch.tensor([x.ids])).detach()

    def forward(e: torch.Tensor) -> torch.Tensor:
        logits = hf(inputs_embeds=e, attention_mask=torch.ones(e.shape[:2], dtype=torch.long)).logits
        return logits if logits.ndim == 2 else logits[:, -1]

    return (
        method(forward)
        .attribute(embeds.requires_grad_(), target=index, **options)[0]
        .detach()
        .double()
        .numpy()
    )


@pytest.mark.parametrize("name", BY_EMBEDS)
def test_gradients_agree_with_captum(shared: Any, name: str) -> None:
    family = shared(name)
    cmp = heedful.explain(
        family.model, family.x(), ["grad-avg", "grad-l1", "grad-l2", "grad-x-input"], target=1
    )
    gradient = captum_scores(family, Saliency, 1, abs=False)
    product = captum_scores(family, InputXGradient, 1)
    close = {"rtol": 1e-3, "atol": 1e-5}  # float32, eager against sdpa
    np.testing.assert_allclose(cmp["grad-avg"].scores, gradient.mean(-1), **close)
    np.testing.assert_allclose(cmp["grad-l1"].scores, np.abs(gradient).sum(-1), **close)
    np.testing.assert_allclose(cmp["grad-l2"].scores, np.sqrt((gradient**2).sum(-1)), **close)
    np.testing.assert_allclose(cmp["grad-x-input"].scores, product.sum(-1), **close)


@pytest.mark.parametrize(("name", "query"), [("bert", 0), ("gpt2-classifier", -1), ("llama", -1)])
@pytest.mark.parametrize("layer", [-1, 0])
def test_attention_by_hand(fresh: Any, shared: Any, name: str, query: int, layer: int) -> None:
    family, eager = shared(name), fresh(name).hf
    eager.set_attn_implementation("eager")
    x = family.x()
    with torch.no_grad():
        maps = eager(torch.tensor([x.ids]), output_attentions=True).attentions[layer][0]  # (H, T, T)
    options = {name: {"layer": layer} for name in ("attention-avg", "attention-max")}
    cmp = heedful.explain(family.model, x, list(options), params=options)
    np.testing.assert_allclose(cmp["attention-avg"].scores, maps[:, query].mean(0).numpy(), atol=1e-5)
    np.testing.assert_allclose(cmp["attention-max"].scores, maps[:, query].amax(0).numpy(), atol=1e-5)


def test_attention_of_a_mean_pool_is_the_mean_over_queries(shared: Any) -> None:
    family = shared("mean-pool")
    x = family.x()
    trace = family.model.trace(x, family.model.target(x))
    cmp = heedful.explain(family.model, x, ["attention-avg", "attention-max"])
    per_head = trace.attentions[-1].mean(1)  # (H, T)
    np.testing.assert_allclose(cmp["attention-avg"].scores, per_head.mean(0).numpy(), atol=1e-5)
    np.testing.assert_allclose(cmp["attention-max"].scores, per_head.amax(0).numpy(), atol=1e-5)


def test_attention_of_an_encoder_decoder_is_its_cross_attention(fresh: Any, shared: Any) -> None:
    family, eager = shared("bart"), fresh("bart").hf
    eager.set_attn_implementation("eager")
    x = family.x()
    target = family.model.target(x, {"sequence": [7]})
    with torch.no_grad():
        out = eager(torch.tensor([x.ids]), decoder_input_ids=torch.tensor([[1]]), output_attentions=True)
    cmp = heedful.explain(family.model, x, "attention-avg", target)
    np.testing.assert_allclose(
        cmp["attention-avg"].scores, out.cross_attentions[-1][0, :, 0].mean(0), atol=1e-5
    )


def test_attention_with_a_position_leaves_later_tokens_at_zero(shared: Any) -> None:
    family = shared("gpt2")
    x = family.x()
    scores = heedful.explain(family.model, x, "attention-avg", {"position": 3})["attention-avg"].scores
    assert scores[:3].sum() == pytest.approx(1, abs=1e-5)
    assert not scores[3:].any()


def test_an_unknown_layer_is_refused(shared: Any, text: str) -> None:
    for layer in (2, -3):
        with pytest.raises(HeedfulError, match=f"there is no layer {layer}"):
            heedful.explain(
                shared("bert").model, text, "attention-avg", params={"attention-avg": {"layer": layer}}
            )


@pytest.mark.parametrize("unit", ["word", "token", "sentence"])
@pytest.mark.parametrize("operator", ["mask", "delete"])
def test_occlusion_is_the_drop_without_each_unit(shared: Any, unit: str, operator: str) -> None:
    family = shared("bert")
    x = family.x()
    target = family.model.target(x, 1)
    found = heedful.explain(
        family.model, x, "occlusion", target, unit=unit, params={"occlusion": {"operator": operator}}
    )["occlusion"]
    units = x.units(unit)
    with torch.no_grad():
        whole = float(family.hf(torch.tensor([x.ids])).logits[0, 1])
        for unit_positions in units:
            mask = family.tokenizer.mask_token_id
            ids = [mask if t in unit_positions else token for t, token in enumerate(x.ids)]
            if operator == "delete":
                ids = [token for t, token in enumerate(x.ids) if t not in unit_positions]
            drop = whole - float(family.hf(torch.tensor([ids])).logits[0, 1])
            assert found.scores[unit_positions].sum() == pytest.approx(drop, abs=2e-5)
            assert np.ptp(found.scores[unit_positions]) < 1e-12  # spread evenly
    assert found.params == {"operator": operator, "unit": unit}


def test_the_word_view_gives_sums_back(shared: Any) -> None:
    cmp = heedful.explain(shared("gpt2").model, "hello unbelievable 👍", ["occlusion", "grad-x-input"])
    for attribution in cmp.values():
        by_word = [0.0] * len(cmp.x.word_spans)
        for score, word in zip(attribution.scores, cmp.x.words, strict=True):
            by_word[word] += score
        assert [w.score for w in attribution.words()] == pytest.approx(by_word)
        assert [w.text for w in attribution.words()] == ["hello", "unbelievable", "👍"]
        best = max(attribution.words(), key=lambda w: abs(w.score))
        assert attribution.top(1) == [best]


def test_random_is_standard_normal_by_unit(shared: Any, text: str) -> None:
    x = shared("bert").x()
    groups = x.units("word")
    found = heedful.explain(shared("bert").model, x, "random", seed=3)["random"].scores
    draws = np.random.default_rng(3).standard_normal(len(groups))
    np.testing.assert_array_equal(found, groups.spread(draws))


def test_signs_are_declared(shared: Any, text: str) -> None:
    cmp = heedful.explain(shared("bert").model, text, ["grad-l1", "grad-l2", "attention-avg", "grad-x-input"])
    assert {name: a.signed for name, a in cmp.items() if name != "random"} == {
        "grad-l1": False,
        "grad-l2": False,
        "attention-avg": False,
        "grad-x-input": True,
    }
    assert all((cmp[name].scores >= 0).all() for name in ("grad-l1", "grad-l2", "attention-avg"))
