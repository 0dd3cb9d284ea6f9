"""The SoLU lab: what it reads from a model, how it matches losses, and claims that fail when they should."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from scipy import stats

from heedful.core.lab_report import Claim, NumberTable
from heedful.labs import LabRun
from heedful.labs import solu as lab
from heedful.labs.models.small_lm import losses
from heedful.nn import GPT2, GPT2Config

TINY = lab.SoluSizes(
    vocab=40, width=8, context=8, steps=60, batch=16, every=5, pairs=1, windows=100, judged=8, firings=4
)


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
        points = lab.path_of(run, model(name), text, look[::4], TINY, 0)
        paths.append([loss for loss, _ in points])
        assert len(paths[-1]) == TINY.steps // TINY.every // 2
        assert paths[-1][-1] < paths[-1][0] - 0.05  # it learns
    target = max(path[-1] for path in paths)
    for one, path in zip((gelu, soft), paths, strict=True):
        nearest = min(path, key=lambda loss: abs(loss - target))
        assert losses(one, look[::4]).mean() == pytest.approx(nearest, abs=1e-5)
    assert min(paths[0][-1], paths[1][-1]) < target  # otherwise nothing was chosen


def test_what_layer_norm_raises_is_counted() -> None:
    before = np.array([[[1.0, 0.6, 0.1, 0.1]], [[1.0, 1.0, 0.0, 0.0]]], np.float32)
    after = np.array([[[1.0, 0.9, 0.8, 0.1]], [[2.0, 2.0, 0.0, 0.0]]], np.float32)
    assert lab.raised(before, after) == pytest.approx(1 / 6)  # a third and none


def test_losses_that_differ_are_noticed() -> None:
    for shift, expected in ((0.0, True), (0.1, False), (-0.1, False)):
        run = LabRun()
        lab.equal(run, [shift - 0.005, shift, shift + 0.005])
        assert holds(run, "equally good") is expected


def test_a_share_is_of_the_neurons_of_one_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """A judge that likes neurons whose first value is positive, by hand."""
    monkeypatch.setattr(lab, "explained", lambda place, neurons, seed: [float(n[0, 0] > 0) for n in neurons])
    values = {name: np.full((8, 2, 3), -1.0, np.float32) for name in (lab.GELU, lab.BEFORE)}
    values[lab.BEFORE][:3] = 1.0
    values[lab.BEFORE][6:] = 1.0  # not among the first four
    places = lab.RuleWindows(torch.zeros(2, 3, dtype=torch.long), Reader(), 4)
    found = lab.shares(places, values, 4, 0)
    assert found[lab.GELU] == 0.0
    assert found[lab.BEFORE] == 0.75
    turned = lab.turned(values[lab.BEFORE], 0)[:2, 0, 0]
    assert found[lab.RANDOM] == (turned > 0).mean()


class Reader:
    def decode(self, ids: Sequence[int], **_: object) -> str:
        return " a" * len(ids)


def test_the_difference_of_two_groups_has_the_interval_of_welch() -> None:
    one, other = [0.3, 0.5, 0.45, 0.35], [0.05, 0.02, 0.04, 0.01]
    value, span = lab.beyond(one, other)
    parts = [np.var(x, ddof=1) / 4 for x in (one, other)]
    degrees = sum(parts) ** 2 / sum(part**2 / 3 for part in parts)
    reach = stats.t.ppf(0.975, degrees) * sum(parts) ** 0.5
    assert value == pytest.approx(0.37)
    assert span == pytest.approx((0.37 - reach, 0.37 + reach))


def shares(**share: float) -> dict[str, list[float]]:
    """Four trainings around a share of each kind."""
    names = {"gelu": lab.GELU, "entering": lab.ENTERING, "before": lab.BEFORE, "after": lab.AFTER}
    names |= {"random": lab.RANDOM, "raised": lab.RAISED}
    off = (-0.03, 0.0, 0.01, 0.02)
    return {name: [share.get(key, 0.1) + o for o in off] for key, name in names.items()}


GOOD = {"gelu": 0.1, "before": 0.5, "after": 0.4, "raised": 0.3}


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"before": 0.1}, "before its LayerNorm"),
        ({"raised": 0.1}, "raises"),
    ],
)
def test_every_claim_can_fail(changes: dict[str, float], word: str) -> None:
    fine, bad = LabRun(), LabRun()
    lab.compared(fine, shares(**GOOD))
    lab.compared(bad, shares(**GOOD | changes))
    assert all(part.holds for part in fine.parts if isinstance(part, Claim))
    assert not holds(bad, word)


def test_one_training_with_many_neurons_is_not_enough() -> None:
    """One SoLU model of four stands out: over neurons that would be clear, over trainings it is not."""
    found = shares(**GOOD) | {lab.BEFORE: [0.1, 0.1, 0.1, 0.9]}
    run = LabRun()
    lab.compared(run, found)
    assert not holds(run, "before its LayerNorm")


@pytest.mark.parametrize(("hits", "expected"), [(0, True), (30, False)])
def test_a_method_that_finds_rules_in_nothing_is_noticed(hits: int, expected: bool) -> None:
    run = LabRun()
    lab.nothing(run, shares(**GOOD), [1.0] * hits + [0.0] * (100 - hits))
    assert holds(run, "shuffled") is expected


def test_the_conclusion_follows_the_numbers() -> None:
    def reads(**changes: list[float]) -> dict[str, str]:
        run = LabRun()
        lab.concluded(run, shares(**GOOD) | changes)
        (table,) = (part for part in run.parts if isinstance(part, NumberTable))
        return {str(row[0]): str(row[-1]) for row in table.rows}

    key = f"{lab.BEFORE} minus {lab.ENTERING}"
    cases = {"higher": [0.1] * 4, "lower": [0.8] * 4, "not significantly different": [0.2, 0.9, 0.1, 0.8]}
    for word, entering in cases.items():
        assert reads(**{lab.ENTERING: entering})[key] == word


def test_another_solu_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab, "solu", lambda x: x.softmax(-1))
    run = LabRun()
    lab.by_hand(run)
    assert not any(part.holds for part in run.parts if isinstance(part, Claim))
