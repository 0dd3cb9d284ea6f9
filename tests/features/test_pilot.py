"""Width and sparsity follow the activations: what was planted is found with no argument but the kind."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import heedful
from heedful.features.activations.stream import InMemoryRows
from heedful.features.measures.recovery import match
from heedful.features.sae import pilot, train
from heedful.features.sae.autoencoder import SAE
from heedful.features.sae.base import SingleWorker
from heedful.features.sae.config import Config
from heedful.features.sae.settings import TrainSettings, resolve_settings

KINDS = ("relu", "relu-tied", "jumprelu", "topk", "batchtopk", "matryoshka")
MAGNITUDES = {
    "near one": lambda shape, draw: (1 + 0.25 * torch.randn(shape, generator=draw)).abs(),
    "uniform": lambda shape, draw: torch.rand(shape, generator=draw),
    "exponential": lambda shape, draw: -torch.rand(shape, generator=draw).clamp(min=1e-6).log(),
}


def planted(
    seed: int, d: int, features: int, active: float, rows: int, magnitudes: str = "near one"
) -> tuple[Tensor, Tensor]:
    """Rows (n, d), and the directions (features, d) of which each row has `active` on average."""
    draw = torch.Generator().manual_seed(seed)
    directions = torch.nn.functional.normalize(torch.randn(features, d, generator=draw), dim=1)
    on = torch.rand(rows, features, generator=draw) < active / features
    return (on * MAGNITUDES[magnitudes]((rows, features), draw)) @ directions, directions


def _agree(share: float) -> pilot.Reproducible:
    return pilot.Reproducible(share, 2.0)


def recovered(sae: SAE, directions: Tensor) -> float:
    return float((match(sae.W_dec, directions).cosine >= 0.9).double().mean())


def _by_hand(directions: Tensor, k: int) -> SAE:
    config = Config("topk", directions.shape[1], len(directions), k)
    zeros = torch.zeros(len(directions)), torch.zeros(directions.shape[1])
    return SAE(config, directions.T.contiguous(), zeros[0], directions, zeros[1])


def test_only_what_both_dictionaries_have_counts():
    """Orthonormal features of variances 1, 4, 9, 16; the other dictionary has the first and the last."""
    draw = torch.Generator().manual_seed(3)
    basis = torch.linalg.qr(torch.randn(4, 4, generator=draw)).Q
    sizes = torch.rand(5000, 4, generator=draw) * torch.tensor([1.0, 2.0, 3.0, 4.0])
    x = (sizes - sizes.mean(0)) @ basis
    both = torch.cat([basis, -basis])  # of either sign: every row is rebuilt exactly
    half = both.clone()
    turned = torch.nn.functional.normalize(basis[1] + basis[2], dim=0)
    half[[1, 2, 5, 6]] = torch.stack([turned, turned, -turned, -turned])
    own = (sizes - sizes.mean(0)).square().sum(0)
    assert pilot.reproducible(_by_hand(both, 8), _by_hand(both.flip(0), 8), x).share == pytest.approx(1.0)
    share = float((own[0] + own[3]) / own.sum())
    assert pilot.reproducible(_by_hand(both, 8), _by_hand(half, 8), x).share == pytest.approx(share, abs=1e-5)


def test_the_number_of_equally_strong_latents():
    """Orthonormal features: m equal ones count m, one of 3 beside one of 1 counts 16 / 10."""
    basis = torch.linalg.qr(torch.randn(8, 8, generator=torch.Generator().manual_seed(4))).Q
    sizes = torch.zeros(4, 8)
    sizes[0, :5] = 2.0
    sizes[1, [2, 6]] = torch.tensor([3.0, 1.0])
    sizes[2, 7] = 0.5
    sae = _by_hand(basis, 8)
    expected = (5 + 16 / 10 + 1) / 3
    assert pilot.reproducible(sae, sae, sizes @ basis).active == pytest.approx(expected, rel=1e-4)
    absent = _by_hand(basis.flip(0)[[0, 0, 0, 0, 0, 0, 0, 0]], 8)  # only the last feature has a twin
    assert pilot.reproducible(sae, absent, sizes @ basis).active == pytest.approx(1.0)


def test_kinds_that_share_k_over_rows_take_the_mean(monkeypatch: pytest.MonkeyPatch):
    agreed = {4: pilot.Reproducible(0.7, 3.4), 8: pilot.Reproducible(0.9, 5.6)}
    monkeypatch.setattr(pilot, "_measured", lambda *_: agreed)
    rows = InMemoryRows(torch.ones(5000, 48))
    chosen = {
        kind: train._agreed(rows, resolve_settings(kind, 48, 96, 400), SingleWorker()) for kind in KINDS
    }
    assert {kind: each.k for kind, each in chosen.items()} == {
        "relu": 8,
        "relu-tied": 8,
        "jumprelu": 8,
        "topk": 8,
        "batchtopk": 6,
        "matryoshka": 6,
    }
    assert chosen["batchtopk"].why.endswith("explain 90 % of the variance, and a row has 5.6 of them")


def test_the_pilot_measures_the_sparsity():
    x, _ = planted(seed=7001, d=16, features=32, active=2.0, rows=12_000)
    choice = pilot.choose(InMemoryRows(x * 1e-3), 128, 0, train._fitted)
    assert choice.k in (2, 4), choice
    assert "k by a pilot" in choice.why


def test_noise_has_no_sparsity_to_measure():
    x = torch.randn(5000, 24, generator=torch.Generator().manual_seed(7002))
    choice = pilot.choose(InMemoryRows(x), 96, 0, train._fitted)
    assert choice.k == 3  # 24 / 8
    assert max(choice.reproducible.values()) < 0.1
    assert "k by the dimension" in choice.why


def test_it_ends_where_seeds_agree_on_nothing():
    """Dictionaries drawn at random have no twins in 64 dimensions: R = 0, and k = 8, 16 are not tried."""
    tried = []

    def fit(_: InMemoryRows, s: TrainSettings) -> SAE:
        tried.append(s.k)
        draw = torch.Generator().manual_seed(7004 + 100 * s.seed + s.k)
        return _by_hand(torch.nn.functional.normalize(torch.randn(s.width, s.d, generator=draw), dim=1), s.k)

    x = torch.randn(5000, 64, generator=torch.Generator().manual_seed(7005))
    choice = pilot.choose(InMemoryRows(x), 512, 0, fit)
    assert tried == [1, 1, 2, 2, 4, 4]
    assert choice.k == 8
    assert "explain only 0 % of the variance" in choice.why


def test_it_does_not_end_while_a_larger_k_can_explain_more():
    """16 of 64 orthonormal features are active, of length one and either sign: k of them explain k / 16."""
    draw = torch.Generator().manual_seed(7006)
    basis = torch.linalg.qr(torch.randn(64, 64, generator=draw)).Q
    on = torch.rand(6000, 64, generator=draw).argsort(1).argsort(1) < 16
    x = (on * torch.randn(6000, 64, generator=draw).sign()) @ basis
    both = torch.cat([basis, -basis])
    choice = pilot.choose(InMemoryRows(x), 128, 0, lambda _, s: _by_hand(both, s.k))
    assert list(choice.reproducible) == ["1", "2", "4", "8", "16"]
    assert max(choice.reproducible["2"], choice.reproducible["4"]) < pilot.MIN_R
    assert (choice.k, choice.reproducible["16"]) == (16, pytest.approx(1.0))


def test_a_short_run_has_no_pilot(monkeypatch: pytest.MonkeyPatch):
    """Its steps are fewer than those of one dictionary of the pilot."""
    monkeypatch.setattr(pilot, "_measured", lambda *_: {1: _agree(0.2), 2: _agree(0.9), 4: _agree(0.1)})
    rows = InMemoryRows(torch.randn(5000, 16, generator=torch.Generator().manual_seed(7007)))
    at = [train._agreed(rows, resolve_settings("topk", 16, 64, n, k=1), SingleWorker()) for n in (299, 300)]
    assert (at[0].k, at[0].reproducible) == (2, {})
    assert "because to measure it takes 300 steps many times, and 299 are wanted" in at[0].why
    assert (at[1].k, at[1].reproducible) == (2, {"1": 0.2, "2": 0.9, "4": 0.1})


def test_the_result_shows_what_was_chosen():
    sae = heedful.train_sae(_x(), 24, "topk", steps=2)
    why = sae.config.source["pilot"]["why"]
    assert repr(sae) == f"<topk autoencoder: (16,) to 24 features, k = 2; {why}>"
    sae = heedful.train_sae(_x(), 24, "relu", steps=2, sparsity=1.25)
    assert repr(sae) == "<relu autoencoder: (16,) to 24 features, lambda = 1.25>"
    assert repr(_by_hand(torch.eye(4), 3)) == "<topk autoencoder: (4,) to 4 features, k = 3>"


def test_few_rows_and_wide_ones_are_not_measured():
    def never(rows: InMemoryRows, settings: Any) -> SAE:
        raise AssertionError("nothing is trained")

    assert pilot.choose(InMemoryRows(torch.ones(4000, 64)), 512, 0, never).k == 8
    wide = InMemoryRows(torch.ones(1, 2048).expand(5000, 2048))
    assert pilot.choose(wide, 512, 0, never).k == 32
    assert pilot.choose(InMemoryRows(torch.ones(10, 4)), 16, 0, never).k == 1


def test_the_width_follows_dimension_and_rows():
    assert [pilot.default_width(d, 120_000) for d in (48, 192, 576)] == [384, 1536, 4608]
    assert pilot.default_width(192, 16_000) == 1000
    assert pilot.default_width(192, 100) == 192


def test_penalties_stand_for_the_same_sparsity():
    """k features of length a, k a² = d: L1 makes one shorter by lambda / 2, L0 removes it below lambda d."""
    for d, k in ((48, 6), (192, 24), (8, 1)):
        a = math.sqrt(d / k)
        assert pilot.sparsity_of("relu", d, k)["sparsity"] / 2 == pytest.approx(0.3 * a)
        assert pilot.sparsity_of("relu-tied", d, k) == pilot.sparsity_of("relu", d, k)
        assert math.sqrt(pilot.sparsity_of("jumprelu", d, k)["sparsity"] * d) == pytest.approx(0.3 * a)
        assert pilot.sparsity_of("batchtopk", d, k) == {"k": k}


def _x() -> Tensor:
    return torch.randn(600, 16, generator=torch.Generator().manual_seed(7003)).exp()


def test_what_the_user_gives_wins(tmp_path: Path):
    told: list[pilot.SparsityChoice] = []
    sae = heedful.train_sae(_x(), 24, "topk", k=5, steps=2, out=tmp_path, tell=told.append)
    assert (sae.config.k, sae.config.width, told) == (5, 24, [])
    assert "pilot" not in sae.config.source
    assert not (tmp_path / pilot.FILE).exists()
    sae = heedful.train_sae(_x(), kind="relu", sparsity=0.7, steps=2, tell=told.append)
    assert (sae.config.source["settings"]["sparsity"], sae.config.width, told) == (0.7, 37, [])
    sae = heedful.train_sae(_x(), 3, "topk", steps=2, tell=told.append)
    assert (sae.config.width, sae.config.k) == (3, told[0].k)
    assert sae.config.source["pilot"] == told[0].to_dict()


def test_a_resumed_run_keeps_its_choice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def never(*_: Any) -> None:
        raise AssertionError("the pilot ran again")

    first = heedful.train_sae(_x(), kind="batchtopk", steps=4, batch=64, out=tmp_path)
    assert json.loads((tmp_path / pilot.FILE).read_text())["k"] == first.config.k
    monkeypatch.setattr(pilot, "choose", never)
    again = heedful.train_sae(_x(), kind="batchtopk", steps=4, batch=64, out=tmp_path, resume=True)
    assert torch.equal(first.W_dec, again.W_dec)
    assert first.config.source["pilot"] == again.config.source["pilot"]
    with pytest.raises(AssertionError, match="ran again"):
        heedful.train_sae(_x(), kind="batchtopk", steps=4, batch=64, out=tmp_path)


class _Second:
    """The second of two workers; the first one has chosen k = 5."""

    rank, world = 1, 2

    def mean(self, value: Tensor) -> Tensor:
        return value

    def total(self, value: Tensor) -> Tensor:
        return value

    def gather(self, values: Tensor) -> Tensor:
        return torch.cat([torch.full_like(values, 5), values])


def test_workers_take_the_choice_of_the_first():
    assert train._agreed(InMemoryRows(_x()), resolve_settings("topk", 16, 64, 400, k=1), _Second()).k == 5


def test_the_command_shows_the_choice(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    from heedful.cli.commands import features_train
    from heedful.cli.main import main

    texts = ["Once upon a time there was a little fox.", "The sea was calm and blue."] * 8
    model: Any = heedful.load("zoo:lm")
    heedful.harvest(model, texts, "blocks.1.resid", tmp_path / "acts")
    words = ["features", "train", str(tmp_path / "acts"), "--kind", "topk", "--steps", "2"]
    assert main([*words, "--out", str(tmp_path / "sae")]) == 0
    err = " ".join(capfd.readouterr().err.split())
    assert "192 features; k = 24: k by the dimension, because" in err
    assert main([*words, "--out", str(tmp_path / "sae"), "--resume", "--quiet"]) == 0
    assert "k =" not in capfd.readouterr().err
    shown = features_train._by_k(pilot.SparsityChoice(8, 2, "", {"1": 0.4, "2": -0.01}))
    assert shown == ". Share of the variance that such features explain: 40 % with k = 1, 0 % with k = 2"


# --- the requirement --------------------------------------------------------------------------------

SHAPES = {
    "48": (48, 96, 6.0, 120_000),
    "32": (32, 64, 3.0, 60_000),
    "64": (64, 256, 8.0, 120_000),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["relu", "topk", "batchtopk"])
@pytest.mark.parametrize("seed", [7101, 7102, 7103])
def test_no_argument_but_the_kind(kind: str, seed: int):
    """Half a minute each on two cores."""
    magnitudes = list(MAGNITUDES)[seed % 3]
    x, directions = planted(seed, *SHAPES["48"], magnitudes)
    assert recovered(heedful.train_sae(x, kind=kind), directions) >= 0.95


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["relu", "topk", "batchtopk"])
@pytest.mark.parametrize(("shape", "scale"), [("32", 1e-3), ("64", 1e3)])
def test_other_shapes_and_scales(kind: str, shape: str, scale: float):
    x, directions = planted(7201, *SHAPES[shape])
    assert recovered(heedful.train_sae(x * scale, kind=kind), directions) >= 0.95
