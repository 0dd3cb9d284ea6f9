"""Training: planted dictionaries are found, and every piece of the loop does what it says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import heedful
from heedful.core.errors import HeedfulError
from heedful.features.activations.store_facts import StoreFacts
from heedful.features.activations.stream import InMemoryRows, mean_square_norm
from heedful.features.sae import train
from heedful.features.sae.architectures import relu_tied
from heedful.features.sae.base import TrainingState, note_fired
from heedful.features.sae.checkpoint import moments_of
from heedful.features.sae.settings import KINDS, lr_at, resolve_settings, sparsity_at

PLANTED, D = 24, 12
# what each kind needs to be about as sparse as the planted codes, whose mean number of features is 1.2
NEEDS: dict[str, dict[str, Any]] = {
    "relu": {"sparsity": 1.0},
    "relu-tied": {"sparsity": 2.0},
    "topk": {"k": 2},
    "batchtopk": {"k": 2},
    "jumprelu": {"sparsity": 0.04, "bandwidth": 0.05},
    "matryoshka": {"k": 2, "prefixes": (24, 32)},
}


def _planted(rows: int = 8192) -> tuple[Tensor, Tensor]:
    """Rows that are sparse sums of known directions, and the directions (PLANTED, D)."""
    draw = torch.Generator().manual_seed(0)
    directions = torch.nn.functional.normalize(torch.randn(PLANTED, D, generator=draw), dim=1)
    codes = (torch.rand(rows, PLANTED, generator=draw) < 0.05) * (
        0.5 + torch.rand(rows, PLANTED, generator=draw)
    )
    return 7 * codes @ directions, directions


def _train(kind: str, data: Any = None, **wanted: Any) -> heedful.SAE:
    chosen = {"steps": 400, "batch": 256, "lr": 1e-2, "seed": 0, **NEEDS[kind], **wanted}
    return heedful.train_sae(_planted()[0] if data is None else data, 32, kind, **chosen)


@cache
def _trained(kind: str) -> heedful.SAE:
    return _train(kind)


@pytest.mark.parametrize("kind", KINDS)
def test_a_planted_dictionary_is_found(kind: str):
    x, directions = _planted()
    sae = _trained(kind)
    likeness = torch.nn.functional.normalize(sae.W_dec, dim=1) @ directions.T  # (32, PLANTED)
    assert (likeness.amax(0) > 0.9).float().mean() >= 0.9
    explained = 1 - (x - sae(x)).square().sum() / (x - x.mean(0)).square().sum()
    assert explained > 0.75
    assert (sae.encode(x) > 0).float().sum(1).mean() < 4  # of 32


def test_chance_finds_none_of_it():
    """The control of the test above: random directions are not within 0.9 of the planted ones."""
    random = torch.nn.functional.normalize(
        torch.randn(32, D, generator=torch.Generator().manual_seed(1)), dim=1
    )
    assert ((random @ _planted()[1].T).amax(0) > 0.9).float().mean() < 0.1


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_seed_gives_the_same_bits(kind: str):
    first, again, other = (_train(kind, steps=30, seed=seed) for seed in (3, 3, 4))
    assert all(
        torch.equal(getattr(first, n), getattr(again, n)) for n in ("W_enc", "b_enc", "W_dec", "b_dec")
    )
    assert not torch.equal(first.W_dec, other.W_dec)


@pytest.mark.parametrize("kind", KINDS)
def test_the_size_of_the_inputs_does_not_matter(kind: str):
    x, _ = _planted(2048)
    small, large = (
        _train(kind, factor * x, steps=60) for factor in (1.0, 1024.0)
    )  # a power of two: no rounding
    assert large.config.scale == pytest.approx(small.config.scale / 1024, rel=1e-6)
    assert torch.allclose(large(1024 * x), 1024 * small(x), rtol=1e-3, atol=1e-2)
    assert torch.allclose(large.encode(1024 * x), 1024 * small.encode(x), rtol=1e-3, atol=1e-2)


def test_inputs_are_scaled_to_mean_square_norm_d():
    x, _ = _planted(2048)
    run = train.begin(InMemoryRows(x), resolve_settings("relu", D, 16, 10, batch=64))
    assert (run.scale * x).square().sum(1).mean().item() == pytest.approx(D, rel=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_told_is_what_is(kind: str):
    told: list[dict[str, Any]] = []
    x, _ = _planted(256)  # one batch is all there is
    sae = _train(
        kind, x, steps=40, every=10, progress=lambda step: told.append(step.values), decay=0.0, lr=1e-9
    )
    assert [t["step"] for t in told] == [10, 20, 30, 40]
    assert all(t["steps"] == 40 for t in told)
    codes = sae.encode(x) if kind not in ("batchtopk", "matryoshka") else None
    if codes is not None:  # these two decide by the batch in training, by a threshold after
        left = (x - sae(x)).square().sum() / (x - x.mean(0)).square().sum()
        assert told[-1]["explained"] == pytest.approx(1 - left.item(), abs=1e-4)
        assert told[-1]["l0"] == pytest.approx((codes > 0).float().sum(1).mean().item(), abs=1e-3)


def test_an_early_look():
    seen: list[tuple[int, heedful.SAE]] = []
    last = _train("topk", steps=20, keep=8, look=lambda sae, step: seen.append((step, sae)))
    assert [step for step, _ in seen] == [8, 16, 20]
    assert not torch.equal(seen[0][1].W_dec, seen[1][1].W_dec)  # its own copy, not the weights in training
    assert torch.equal(seen[-1][1].W_dec, last.W_dec)


def test_an_early_look_is_sparse_before_a_threshold_is_known():
    """The threshold is averaged from half of the steps on; before, the last batch's stands for it."""
    x, _ = _planted(2048)
    seen: list[heedful.SAE] = []
    _train("batchtopk", x, steps=40, keep=10, look=lambda sae, step: seen.append(sae))
    active = [(sae.encode(x) > 0).float().sum(1).mean().item() for sae in seen]
    assert all(0.5 < one < 4 for one in active), active  # k = 2; without any threshold it is above 4


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "relu"])
def test_decoders_stay_at_length_one(kind: str):
    assert torch.allclose(_train(kind, steps=25).W_dec.norm(dim=1), torch.ones(32), atol=1e-5)


