"""One text by its features: exact where the target is linear, measured elsewhere, weighed like any other."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import heedful
from heedful.comparisons.single_text import weighed
from heedful.core import registry
from heedful.core.attribution import Attribution
from heedful.core.errors import HeedfulError
from heedful.engine.question import run_explainer
from heedful.engine.session import Session
from heedful.features.reading.explain_features import DRAWS, explain_features, feature_attribution
from heedful.features.sae.autoencoder import SAE
from heedful.features.sae.config import Config
from heedful.features.steering.steer import steer
from heedful.metrics.score import score_explanations
from heedful.models.sites.access import reading

WIDTH, SITE, LAST = 24, "blocks.0.resid", "blocks.1.resid"
TEXT = "the cat sat on the mat"


def random_sae(site: str = LAST, d: int = 32, seed: int = 0, bias: float = 0.0) -> SAE:
    draw = torch.Generator().manual_seed(seed)
    shapes = ((d, WIDTH), (WIDTH,), (WIDTH, d), (d,))
    enc, b_enc, dec, b_dec = (torch.randn(*shape, generator=draw) * 0.3 for shape in shapes)
    return SAE(Config("relu", d, WIDTH, source={"site": site}), enc, b_enc + bias, dec, b_dec)


def text_of(x: Any) -> list[int]:
    """Places of the tokens that are the text."""
    return [place for place, special in enumerate(x.special) if not special]


def output_of(model: Any, x: Any, target: Any) -> float:
    return float(model.values(x, target, np.ones((1, len(x.units("word"))), dtype=bool))[0])


@pytest.mark.parametrize("token", [None, " on"])
def test_where_the_target_is_linear_the_effect_is_activation_times_decoder_times_head(
    token: str | None, shared: Callable[[str], Any]
) -> None:
    """GPT-2's last block with its final norm taken out: the logit is x_last . head, and no more."""
    family = shared("gpt2")
    hf, model = family.hf, family.model
    norm, hf.transformer.ln_f = hf.transformer.ln_f, nn.Identity()
    try:
        sae, x = random_sae(), model.encode(TEXT)
        found = explain_features(model, sae, x, token, k=6)
        with reading(model, [LAST]) as seen:
            output_of(model, x, found.target)
        codes = sae.encode(seen[LAST])[0]  # (T, F)
        head = hf.lm_head.weight[found.target.index].detach()
        for feature in found.features:
            expected = float(codes[-1, feature.index] * (sae.W_dec[feature.index] @ head))
            assert feature.effect == pytest.approx(expected, abs=2e-5)
            assert feature.estimate == pytest.approx(expected, abs=2e-5)
        assert max(abs(f.effect) for f in found.features) > 0.1
        assert found.together == pytest.approx(found.explained, abs=1e-4), "linear effects add up"
        assert found.scores[:-1] == pytest.approx(np.zeros(len(x) - 1)), "the logit is read at the last token"
        assert found.scores[-1] == pytest.approx(found.explained, abs=1e-4)
    finally:
        hf.transformer.ln_f = norm


@pytest.mark.parametrize("name", ["bert", "llama", "bart", "t5", "mean-pool"])
def test_an_effect_is_what_a_steer_to_zero_takes_away(name: str, shared: Callable[[str], Any]) -> None:
    model, sae = shared(name).model, random_sae(SITE)
    x = model.encode(TEXT)
    found = explain_features(model, sae, x, k=5)
    assert found.output == pytest.approx(output_of(model, x, found.target), abs=1e-4)
    # the features of a causal model's written tokens stay: nothing is written here but for encoder-decoders,
    # whose decoder is another stack
    for feature in (*found.features, *found.control):
        with steer(model, sae, {feature.index: 0}, positions=text_of(x)):
            left = output_of(model, x, found.target)
        assert feature.effect == pytest.approx(found.output - left, abs=2e-4)
    with steer(model, sae, {f.index: 0 for f in found.features}, positions=text_of(x)):
        assert found.together == pytest.approx(found.output - output_of(model, x, found.target), abs=2e-4)
    with steer(model, sae, dict.fromkeys(range(WIDTH), 0), positions=text_of(x)):
        assert found.everything == pytest.approx(found.output - output_of(model, x, found.target), abs=2e-4)
    assert found.scores.sum() == pytest.approx(found.explained, abs=1e-6)


def test_the_strongest_are_chosen(shared: Callable[[str], Any]) -> None:
    model, sae = shared("bert").model, random_sae(SITE)
    found = explain_features(model, sae, TEXT, k=5)
    with reading(model, [SITE]) as seen:
        output_of(model, found.x, found.target)
    codes = sae.encode(seen[SITE])[0, text_of(found.x)]
    strength = (codes.sum(0) * sae.W_dec.norm(dim=1)).detach()
    best = strength.topk(5)
    assert [f.index for f in found.features] == best.indices.tolist()
    assert [f.strength for f in found.features] == pytest.approx(best.values.tolist(), rel=1e-4)
    steep = explain_features(model, sae, TEXT, k=WIDTH, by="gradient")
    sizes = [abs(f.estimate) for f in steep.features]
    assert sizes == sorted(sizes, reverse=True)
    assert [f.index for f in steep.features] != [
        f.index for f in explain_features(model, sae, TEXT, k=WIDTH).features
    ]


