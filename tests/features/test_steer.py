"""Steering by features: the formula, bits that stay, caches, positions, and what is left behind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import heedful
from heedful.core.errors import HeedfulError
from heedful.features.sae.autoencoder import SAE
from heedful.features.sae.config import Config
from heedful.features.sae.maxima import with_maxima
from heedful.features.sae.settings import KINDS
from heedful.features.steering.directions import Direction, feature_maxima
from heedful.features.steering.steer import steer
from heedful.models.backend import Inputs
from heedful.models.sites.access import reading, width

WIDTH, SITE = 24, "blocks.0.resid"
TEXT = "the cat sat on the mat"


def random_sae(d: int = 32, kind: str = "relu", site: str = SITE, seed: int = 0) -> SAE:
    draw = torch.Generator().manual_seed(seed)
    k = 6 if kind in ("topk", "batchtopk", "matryoshka") else None
    shapes = ((d, WIDTH), (WIDTH,), (WIDTH, d), (d,))
    weights = (torch.randn(*shape, generator=draw) * 0.3 for shape in shapes)
    threshold = torch.full((WIDTH,), 0.1) if kind == "jumprelu" else torch.tensor(0.1) if k else None
    return SAE(Config(kind, d, WIDTH, k, source={"site": site}), *weights, threshold)


def inputs_of(model: Any, text: str = TEXT, answer: list[int] | None = None) -> Inputs:
    ids = torch.tensor([model.encode(text).ids])
    if model.kind == "encoder-decoder":
        answer = [model.backend.special_id("decoder_start") or 0, *(answer or [])]
    return Inputs(ids, torch.ones_like(ids), answer=None if answer is None else torch.tensor([answer]))


def run(model: Any, inputs: Inputs | None = None) -> Tensor:
    with torch.inference_mode():
        return model.backend.forward(inputs or inputs_of(model))  # type: ignore[no-any-return]


def seen_at(model: Any, site: str = SITE, inputs: Inputs | None = None) -> Tensor:
    with reading(model, [site]) as seen:
        run(model, inputs)
    return seen[site]


def active(model: Any, sae: SAE, site: str = SITE) -> int:
    return int(sae.encode(seen_at(model, site)).flatten(0, -2).sum(0).argmax())


@pytest.mark.parametrize("kind", KINDS)
def test_the_formula(kind: str, shared: Callable[[str], Any]) -> None:
    """Decode the changed code and put the error back: the definition, computed the long way."""
    model, sae = shared("gpt2").model, random_sae(kind=kind)
    one, other = active(model, sae), 3
    x = seen_at(model).double()
    wide = replace(sae, **{n: getattr(sae, n).double() for n in ("W_enc", "b_enc", "W_dec", "b_dec")})
    f = wide.encode(x)
    changed = f.clone()
    changed[..., one], changed[..., other] = 2.5, f[..., other] + 0.75
    expected = wide.decode(changed) + (x - wide.decode(f))
    with steer(model, sae, {one: 2.5, other: "+0.75"}) as applied:
        found = seen_at(model)
    assert torch.allclose(found.double(), expected, atol=1e-4)
    lengths = (expected - x).norm(dim=-1)
    assert applied.size == pytest.approx(float(lengths.mean()), rel=1e-4)
    assert applied.positions == x.shape[1]
    assert float(lengths.min()) > 0.1, "the test would hold if nothing were changed"


@pytest.mark.parametrize("name", ["gpt2", "llama", "bert", "distilbert", "bart", "t5", "gpt2-classifier"])
def test_what_is_not_changed_keeps_every_bit(name: str, shared: Callable[[str], Any]) -> None:
    model, sae, silent = shared(name).model, random_sae(), 4
    sae.b_enc[silent] = -1e3
    one = active(model, sae)
    before = run(model)
    for how in ({}, {one: "1x own"}, {one: "+0", 2: "1x own"}, {silent: 0}):
        with steer(model, sae, how):
            assert torch.equal(run(model), before), how
    with steer(model, Direction(torch.ones(32), SITE), 0):
        assert torch.equal(run(model), before)
    with steer(model, sae, {one: 0}):
        assert not torch.equal(run(model), before)
    assert torch.equal(run(model), before), "afterwards all is as before"


def whole_passes(model: Any, prompt: str, count: int) -> list[int]:
    """Greedy continuation with no cache: the whole text is read again for every token."""
    written: list[int] = []
    for _ in range(count):
        inputs = inputs_of(model, prompt, written)
        if model.kind == "causal-lm":
            ids = torch.cat([inputs.ids, torch.tensor([written], dtype=torch.long)], 1)
            inputs = Inputs(ids, torch.ones_like(ids))
        written.append(int(run(model, inputs)[0, -1].argmax()))
    return written


@pytest.mark.parametrize(
    ("name", "site"),
    [
        ("gpt2", SITE),
        ("gpt2", "blocks.1.mlp"),
        ("llama", SITE),
        ("bart", "decoder.blocks.0.resid"),
        ("t5", "decoder.blocks.0.resid"),
    ],
)
def test_a_cache_changes_nothing(name: str, site: str, shared: Callable[[str], Any]) -> None:
    """Prefill and one token at a time write what whole passes write."""
    model, sae = shared(name).model, random_sae(site=site)
    x = model.encode(TEXT)
    plain = model.answer(x, 8)
    written = 0
    some = [1, 2, 4, len(x) + 1, len(x) + 3]
    for how, positions in (({3: 4.0, 7: "+1"}, "all"), ({3: 6.0}, some), ({5: 60.0}, "all")):
        with steer(model, sae, how, positions=positions):
            ids = model.answer(x, 8)
            assert ids == whole_passes(model, TEXT, 8)[: len(ids)]
        written += ids != plain
    assert written, "the steer was too weak to show anything"


@pytest.mark.parametrize("positions", ["all", "last", [0, 2, 99]])
def test_an_encoder_is_steered_once_however_much_is_written(
    positions: Any, shared: Callable[[str], Any]
) -> None:
    model, sae = shared("bart").model, random_sae()
    x = model.encode(TEXT)
    with steer(model, sae, {3: 4.0}, positions=positions) as applied:
        model.answer(x, 4)
    assert applied.positions == {"all": len(x), "last": 1}.get(str(positions), 2)


def test_last_while_writing_is_everything_from_the_last_token_of_the_prompt_on(
    shared: Callable[[str], Any],
) -> None:
    model, sae = shared("gpt2").model, random_sae()
    x = model.encode(TEXT)
    with steer(model, sae, {3: 4.0}, positions="last"):
        ids = model.answer(x, 8)
    with steer(model, sae, {3: 4.0}, positions=range(len(x) - 1, 64)):
        assert whole_passes(model, TEXT, 8)[: len(ids)] == ids
    with steer(model, sae, {3: 4.0}):
        assert model.answer(x, 8) != ids, "or positions would not matter here"


@pytest.mark.parametrize("positions", ["all", "last", [1, 3]])
def test_positions_in_a_padded_batch(positions: Any, shared: Callable[[str], Any]) -> None:
    model, sae = shared("bert").model, random_sae()
    texts = [model.encode("the cat sat on the mat").ids, model.encode("the dog").ids]
    longest = len(texts[0])
    ids = torch.tensor([[*t, *[3] * (longest - len(t))] for t in texts])
    mask = torch.tensor([[1] * len(t) + [0] * (longest - len(t)) for t in texts])
    before = seen_at(model, inputs=Inputs(ids, mask))
    with steer(model, sae, {5: 9.0}, positions=positions) as applied:
        after = seen_at(model, inputs=Inputs(ids, mask))
    moved = (after != before).any(-1)
    for row, t in enumerate(texts):
        wanted = {"all": range(len(t)), "last": [len(t) - 1]}.get(str(positions), positions)
        assert moved[row].nonzero()[:, 0].tolist() == list(wanted)
    assert applied.positions == int(moved.sum())


def test_it_nests_and_leaves_nothing(shared: Callable[[str], Any]) -> None:
    model, sae = shared("gpt2").model, random_sae()
    vector = torch.linspace(-1, 1, 32)
    x = seen_at(model)
    hooks = [len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.module.modules()]
    with steer(model, sae, {5: 2.0}), steer(model, vector, 3, site=SITE):
        both = seen_at(model)
    with steer(model, sae, {5: 2.0}):
        one = seen_at(model)
    assert torch.allclose(both, one + 3 * vector, atol=1e-5)
    with pytest.raises(RuntimeError, match="stop"), steer(model, sae, {5: 2.0}):
        raise RuntimeError("stop")
    assert torch.equal(seen_at(model), x)
    assert hooks == [len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.module.modules()]


def test_gradients_flow_through(shared: Callable[[str], Any]) -> None:
    """The derivative of the logit by the strength, against finite differences."""
    model, sae = shared("gpt2").model, random_sae()

    def logit(value: float) -> float:
        with steer(model, sae, {5: value}):
            return float(run(model)[0, -1, 7])

    with steer(model, sae, {5: 2.0}), reading(model, [SITE]) as seen, torch.enable_grad():
        logits, _ = model.backend.forward_with_grad(inputs_of(model))
        (grad,) = torch.autograd.grad(logits[0, -1, 7], seen[SITE])
    slope = float((grad[0] @ sae.W_dec[5]).sum())
    assert slope == pytest.approx((logit(2.01) - logit(1.99)) / 0.02, rel=2e-2, abs=1e-3)


def test_multiples_of_the_maximum(shared: Callable[[str], Any], tmp_path: Path) -> None:
    model, sae = shared("bert").model, random_sae()
    texts = [TEXT, "hello world"]
    maxima = feature_maxima(model, sae, texts)
    codes = [
        sae.encode(seen_at(model, inputs=inputs_of(model, t)))[0, 1:-1] for t in texts
    ]  # no [CLS], [SEP]
    assert torch.allclose(maxima, torch.cat(codes).amax(0), atol=1e-5)
    one = int(maxima.argmax())
    with steer(model, sae, {one: 3 * float(maxima[one])}):
        expected = run(model)
    kept = SAE.load(with_maxima(sae, maxima).save(tmp_path))
    ways = [(sae, {"maxima": maxima}), (sae, {"maxima": {one: float(maxima[one])}}), (kept, {})]
    for given, more in [*ways, (sae, {"maxima": texts})]:
        with steer(model, given, {one: "3x"}, **more):
            assert torch.allclose(run(model), expected, atol=1e-5)
    with pytest.raises(HeedfulError, match="was never active"), steer(model, sae, {2: "2x"}, maxima={2: 0.0}):
        pass
    with pytest.raises(HeedfulError, match="is not known"), steer(model, sae, {one: "3x"}):
        pass


def test_what_cannot_be_meant_is_refused(shared: Callable[[str], Any]) -> None:
    model, sae = shared("gpt2").model, random_sae()
    wrong: list[tuple[Any, Any, dict[str, Any], str]] = [
        (sae, {WIDTH: 1.0}, {}, "there is no feature 24"),
        (sae, {-1: 1.0}, {}, "there is no feature -1"),
        (sae, {1: "strong"}, {}, "cannot be set to 'strong'"),
        (sae, {1: -1.0}, {}, "never negative"),
        (sae, {1: "+2x"}, {}, "cannot be set"),
        (sae, {1: float("nan")}, {}, "cannot be set"),
        (sae, 3.0, {}, "steered by its features"),
        (sae, {1: 1.0}, {"positions": "first"}, "unknown positions"),
        (sae, {1: 1.0}, {"positions": [-1]}, "from 0 on"),
        (sae, {1: 1.0}, {"site": "blocks.9.resid"}, "no site"),
        (random_sae(d=16), {1: 1.0}, {}, "width 16"),
        (torch.ones(32), 1.0, {}, "not known where"),
        (torch.ones(31), 1.0, {"site": SITE}, "shape"),
        (torch.ones(32), "2x", {"site": SITE}, "so many times"),
    ]
    for by, how, more, said in wrong:
        with pytest.raises(HeedfulError, match=said), steer(model, by, how, **more):
            pass
    bare = replace(sae, config=replace(sae.config, source={}))
    with pytest.raises(HeedfulError, match="not known where"), steer(model, bare, {1: 1.0}):
        pass


def test_it_is_public(shared: Callable[[str], Any]) -> None:
    assert heedful.steer is steer
    assert width(shared("gpt2").model, SITE) == 32
