"""Correlations against numpy, exact ends of the scale, and controls that mean nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from heedful.core.errors import HeedfulError
from heedful.features.activations.eval_windows import corpus, rows_at
from heedful.features.measures.universality import ModelSAE, Sums, compare, likeness
from heedful.features.sae.autoencoder import SAE
from heedful.features.sae.config import Config

SITE = "blocks.1.resid"
TEXTS = [
    "the cat sat on the mat.",
    "hello world! don't stop",
    "a dog ran to the low house",
    "not bad at all",
] * 4


def sae(seed: int = 0, width: int = 24, d: int = 32) -> SAE:
    dec = torch.randn(width, d, generator=torch.Generator().manual_seed(seed))
    return SAE(Config("relu", d, width), dec.T.contiguous(), torch.zeros(width), dec, torch.zeros(d))


def permuted(one: SAE, order: torch.Tensor, scale: float = 1.0) -> SAE:
    """The same features in another order and of other lengths."""
    return replace(
        one, W_enc=scale * one.W_enc[:, order], b_enc=scale * one.b_enc[order], W_dec=one.W_dec[order]
    )


def test_correlations_by_numpy_batch_by_batch():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(60, 5)) + 3, rng.normal(size=(60, 4))
    b[:, 0] = -2 * a[:, 1]
    sums = Sums()
    for part in range(0, 60, 20):
        sums.add(torch.from_numpy(a[part : part + 20]), torch.from_numpy(b[part : part + 20]))
    found = sums.correlations()
    assert np.allclose(found, np.corrcoef(a.T, b.T)[:5, 5:], atol=1e-12)
    best = likeness(found)
    assert best.best[1] == pytest.approx(np.delete(np.corrcoef(a.T, b.T)[1, 5:], 0).max())  # -1 is not alike


def test_what_never_varies_is_left_out():
    a = torch.tensor([[0.0, 1.0, 2.0], [0.0, 1.0, 1.0], [0.0, 1.0, 5.0]])
    sums = Sums()
    sums.add(a, a)
    found = likeness(sums.correlations())
    assert np.isnan(found.best[:2]).all()
    assert found.best[2] == pytest.approx(1.0)
    assert found.partner.tolist() == [-1, -1, 2]
    assert found.silent == 2
    assert found.median(0).value == pytest.approx(1.0)


def at(some: SAE, model: Any, site: str = SITE) -> ModelSAE:
    return ModelSAE(some, model, site)


def test_the_same_features_in_another_order_are_all_found(shared: Callable[[str], Any]):
    model = shared("gpt2").model
    one, order = sae(), torch.randperm(24, generator=torch.Generator().manual_seed(3))
    found = compare(at(one, model), at(permuted(one, order, 5.0), model), TEXTS)
    assert found.figures["features"].value == pytest.approx(1.0)
    heard = found.features.partner >= 0
    assert (order[found.features.partner[heard]].numpy() == np.arange(24)[heard]).all()
    for control in ("shuffled", "random", "neurons"):
        assert found.figures[control].value < 0.95
    assert found.figures["shuffled"].value < found.figures["random"].value
    json.dumps(found.to_dict(), allow_nan=False)


def test_by_hand_on_a_model(shared: Callable[[str], Any]):
    model, a, b = shared("gpt2").model, sae(0), sae(1, 40)
    found = compare(
        at(a, model), at(b, model, "blocks.0.resid"), TEXTS, neurons=("blocks.0.mlp", "blocks.1.mlp")
    )
    names = [SITE, "blocks.0.resid", "blocks.0.mlp", "blocks.1.mlp"]
    x, y, m, n = (
        torch.cat(parts) for parts in zip(*rows_at(model, corpus(model, TEXTS), names), strict=True)
    )

    def median(u: torch.Tensor, v: torch.Tensor) -> float:
        u, v = u[:, u.std(0) > 0].double(), v[:, v.std(0) > 0].double()
        return float(np.median(np.corrcoef(u.T, v.T)[: u.shape[1], u.shape[1] :].max(1)))

    assert found.figures["features"].value == pytest.approx(median(a.encode(x), b.encode(y)), abs=1e-6)
    assert found.figures["back"].value == pytest.approx(median(b.encode(y), a.encode(x)), abs=1e-6)
    assert found.figures["neurons"].value == pytest.approx(median(m, n), abs=1e-6)
    assert found.about["neurons"] == ["blocks.0.mlp", "blocks.1.mlp"]
    assert found.figures["features"].low <= found.figures["features"].value <= found.figures["features"].high


def test_neurons_are_not_compared_with_themselves(shared: Callable[[str], Any]):
    """One model and one site: the neurons of the block beside."""
    model = shared("gpt2").model
    found = compare(at(sae(), model), at(sae(1), model), TEXTS)
    assert found.about["neurons"] == ["blocks.1.neurons", "blocks.0.neurons"]
    assert found.figures["neurons"].value < 0.99


def test_two_models(shared: Callable[[str], Any], fresh: Callable[[str], Any]):
    one, two = shared("gpt2").model, fresh("gpt2")
    with torch.no_grad():
        for p in two.hf.parameters():
            p.add_(0.05 * torch.randn(p.shape, generator=torch.Generator().manual_seed(1)))
    found = compare(at(sae(), one), at(sae(), two.model), TEXTS)
    assert found.about["neurons"] == ["blocks.1.neurons", "blocks.1.neurons"]
    assert 0.2 < found.figures["features"].value < 0.999
    with pytest.raises(HeedfulError, match="different tokens"):
        compare(at(sae(), one), at(sae(), shared("llama").model), TEXTS)
