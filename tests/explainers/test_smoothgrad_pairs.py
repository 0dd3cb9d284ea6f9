"""SmoothGrad's standard errors come from antithetic pairs: a point pushed both ways by the same noise."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from scipy import stats

from heedful.engine.question import run_explainer


def test_pairs_are_the_same_noise_both_ways(shared: Any, text: str) -> None:
    model = shared("bert").model
    x = model.encode(text)
    target = model.target(x)
    found = run_explainer("smoothgrad", model, x, target, samples=8, noise=0.3, seed=5)
    embeds = model.lookup(x, target)
    scale = 0.3 * float(embeds.max() - embeds.min())
    noise = torch.randn(4, *embeds.shape, generator=torch.Generator().manual_seed(5)) * scale
    pairs = []
    for push in noise:  # one pair at a time
        _, grads = model.gradients(x, target, torch.stack([embeds + push, embeds - push]))
        pairs.append((grads.double() * embeds.double()).sum(-1).mean(0).numpy())
    wanted = np.std(pairs, axis=0, ddof=1) / np.sqrt(4) * stats.t.ppf(0.975, 3) / 1.96
    size = np.abs(pairs).max()
    # the model is float32 and the batches differ: a few hundred roundings of the largest score
    np.testing.assert_allclose(found.scores, np.mean(pairs, axis=0), rtol=0, atol=3e-5 * size)
    np.testing.assert_allclose(found.stderr, wanted, rtol=0, atol=3e-5 * size)
