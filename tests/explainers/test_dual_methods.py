"""Methods for models that compare pictures with texts, each against its formula written out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tests.models.dual_models import module, picture, processor
from torch import Tensor
from torch.nn.functional import cosine_similarity, normalize
from transformers import LxmertConfig, LxmertForQuestionAnswering

import heedful
from heedful.engine.question import run_explainer
from heedful.explainers.co_attention import CoAttention, co_attention_relevance
from heedful.explainers.crop_similarity import crops
from heedful.modalities.image_files import resized

RAW = {"picture": picture(), "text": "a red circle"}
CLOSE = 1e-5  # of eager attention, whose softmax is float32


@pytest.fixture(scope="module", params=["clip", "siglip"])
def pair(request: Any) -> tuple[str, Any, Any]:
    own = module(request.param, seed=1)
    return request.param, own, heedful.load((own, processor()))


class Watched:
    """A pass by hand: sums of projections read by hooks on the layers of each tower."""

    def __init__(self, own: Any, model: Any, x: Any) -> None:
        own.set_attn_implementation("eager")
        self.seen: dict[str, list[Tensor]] = {}
        handles = [
            getattr(layer.self_attn, f"{kind}_proj").register_forward_hook(self._keep(f"{tower} {kind}"))
            for tower, part in (("picture", own.vision_model), ("text", own.text_model))
            for layer in part.encoder.layers
            for kind in ("q", "k", "v")
        ]
        handles += [
            layer.self_attn.out_proj.register_forward_pre_hook(self._before(f"{tower} o"))
            for tower, part in (("picture", own.vision_model), ("text", own.text_model))
            for layer in part.encoder.layers
        ]
        ids = torch.tensor([x.text.ids])
        if hasattr(own, "logit_bias"):
            ids = torch.nn.functional.pad(ids, (0, 12 - ids.shape[1]), value=0)
        read = (
            processor().image_processor(images=RAW["picture"], return_tensors="pt")["pixel_values"].double()
        )
        vision = own.get_image_features(pixel_values=read, output_attentions=True)
        text = own.get_text_features(input_ids=ids, output_attentions=True)
        self.score = cosine_similarity(vision.pooler_output, text.pooler_output)[0]
        self.maps = {"picture": vision.attentions, "text": text.attentions}
        for handle in handles:
            handle.remove()
        own.set_attn_implementation("sdpa")

    def _keep(self, name: str) -> Any:
        return lambda _module, _args, out: self.seen.setdefault(name, []).append(out)

    def _before(self, name: str) -> Any:
        return lambda _module, args: self.seen.setdefault(name, []).append(args[0])

    def grads(self, tensors: Any) -> list[Tensor]:
        return list(torch.autograd.grad(self.score, tensors, retain_graph=True))


def test_grad_eclip_is_its_formula(pair: Any) -> None:
    """E_i = ReLU(sum over read positions of minmax cos(q, k_i) (w . v_i)); of the text over three layers."""
    name, own, model = pair
    x = model.encode(RAW)
    by_hand = Watched(own, model, x)
    # the class token of CLIP; SigLIP pools over all patches, and its text is read at the last position
    read = {"picture": [0] if name == "clip" else range(16), "text": [4] if name == "clip" else [11]}
    inside = {"picture": range(1, 17) if name == "clip" else range(16), "text": range(1, 4)}
    expected = []
    for tower, layers in (("picture", [2]), ("text", [0, 1, 2])):
        grads = by_hand.grads(by_hand.seen[f"{tower} o"])
        total = torch.zeros(len(inside[tower]), dtype=torch.float64)
        for layer in layers:
            q, k, v = (by_hand.seen[f"{tower} {kind}"][layer][0].detach() for kind in "qkv")
            keep = list(inside[tower])
            for place in read[tower]:
                near = normalize(k[keep], dim=-1) @ normalize(q[place], dim=-1)
                loose = (near - near.min()) / (near.max() - near.min())
                total += loose * (v[keep] @ grads[layer][0, place])
        expected.append(total.clamp_min(0))
    found = run_explainer("grad-eclip", model, x, model.target(x))
    assert found.over == "patch+token"
    assert found.signed is False
    assert found.scores == pytest.approx(torch.cat(expected).numpy(), abs=CLOSE)
    assert found.scores.max() > 0.01


def test_one_head_over_the_full_width_is_another_model() -> None:
    """The released code of Grad-ECLIP computes the last block so: its similarity is not the model's."""
    own = module("clip", seed=1)
    model: Any = heedful.load((own, processor()))
    x = model.encode(RAW)
    before = model.predict(x)[0][1]
    attention = own.vision_model.encoder.layers[-1].self_attn
    attention.num_heads, attention.head_dim = 1, 16
    attention.scale = 16**-0.5
    other: Any = heedful.load((own, processor()))
    assert abs(other.predict(x)[0][1] - before) > 1e-3


