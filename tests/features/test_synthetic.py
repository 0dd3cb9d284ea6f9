"""The benchmark is what it says, and recovery is counted right: closed forms, enumeration, rivals."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice, permutations
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import f1_score, matthews_corrcoef

import heedful
from heedful.core.errors import HeedfulError
from heedful.features.measures.recovery import firing, match, random_dictionary, recovery, untrained
from heedful.features.measures.synthetic import (
    PLAIN,
    QUICK,
    PlantedPlan,
    Synthetic,
    correlated,
    full,
    hierarchical,
)
from heedful.features.sae.autoencoder import SAE
from heedful.features.sae.config import Config

ROWS = 40_000
PLANS = {
    "plain": QUICK,
    "correlated": correlated(QUICK),
    "hierarchy": hierarchical(QUICK),
    "full": full(QUICK),
}


@pytest.fixture(scope="module", params=list(PLANS))
def drawn(request: pytest.FixtureRequest) -> tuple[Synthetic, torch.Tensor]:
    source = Synthetic(PLANS[request.param])
    return source, source.codes(ROWS, torch.Generator().manual_seed(5))


def test_features_fire_as_often_as_planned(drawn: tuple[Synthetic, torch.Tensor]):
    """Marginals are exact whatever else is switched on: within five standard errors, all 128 of them."""
    source, codes = drawn
    seen, chance = (codes > 0).double().mean(0), source.chances
    error = (chance * (1 - chance) / ROWS).sqrt()
    assert ((seen - chance).abs() < 5 * error).all()
    assert float(chance.sum()) == pytest.approx(source.plan.active)


def test_zipf():
    chances = Synthetic(PLAIN).chances
    assert float(chances[0] / chances[99]) == pytest.approx(10.0)  # rank 100, exponent one half
    assert torch.equal(Synthetic(replace(PLAIN, zipf=0.0)).chances, torch.full((512,), 3 / 512).double())


def test_correlations_are_those_of_the_copula():
    """P(both on) of two features by the bivariate normal distribution."""
    from scipy.stats import multivariate_normal, norm

    source = Synthetic(PlantedPlan(features=6, d=4, active=1.5, zipf=0.0, rank=1, strength=0.8, seed=3))
    on = (source.codes(200_000, torch.Generator().manual_seed(0)) > 0).double()
    signs = torch.sign(source._loadings[:, 0])  # rank one: rows of L are 1 or -1
    t = norm.ppf(0.25)
    for i, j in ((0, 1), (0, 2), (3, 5)):
        r = 0.64 * float(signs[i] * signs[j])
        both = multivariate_normal([0, 0], [[1, r], [r, 1]]).cdf([t, t])
        assert float((on[:, i] * on[:, j]).mean()) == pytest.approx(both, abs=0.005)
    independent = Synthetic(replace(source.plan, rank=0)).codes(200_000, torch.Generator().manual_seed(0)) > 0
    apart = independent.double().T @ independent.double() / 200_000
    assert float((apart - 0.0625).fill_diagonal_(0).abs().max()) < 0.005


def test_hierarchy_holds_in_every_row():
    source = Synthetic(hierarchical(QUICK))
    on = source.codes(20_000, torch.Generator().manual_seed(0)) > 0
    parents, children = source.parents, (source.parents >= 0).nonzero()[:, 0]
    assert len(children) == 12 * source.plan.roots
    assert not (on[:, children] & ~on[:, parents[children]]).any()  # no child without its parent
    for parent in parents[children].unique():
        own = (parents == parent).nonzero()[:, 0]
        assert len(own) == 3
        assert on[:, own].sum(1).max() == 1  # siblings exclude each other
        # four fifths of the time one of them follows
        followed = on[on[:, parent]][:, own].any(1).double()
        assert abs(float(followed.mean()) - 0.8) < 5 * (0.16 / len(followed)) ** 0.5
    assert not Synthetic(QUICK).levels


def test_activations_are_sums_of_directions():
    source = Synthetic(QUICK)
    x, codes = source.draw(64, seed=2)
    by_hand = sum(codes[:, i : i + 1] * source.directions[i] for i in range(128))
    assert torch.allclose(x, by_hand, atol=1e-5)
    assert torch.allclose(source.directions.norm(dim=1), torch.ones(128))
    apart = Synthetic(replace(QUICK, features=24, active=1.0, superposed=False)).directions
    assert torch.allclose(apart @ apart.T, torch.eye(24), atol=1e-5)
    noisy = Synthetic(replace(QUICK, noise=0.1)).draw(2000, seed=2)
    assert float((noisy[0] - noisy[1] @ source.directions).std()) == pytest.approx(0.1, rel=0.02)


def test_batches_are_seekable_and_their_own():
    source = Synthetic(QUICK)
    first = list(islice(source.batches(16, seed=1), 4))
    assert torch.equal(next(source.batches(16, seed=1, start=3)), first[3])
    others = [
        *first,
        next(source.batches(16, seed=2)),
        next(Synthetic(replace(QUICK, seed=1)).batches(16, 1)),
    ]
    for a, b in permutations(range(len(others)), 2):
        assert not torch.equal(others[a], others[b])


@pytest.mark.parametrize(
    "wrong",
    [{"roots": 20}, {"superposed": False}, {"active": 100.0}, {"strength": 1.0}, {"active": 0.0}],
)
def test_mistakes_are_told(wrong: dict[str, Any]):
    with pytest.raises(HeedfulError):
        Synthetic(replace(QUICK, **wrong))


# --- recovery --------------------------------------------------------------------------------------


def _sae(directions: torch.Tensor, k: int = 2) -> SAE:
    width, d = directions.shape
    config = Config("topk", d, width, k)
    return SAE(config, directions.T.contiguous(), torch.zeros(width), directions, torch.zeros(d))


def test_matching_is_the_best_of_all():
    draw = torch.Generator().manual_seed(0)
    truth, decoder = torch.randn(5, 3, generator=draw), torch.randn(6, 3, generator=draw)
    unit = torch.nn.functional.normalize
    cosines = unit(truth.double(), dim=1) @ unit(decoder.double(), dim=1).T
    best = max(sum(cosines[i, j] for i, j in enumerate(p)) for p in permutations(range(6), 5))
    found = match(decoder, truth)
    assert float(found.cosine.sum()) == pytest.approx(float(best))
    assert len(set(found.latent.tolist())) == 5


def test_the_sign_counts_and_missing_latents_are_not_found():
    source = Synthetic(QUICK)
    assert recovery(_sae(source.directions), source, 500).recovered == 1.0
    assert (
        recovery(_sae(3 * source.directions.flip(0)), source, 500).recovered == 1.0
    )  # any length, any order
    assert recovery(_sae(-source.directions), source, 500).recovered == 0.0
    half = recovery(_sae(source.directions[:64]), source, 500)
    assert half.recovered == 0.5
    assert (half.latent[64:] == -1).all()
    assert not half.f1[64:].any()
    assert not half.mcc[64:].any()


def test_firing_by_the_rival():
    rng = np.random.default_rng(0)
    on, called = rng.random((300, 8)) < 0.3, rng.random((300, 8)) < 0.4
    called[:, 0], on[:, 1], called[:, 2] = on[:, 0], False, False
    f1, mcc = firing(torch.from_numpy(called), torch.from_numpy(on))
    for i in range(8):
        assert f1[i] == pytest.approx(f1_score(on[:, i], called[:, i], zero_division=0.0))
        assert mcc[i] == pytest.approx(matthews_corrcoef(on[:, i], called[:, i]), abs=1e-12)


def test_what_counts_as_firing():
    """`above` is a length in the space of the activations: activation times decoder length."""
    source = Synthetic(replace(QUICK, features=24, active=1.0, superposed=False))
    sae = _sae(source.directions, k=24)
    long = replace(sae, W_dec=4 * sae.W_dec, W_enc=sae.W_enc / 4)
    for one in (sae, long):
        sure = recovery(one, source, 4000, above=0.05)
        assert sure.f1.mean() > 0.999
        assert sure.l0 == pytest.approx(sure.true_l0, rel=1e-3)
    assert recovery(sae, source, 4000).f1.mean() < 0.9  # rounding errors count, at zero


def test_a_dictionary_is_found_and_chance_finds_nothing():
    """The small version of the requirement; 512 features in 64 dimensions are below."""
    source = Synthetic(PlantedPlan(features=48, d=24, active=1.2))
    settings: dict[str, Any] = {"sparsity": 2.0, "lr": 1e-2, "batch": 256}
    sae = heedful.train_sae(source, 64, "relu", steps=500, **settings)
    found = recovery(sae, source, 4000)
    assert found.recovered >= 0.95
    x = source.draw(2000, 9)[0]
    by_chance = recovery(random_dictionary(sae, x), source, 4000)
    before = recovery(untrained(source, 64, "relu", **settings), source, 4000)
    assert max(by_chance.recovered, before.recovered) < 0.05
    # a random dictionary, matched, tells firing better than one would think: 0.45
    assert max(by_chance.mcc.mean(), before.mcc.mean()) < found.mcc.mean() - 0.15
    assert max(by_chance.explained, before.explained) < found.explained


@pytest.mark.slow
def test_95_percent_of_512_features_in_64_dimensions():
    """The requirement on the plain version; two minutes on one core."""
    source = Synthetic(PLAIN)
    sae = heedful.train_sae(source, 768, "topk", steps=3000, batch=1024, k=3, lr=3e-3)
    found = recovery(sae, source)
    assert found.recovered >= 0.95
    assert found.mcc.mean() > 0.7
    assert recovery(random_dictionary(sae, source.draw(2000, 9)[0]), source).recovered == 0.0