def test_silence_is_counted_in_rows_and_ends_with_a_firing():
    memory = TrainingState.new(resolve_settings("topk", 4, 3, 10, k=1))
    for fired in ([0, 1, 0], [0, 0, 0], [0, 0, 5]):
        note_fired(memory, torch.tensor(fired), 100)
    assert memory.silent.tolist() == [300, 200, 0]


@pytest.mark.parametrize("kind", KINDS)
def test_a_latent_that_cannot_fire_is_counted_dead(kind: str):
    x, _ = _planted(512)
    run = train.begin(
        InMemoryRows(x), resolve_settings(kind, D, 32, 20, batch=64, lr=1e-6, resample=(), **NEEDS[kind])
    )
    with torch.no_grad():
        run.params["b_enc"][5] = -1e4
    for outcome, rows in train.steps_of(run, InMemoryRows(x)):
        last = train.standing(run, outcome, rows)
    assert run.memory.silent[5] == 20 * 64
    assert run.memory.silent.min() < 64 * 5
    assert 1 / 32 <= last["dead"] < 1


def test_dead_latents_are_revived():
    x, _ = _planted(2048)
    alive = []
    for aux in (0.0, 1 / 32):
        settings = resolve_settings(
            "topk", D, 32, 300, batch=128, lr=5e-3, k=2, aux=aux, dead_rows=512, decay=0.0
        )
        run = train.begin(InMemoryRows(x), settings)
        with torch.no_grad():
            run.params["b_enc"][:16] = -6.0  # half are seldom above zero and never among the two strongest
        for _ in train.steps_of(run, InMemoryRows(x)):
            pass
        alive.append(int((run.memory.silent[:16] < 2048).sum()))
    assert alive[0] == 0
    assert alive[1] >= 4


