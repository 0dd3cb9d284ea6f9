"""What features do to answers, against autograd and against edits made by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from tests.features.planted import TEXTS, random_sae

from heedful.features.reading.effects import _drawn, _moved, _without, effects
from heedful.features.reading.examples import Context, Snippet
from heedful.features.reading.read_features import read_features
from heedful.features.reading.similar_features import nearest

SITE = "blocks.0.resid"
Shared = Callable[[str], Any]


@pytest.fixture(scope="module")
def gpt2(shared: Shared) -> Any:
    return shared("gpt2")


def _top(model: Any, at: int, value: float) -> Snippet:
    ids = tuple(model.tokenizer("the cat sat on the mat. hello world").input_ids)
    return Snippet(Context(ids, tuple("x" for _ in ids)), tuple(value for _ in ids), at, 0, ids)


def _by_hand(hf: Any, ids: tuple[int, ...], edit: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    """Logits (T, V) with block 0's output changed, by a hook of the test's own."""

    def hook(_m: Any, _i: Any, out: Any) -> Any:
        return (edit(out[0]), *out[1:]) if isinstance(out, tuple) else edit(out)

    handle = hf.transformer.h[0].register_forward_hook(hook)
    try:
        return hf(torch.tensor([ids])).logits[0]  # type: ignore[no-any-return]
    finally:
        handle.remove()


def test_pushes_are_the_derivative_of_the_logits(gpt2: Any):
    sae, top = random_sae(32, 6, SITE), _top(gpt2.model, 3, 1.7)
    step = torch.zeros((), requires_grad=True)

    def edit(x: torch.Tensor) -> torch.Tensor:
        moved = torch.zeros_like(x)
        moved[:, 3] = 1.0
        return x + step * moved * sae.W_dec[2]

    logits = _by_hand(gpt2.hf, top.whole, edit)[3]
    slopes = torch.stack([torch.autograd.grad(logits[v], step, retain_graph=True)[0] for v in range(330)])
    expected = 1.7 * (slopes - slopes.mean())
    found = _moved(gpt2.model, sae, SITE, 2, top)
    # central differences of a hundredth of the norm: curvature of third order is left
    assert torch.allclose(found.float(), expected, atol=3e-3 * float(expected.abs().max()))


def test_promoted_and_suppressed_are_the_extremes(gpt2: Any):
    sae = random_sae(32, 6, SITE)
    reading = read_features(gpt2.model, sae, TEXTS, [1], context=16).features[0]
    found = effects(gpt2.model, sae, SITE, reading, k=4)
    moved = torch.stack([_moved(gpt2.model, sae, SITE, 1, top) for top in reading.top]).mean(0)
    best = moved.argsort(descending=True)[:4].tolist()
    assert [p.name for p in found.promoted] == [gpt2.tokenizer.decode([i]) for i in best]
    assert [p.change for p in found.suppressed] == pytest.approx(sorted(moved.tolist())[:4])
    assert all(p.change > 0 and p.error > 0 for p in found.promoted)


def test_ablation_takes_out_the_feature_and_keeps_the_error(gpt2: Any):
    """x - a d where it fires: the loss of the tokens that follow, worked out by hand."""
    sae, ids = random_sae(32, 6, SITE), _top(gpt2.model, 0, 1.0).whole
    with torch.no_grad():
        clean: list[torch.Tensor] = []
        logits = _by_hand(gpt2.hf, ids, lambda x: clean.append(x) or x)  # type: ignore[func-returns-value]
        a = torch.relu(clean[0][0] @ sae.W_enc + sae.b_enc)  # (T, F)
        feature = int((a[:-1] > 0).sum(0).argmax())
        fires = a[:, feature] > 0
        fires[-1] = False
        assert 0 < fires.sum() < len(ids) - 1
        take = torch.where(fires[:, None], a[:, [feature]] * sae.W_dec[feature], torch.zeros(32))
        after = _by_hand(gpt2.hf, ids, lambda x: x - take)
        where = fires.nonzero()[:, 0]
        next_ids = torch.tensor(ids)[where + 1]
        change = [-torch.log_softmax(x.double(), -1)[where, next_ids].mean() for x in (after, logits)]
    pair = _without(gpt2.model, sae, SITE, feature, _top(gpt2.model, 0, 1.0), np.random.default_rng(0))
    assert pair is not None
    assert pair[0] == pytest.approx(float(change[0] - change[1]), abs=1e-5)
    assert pair[0] != pytest.approx(pair[1], abs=1e-4)  # the control is another feature


def test_the_control_is_another_feature_that_fires_there():
    codes = torch.tensor([[1.0, 2.0, 0.0, 3.0], [1.0, 0.0, 0.0, 0.0]])
    drawn = [_drawn(codes, 0, [0, 1], np.random.default_rng(seed)) for seed in range(30)]
    assert {d[0] for d in drawn} == {1, 3}
    assert {d[1] for d in drawn} == {-1}  # none other fires: nothing is taken out


def test_a_feature_without_effect_has_none(gpt2: Any):
    """A decoder row of zero length moves nothing; the control of the same places does."""
    sae = random_sae(32, 6, SITE)
    sae.W_dec[1] = 1e-12
    reading = read_features(gpt2.model, sae, TEXTS, [1], context=16).features[0]
    found = effects(gpt2.model, sae, SITE, reading).ablation
    assert found is not None
    assert found.change == pytest.approx(0, abs=1e-6)
    assert abs(found.control) > 1e-4
    assert found.interval[0] <= found.change <= found.interval[1]
    assert found.windows == len(reading.top)


def test_classifiers_push_labels(shared: Shared):
    model = shared("bert").model
    sae = random_sae(32, 6, "blocks.0.resid")
    readings = read_features(model, sae, TEXTS[:4], [0, 1, 2, 3], examples=3)
    reading = max(readings, key=lambda r: r.fired)
    found = effects(model, sae, "blocks.0.resid", reading)
    assert found.outputs == "label"
    assert {p.name for p in (*found.promoted, *found.suppressed)} == {"negative", "positive"}
    assert found.ablation is not None


def test_what_has_no_answer_says_so(shared: Shared):
    model = shared("bert-regression").model
    sae = random_sae(32, 6, "blocks.0.resid")
    reading = max(read_features(model, sae, TEXTS[:4], [0, 1, 2, 3]), key=lambda r: r.fired)
    found = effects(model, sae, "blocks.0.resid", reading)
    assert found.promoted == ()
    assert "regression" in found.notes[0]


def test_the_model_is_left_alone(gpt2: Any):
    x = torch.tensor([gpt2.tokenizer("the cat sat").input_ids])
    before = gpt2.hf(x).logits.detach()
    hooks = [(list(m._forward_hooks), list(m._forward_pre_hooks)) for m in gpt2.hf.modules()]
    sae = random_sae(32, 6, SITE)
    reading = read_features(gpt2.model, sae, TEXTS[:4], [1], context=16, examples=2).features[0]
    effects(gpt2.model, sae, SITE, reading)
    assert torch.equal(gpt2.hf(x).logits.detach(), before)
    assert [(list(m._forward_hooks), list(m._forward_pre_hooks)) for m in gpt2.hf.modules()] == hooks


def test_neighbours_are_by_cosine():
    sae = random_sae(16, 30, SITE)
    sae.W_dec[7] = 3 * sae.W_dec[2] + 0.01 * sae.W_dec[5]  # length does not matter
    sae.W_dec[9] = -sae.W_dec[2]
    found = nearest(sae, 2, k=29)
    assert found.features[0] == 7
    assert found.cosines[0] == pytest.approx(1, abs=1e-3)
    assert found.features[-1] == 9
    assert 2 not in found.features
    assert list(found.cosines) == sorted(found.cosines, reverse=True)
    assert 0.3 < found.chance < 0.8  # the greatest of 30 cosines in 16 dimensions