def test_the_control_is_drawn_among_the_other_active_features(shared: Callable[[str], Any]) -> None:
    model, sae = shared("bert").model, random_sae(SITE)
    found = explain_features(model, sae, TEXT, k=5)
    chosen, control = ({f.index for f in group} for group in (found.features, found.control))
    assert len(control) == 5
    assert not chosen & control
    assert all(any(f.activations) for f in found.control)
    assert len(found.control_together) == DRAWS
    low, high = found.band
    assert low < high
    other = explain_features(model, sae, TEXT, k=5, seed=1)
    assert {f.index for f in other.control} != control
    assert [f.effect for f in other.features] == pytest.approx([f.effect for f in found.features])
    every = explain_features(model, sae, TEXT, k=WIDTH)
    assert every.control == ()
    assert every.notes[0] == "only 0 other features fire: the control has 0"
    assert every.together == pytest.approx(every.everything, abs=1e-5)


def test_targets_of_every_kind(shared: Callable[[str], Any]) -> None:
    """A token at a place, a continuation, and one rather than another: effects against a steer."""
    model, sae = shared("gpt2").model, random_sae(SITE)
    x = model.encode(TEXT)
    wanted: list[Any] = [
        {"position": 4},
        {"sequence": " on the mat"},
        {"sequence": " on the mat", "contrast": " a"},
    ]
    for spec in wanted:
        found = explain_features(model, sae, x, spec, k=3)
        stop = len(x) if found.target.position is None else found.target.position
        for feature in found.features:
            with steer(model, sae, {feature.index: 0}, positions=range(stop)):
                left = output_of(model, x, found.target)
            assert feature.effect == pytest.approx(output_of(model, x, found.target) - left, abs=5e-4)
        assert not found.scores[stop:].any()
        step = 1e-2  # the estimate is the slope along the feature, at the text's own positions
        one = found.features[0].index
        with steer(model, sae, {one: f"{1 - step}x own"}, positions=range(stop)):
            slope = (output_of(model, x, found.target) - found.output) / -step
        assert found.features[0].estimate == pytest.approx(slope, rel=0.08, abs=2e-2), spec


def test_it_is_weighed_like_any_explanation(shared: Callable[[str], Any]) -> None:
    model, sae = shared("bert").model, random_sae(SITE)
    x = model.encode(TEXT)
    target = model.target(x)
    own = feature_attribution(model, x, target, sae=sae, k=5)
    assert isinstance(own, Attribution)
    assert own.cost.backwards == 1
    assert own.cost.forwards == 1 + 2 * 5 + 2 + DRAWS + 1, "one more for the special tokens"
    other = run_explainer("occlusion", model, x, target)
    scores = score_explanations(model, [own, other], ["comprehensiveness", "sufficiency"], ["mask"])
    assert {s.method for s in scores} == {"features", "occlusion"}
    assert all(np.isfinite(s.value) for s in scores)
    assert {e.method for e in weighed(Session(model), [own, other])} == {"features", "occlusion"}
    shown = heedful.Comparison((own, other))
    assert "features" in shown.to_csv()


def test_registered_it_is_audited(shared: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Three lines make it a method of its own; heedful.explain weighs it beside the others."""
    model, sae = shared("bert").model, random_sae(SITE)
    monkeypatch.setattr(registry, "_explainers", dict(registry._explainers))

    @registry.explainer("my-features", needs={"values", "gradients"}, cite="mine")
    def mine(q: Any, *, k: int = 5) -> Attribution:
        model, x, target = q.model, q.x, q.target
        return feature_attribution(model, x, target, sae=sae, k=k)

    found = heedful.explain(model, TEXT, ["my-features", "grad-l2"], evidence=True)
    assert set(found) == {"my-features", "grad-l2", "random"}
    assert {e.method for e in found.evidence} >= {"my-features"}
    assert found["my-features"].scores.any()


def test_what_cannot_be_meant_is_refused(shared: Callable[[str], Any]) -> None:
    for name, sae, more, said in (
        ("bart", random_sae("decoder.blocks.0.resid"), {}, "contains no token"),
        ("bert", random_sae(d=16), {}, "width 16"),
        ("bert", random_sae(), {"by": "luck"}, "by 'luck'"),
        ("bert", random_sae(), {"k": 0}, "k = 0"),
        ("bert", random_sae("blocks.7.resid"), {}, "no site"),
    ):
        with pytest.raises(HeedfulError, match=said):
            explain_features(shared(name).model, sae, TEXT, **more)


def test_a_text_on_which_nothing_fires(shared: Callable[[str], Any]) -> None:
    found = explain_features(shared("bert").model, random_sae(SITE, bias=-1e3), TEXT)
    assert found.features == ()
    assert not found.scores.any()
    assert found.everything == pytest.approx(0, abs=1e-6)
    json.dumps(found.to_dict(), allow_nan=False)


def test_to_dict(shared: Callable[[str], Any]) -> None:
    found = explain_features(shared("gpt2").model, random_sae(SITE), TEXT, k=2)
    told = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert [f["index"] for f in told["features"]] == [f.index for f in found.features]
    assert len(told["scores"]) == len(found.x)