def test_the_threshold_follows_the_smallest_kept_activation():
    x, _ = _planted(2048)
    settings = resolve_settings(
        "batchtopk", D, 32, 40, batch=128, k=2, threshold_from=0.5, threshold_decay=0.75
    )
    run = train.begin(InMemoryRows(x), settings)
    expected = -1.0
    for outcome, _ in train.steps_of(run, InMemoryRows(x)):
        if run.step == 21:
            expected = outcome.smallest.item()
        elif run.step > 21:
            expected = 0.75 * expected + 0.25 * outcome.smallest.item()
        assert float(run.memory.threshold) == pytest.approx(expected, rel=1e-5)
    assert run.sae().threshold.item() == pytest.approx(expected / run.scale, rel=1e-5)


@pytest.mark.parametrize("kind", ["topk", "batchtopk", "matryoshka"])
def test_thresholds_keep_about_k(kind: str):
    x, _ = _planted()
    found = (_trained(kind).thresholded().encode(x) > 0).float().sum(1).mean()
    assert 0.5 < found < 3  # k = 2


def test_resampled_latents_start_with_no_moments():
    x, _ = _planted(2048)
    settings = resolve_settings("relu-tied", D, 32, 80, batch=64, resample=(0.5,), sparsity=0.5)
    run = train.begin(InMemoryRows(x), settings)
    with torch.no_grad():
        run.params["b_enc"][:3] = -1e3
    for _ in train.steps_of(run, InMemoryRows(x)):
        moments = moments_of(run.optimizer, run.params)
        if run.step == 39:
            moments["enc"][0][:3] = 1.0  # as if these had moved before
        if run.step == 40:
            assert relu_tied.patience(settings) == 20 * 64
            for name in ("enc", "b_enc", "dec"):
                assert not any(moment[:3].any() for moment in moments[name]), name
                assert moments[name][1][3:].any()
            assert torch.allclose(run.params["dec"][:3].norm(dim=1), torch.ones(3), atol=1e-5)
            assert (run.params["b_enc"][:3] == 0).all()
            assert (run.memory.silent[:3] == 0).all()
    assert run.memory.silent[:3].min() < 40 * 64  # they fire again


def test_schedules():
    s = resolve_settings("relu", D, 32, 1000, lr=2.0, rise=0.1)
    assert [lr_at(s, t) for t in (0, 49, 99, 500, 799)] == [0.02, 1.0, 2.0, 2.0, 2.0]
    assert lr_at(s, 900) == pytest.approx(1.0)
    assert lr_at(s, 999) == pytest.approx(0.01)
    assert [sparsity_at(s, t) for t in (0, 25, 50, 999)] == [0.0, 2.5, 5.0, 5.0]
    assert resolve_settings("topk", D, 2**14, 10).lr == 2e-4
    assert resolve_settings("topk", D, 2**12, 10).lr == 4e-4


def test_gradients_are_clipped():
    x, _ = _planted(512)
    run = train.begin(InMemoryRows(x), resolve_settings("relu", D, 32, 10, batch=512))
    train.take_step(run, x * run.scale * 100)
    grads = torch.cat([p.grad.flatten() for p in run.params.values()])
    assert grads.norm().item() == pytest.approx(1.0, rel=1e-4)


def test_tables_are_walked_through_and_can_be_entered_anywhere():
    table = InMemoryRows(torch.arange(10.0)[:, None])
    batches = [b[:, 0].tolist() for _, b in zip(range(6), table.batches(3, seed=1), strict=False)]
    for first in (0, 3):  # three batches a round, each row at most once
        assert len({v for b in batches[first : first + 3] for v in b}) == 9
    assert batches[:3] != batches[3:]
    for start in range(6):
        assert next(iter(table.batches(3, seed=1, start=start)))[:, 0].tolist() == batches[start]
    assert len(next(iter(table.batches(25)))) == 25