@pytest.mark.parametrize("layers", [1, 2, 0])
def test_chefer_on_both_towers_is_its_formula(pair: Any, layers: int) -> None:
    name, own, model = pair
    x = model.encode(RAW)
    by_hand = Watched(own, model, x)
    trace = model.trace(x, model.target(x))
    expected = []
    for tower, part, special in (("picture", 0, 1 if name == "clip" else 0), ("text", 1, 1)):
        maps = by_hand.maps[tower]
        grads = by_hand.grads(maps)
        relevance = torch.eye(maps[0].shape[-1], dtype=torch.float64)
        for weights, grad in list(zip(maps, grads, strict=True))[-layers:]:
            bar = (weights[0] * grad[0]).clamp_min(0).mean(0).double()
            relevance = relevance + bar @ relevance
        gained = relevance - torch.eye(len(relevance), dtype=torch.float64)
        if name == "clip":
            row = gained[0 if tower == "picture" else 4]
        else:
            row = torch.tensor(trace.parts[part].readout, dtype=torch.float64) @ gained
        count = 16 if tower == "picture" else 3
        expected.append(row[special : special + count])
    found = run_explainer("chefer", model, x, model.target(x), layers=layers)
    assert found.scores == pytest.approx(torch.cat(expected).detach().numpy(), abs=CLOSE)
    if layers == 1:
        assert np.array_equal(found.scores, run_explainer("chefer", model, x, model.target(x)).scores)


def test_the_answer_is_read_where_the_model_reads_it(pair: Any) -> None:
    name, _, model = pair
    x = model.encode(RAW)
    picture_side, text_side = model.trace(x, model.target(x)).parts
    if name == "clip":
        assert picture_side.readout[0] == pytest.approx(1)
        assert text_side.readout[4] == pytest.approx(1)
    else:
        assert min(picture_side.readout) > 0
        assert text_side.readout[11] == pytest.approx(1)


def test_crop_similarity_is_the_mean_of_the_crops(pair: Any) -> None:
    _, _, model = pair
    x = model.encode(RAW)
    boxes = crops(32, 32)
    assert len(boxes) == 9 + 25 + 49
    single = [
        model.encode({"picture": resized(picture()[t:b, left:r], (32, 32)), "text": "a red circle"})
        for left, t, r, b in boxes
    ]
    values = np.array(
        [
            model.predict(crop)[0][1]
            - model.predict(model.encode({"picture": crop.picture.pixels, "text": "a photo"}))[0][1]
            for crop in single
        ]
    )
    found = run_explainer("crop-similarity", model, x, model.target(x))
    place = 9 * 32 + 20  # row 9, column 20
    covering = [v for v, (left, t, r, b) in zip(values, boxes, strict=True) if left <= 20 < r and t <= 9 < b]
    assert found.scores[place] == pytest.approx(np.mean(covering) - values.mean(), abs=1e-9)
    assert not found.scores[32 * 32 :].any()
    assert "words score zero" in " ".join(found.notes)
    plain = run_explainer("crop-similarity", model, x, model.target(x), neutral="")
    assert not np.allclose(plain.scores, found.scores)


