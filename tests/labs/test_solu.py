"""The SoLU lab: what it reads from a model, how it matches losses, and claims that fail when they should."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from heedful.labs import LabRun
from heedful.labs import solu as lab
from heedful.labs.report import Claim
from heedful.labs.small_lm import losses
from heedful.nn import GPT2, GPT2Config
from heedful.types import Floats

TINY = lab.Sizes(vocab=40, width=8, context=8, steps=60, every=5, pairs=1, firings=4)


def model(activation: str, seed: int = 0) -> GPT2:
    return GPT2(GPT2Config(40, 8, 1, 4, 8, activation=activation), seed).eval()


def holds(run: LabRun, word: str) -> bool:
    return next(part.holds for part in run.parts if isinstance(part, Claim) and word in part.sentence)


def test_activations_are_those_the_model_computes_with() -> None:
    """Put behind the hidden layer, they give the model's own output."""
    gelu, soft = model("gelu"), model("solu-ln", 1)
    rows = torch.randint(40, (3, 8), generator=torch.Generator().manual_seed(0))
    found = lab.activations(gelu, soft, rows)
    for one, name in ((gelu, lab.GELU), (soft, lab.AFTER)):
        seen: list[torch.Tensor] = []
        hook = lab.mlp_of(one).down.register_forward_pre_hook(lambda _, args, seen=seen: seen.append(args[0]))
        with torch.no_grad():
            one(rows)
        hook.remove()
        np.testing.assert_allclose(found[name], seen[0].permute(2, 0, 1).numpy(), atol=1e-6)
    entering = torch.from_numpy(found[lab.ENTERING])
    weights = entering.exp() / entering.exp().sum(0)
    np.testing.assert_allclose(found[lab.BEFORE], (entering * weights).numpy(), atol=1e-6)


def test_random_directions_keep_lengths_and_mix_neurons() -> None:
    values = np.random.default_rng(0).normal(size=(6, 5, 4)).astype(np.float32)
    other = lab.turned(values, 3)
    np.testing.assert_allclose((other**2).sum(0), (values**2).sum(0), rtol=1e-4)
    assert np.abs(other - values).max() > 0.5


def test_the_faster_model_is_taken_where_it_was_as_good_as_the_slower() -> None:
    text = torch.arange(4000) % 40  # each token tells the next
    look = text[:800].view(-1, 8)
    run = LabRun(fast=True)
    gelu, soft = lab.trained_pair(run, TINY, text, look, seed=0)
    paths = []
    for name in ("gelu", "solu-ln"):
        points = lab.path_of(run, model(name), text, look[::8], TINY, 0)
        paths.append([loss for loss, _ in points])
        assert len(paths[-1]) == TINY.steps // TINY.every // 2
        assert paths[-1][-1] < paths[-1][0] - 0.05  # it learns
    target = max(path[-1] for path in paths)
    for one, path in zip((gelu, soft), paths, strict=True):
        nearest = min(path, key=lambda loss: abs(loss - target))
        assert losses(one, look[::8]).mean() == pytest.approx(nearest, abs=1e-5)
    assert min(paths[0][-1], paths[1][-1]) < target  # otherwise nothing was chosen


def test_what_layer_norm_raises_is_counted() -> None:
    before = np.array([[[1.0, 0.6, 0.1, 0.1]], [[1.0, 1.0, 0.0, 0.0]]], np.float32)
    after = np.array([[[1.0, 0.9, 0.8, 0.1]], [[2.0, 2.0, 0.0, 0.0]]], np.float32)
    assert lab.raised(before, after) == pytest.approx([1 / 3, 0.0])


def test_losses_that_differ_are_noticed() -> None:
    noise = np.random.default_rng(0).normal(0, 0.1, 200)
    for shift, expected in ((0.0, True), (0.1, False), (-0.1, False)):
        run = LabRun()
        lab.equal(run, noise + shift)
        assert holds(run, "equally good") is expected


def shares(**share: float) -> dict[str, Floats]:
    """Neurons of which so many, evenly spread, are explained."""
    names = {"gelu": lab.GELU, "entering": lab.ENTERING, "before": lab.BEFORE, "after": lab.AFTER}
    found = {lab.RAISED: np.linspace(0.2, 0.6, 300)}
    for key, name in names.items():
        rng = np.random.default_rng(len(found))
        found[name] = (rng.random(300) < share.get(key, 0.1)).astype(float)
        found[name + lab.RANDOM] = (rng.random(150) < share.get("random", 0.02)).astype(float)
        found[name + lab.MOVED] = (rng.random(100) < share.get("moved", 0.0)).astype(float)
    return found


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"before": 0.1}, "before its LayerNorm"),
        ({"after": 0.1}, "after its LayerNorm"),
        ({"entering": 0.5}, "It is SoLU"),
        ({"random": 0.5}, "special"),
        ({"moved": 0.3}, "moved"),
    ],
)
def test_every_claim_can_fail(changes: dict[str, float], word: str) -> None:
    good = {"gelu": 0.1, "before": 0.5, "after": 0.4}
    fine, bad = LabRun(), LabRun()
    lab.compared(fine, shares(**good))
    lab.compared(bad, shares(**good | changes))
    assert all(part.holds for part in fine.parts if isinstance(part, Claim))
    assert not holds(bad, word)


def test_another_solu_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab, "solu", lambda x: x.softmax(-1))
    run = LabRun()
    lab.by_hand(run)
    assert not any(part.holds for part in run.parts if isinstance(part, Claim))