class _Store:
    """The least a store of activations offers."""

    d, rows, facts = D, 2048, StoreFacts("toy", "blocks.0.mlp", D, "float32", 2048)

    def batches(self, size: int, seed: int = 0, *, start: int = 0) -> Iterator[Tensor]:
        return InMemoryRows(_planted(2048)[0]).batches(size, seed, start=start)


def test_tensors_arrays_and_stores_are_the_same_to_it():
    x, _ = _planted(2048)
    found = [_train("topk", data, steps=20) for data in (x, x.numpy(), _Store())]
    assert torch.equal(found[0].W_dec, found[1].W_dec)
    assert torch.allclose(found[0].W_dec, found[2].W_dec, atol=1e-6)
    assert found[2].config.source["site"] == "blocks.0.mlp"
    assert mean_square_norm(_Store(), 128, 0) == pytest.approx(x.square().sum(1).mean().item(), rel=1e-3)


@pytest.mark.parametrize(
    ("data", "wanted", "said"),
    [
        (torch.zeros(3), {}, "activations of shape"),
        (np.zeros((3, 4), dtype=np.int64), {}, "activations of shape"),
        ("acts", {}, "cannot train on str"),
        (torch.zeros(8, 4), {}, "no usable size"),
        (torch.full((8, 4), torch.nan), {}, "no usable size"),
        (torch.ones(8, 4), {"kind": "vanilla"}, "no kind of SAE"),
        (torch.ones(8, 4), {"lambda_": 3}, "unknown setting 'lambda_'"),
        (torch.ones(8, 4), {"kind": "topk", "k": 99}, "k is 99 of 8 latents"),
        (torch.ones(8, 4), {"kind": "topk", "k": -1}, "k is -1"),
        (torch.ones(8, 4), {"kind": "matryoshka", "k": 1, "prefixes": (4, 6)}, "prefixes"),
        (torch.ones(8, 4), {"lr": -1.0}, "lr must be positive"),
    ],
)
def test_mistakes_are_told(data: Any, wanted: dict[str, Any], said: str):
    with pytest.raises(HeedfulError, match=said):
        heedful.train_sae(data, 8, steps=2, **wanted)


def test_defaults():
    s = replace(resolve_settings("matryoshka", 384, 4096, 10), seed=0)
    assert s.prefixes == (256, 512, 1024, 2048, 4096)
    assert (s.k, s.k_aux, s.aux, s.dead_rows, s.clip) == (32, 192, 1 / 32, 10_000_000, 1.0)
    assert resolve_settings("relu", 384, 64, 10).sparsity == 5.0
    assert resolve_settings("jumprelu", 384, 64, 10).betas == (0.0, 0.999)


def test_gradients_along_decoders_are_removed():
    x, _ = _planted(512)
    run = train.begin(InMemoryRows(x), resolve_settings("topk", D, 32, 10, batch=512, k=2))
    before = run.params["dec"].detach().clone()
    train.take_step(run, x * run.scale)
    along = (run.params["dec"].grad * before).sum(1)
    assert run.params["dec"].grad.norm() > 0.01
    assert along.abs().max() < 1e-6


def test_the_rate_follows_its_schedule():
    x, _ = _planted(512)
    settings = resolve_settings("topk", D, 32, 10, batch=64, k=2, decay=0.5)
    run = train.begin(InMemoryRows(x), settings)
    rates = [run.optimizer.param_groups[0]["lr"] for _ in train.steps_of(run, InMemoryRows(x))]
    assert rates == [lr_at(settings, step) for step in range(10)]
    assert rates[-1] == pytest.approx(settings.lr / 5)