def test_co_attention_rules_on_lxmert() -> None:
    """The released rules written out with four matrices, on a random LXMERT with two cross layers."""
    torch.manual_seed(0)
    config = LxmertConfig(
        vocab_size=30, hidden_size=16, num_attention_heads=2, intermediate_size=32, num_qa_labels=4,
        l_layers=2, x_layers=2, r_layers=1, visual_feat_dim=6,
    )  # fmt: skip
    model = LxmertForQuestionAnswering(config).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.mul_(8)
    calls: list[tuple[str, Tensor]] = []

    def keep(name: str) -> Any:
        return lambda _module, _args, out: calls.append((name, out))

    encoder = model.lxmert.encoder
    for name, attention in [
        *[("tt", layer.attention.self) for layer in encoder.layer],
        *[("ii", layer.attention.self) for layer in encoder.r_layers],
        *[("x", layer.visual_attention.att) for layer in encoder.x_layers],
        *[("tt", layer.lang_self_att.self) for layer in encoder.x_layers],
        *[("ii", layer.visn_self_att.self) for layer in encoder.x_layers],
    ]:
        attention.dropout.register_forward_hook(keep(name))  # what goes through it are the weights
    out = model(
        input_ids=torch.tensor([[1, 5, 7, 2]]),
        visual_feats=torch.randn(1, 3, 6).double(),
        visual_pos=torch.rand(1, 3, 4).double(),
    )
    score = out.question_answering_score[0, 2]
    grads = torch.autograd.grad(score, [weights for _, weights in calls], allow_unused=True)
    sides = {4: "text", 3: "picture"}
    steps = [
        CoAttention(
            sides[weights.shape[2]],
            sides[weights.shape[3]],
            weights[0].detach(),
            torch.zeros_like(weights[0]) if grad is None else grad[0],
        )
        for (_, weights), grad in zip(calls, grads, strict=True)
    ]
    groups = _side_by_side(steps)
    found = co_attention_relevance(groups, {"text": 4, "picture": 3})
    expected = _released_rules(steps)
    for pair_of, matrix in expected.items():
        assert torch.allclose(found[pair_of], matrix, atol=1e-12), pair_of
    assert float(found["text", "picture"][0].abs().max()) > 1e-6
    assert torch.equal(expected["text", "picture"], found["text", "picture"])


def _side_by_side(steps: list[CoAttention]) -> list[list[CoAttention]]:
    """Both directions of a cross layer in one group."""
    groups: list[list[CoAttention]] = []
    for step in steps:
        crossing = step.queries != step.keys
        if (
            crossing
            and groups
            and len(groups[-1]) == 1
            and groups[-1][0].queries == step.keys != groups[-1][0].keys
        ):
            groups[-1].append(step)
        else:
            groups.append([step])
    return groups


def _released_rules(steps: list[CoAttention]) -> dict[tuple[str, str], Tensor]:
    """Rules 5 to 11 of the paper with R_tt, R_ii, R_ti and R_it by name."""
    tt, ii = torch.eye(4, dtype=torch.float64), torch.eye(3, dtype=torch.float64)
    ti, it = torch.zeros(4, 3, dtype=torch.float64), torch.zeros(3, 4, dtype=torch.float64)

    def hat(matrix: Tensor) -> Tensor:
        rest = matrix - torch.eye(len(matrix), dtype=torch.float64)
        sums = rest.sum(-1, keepdim=True)
        return torch.where(sums > 0, rest / sums, 0.0) + torch.eye(len(matrix), dtype=torch.float64)

    at = 0
    while at < len(steps):
        step = steps[at]
        bar = (step.maps * step.grads).clamp_min(0).mean(0)
        if step.queries == step.keys == "text":
            tt, ti = tt + bar @ tt, ti + bar @ ti
        elif step.queries == step.keys:
            ii, it = ii + bar @ ii, it + bar @ it
        else:
            other = steps[at + 1]
            assert (step.queries, other.queries) == ("text", "picture")
            back = (other.maps * other.grads).clamp_min(0).mean(0)
            add_ti, add_tt = hat(tt).T @ bar @ hat(ii), bar @ it
            add_it, add_ii = hat(ii).T @ back @ hat(tt), back @ ti
            ti, tt, it, ii = ti + add_ti, tt + add_tt, it + add_it, ii + add_ii
            at += 1
        at += 1
    return {
        ("text", "text"): tt,
        ("picture", "picture"): ii,
        ("text", "picture"): ti,
        ("picture", "text"): it,
    }
