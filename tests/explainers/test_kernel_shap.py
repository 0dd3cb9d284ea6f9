"""KernelSHAP against the shap package, the exact values of one-layer models, and its own promises."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import heedful
from heedful.core.errors import HeedfulError
from heedful.engine.question import run_explainer
from heedful.explainers.kernel_shap import estimate
from heedful.nn import OneLayerClassifier, OneLayerConfig
from heedful.stats import lime_limit, ratio_game
from heedful.stats.mask_sampling import Estimate, MaskPairs

TEXT = "the cat sat on the mat. hello world! don't stop, a dog ran to the low house"  # 20 words
SHORT = "the cat sat on the mat"
Function = Callable[[np.ndarray], np.ndarray]


class Heads:
    """A one-layer model over d words, as the mean of its heads' ratio games."""

    def __init__(self, d: int, sharpness: float, seed: int, heads: int = 3) -> None:
        rng = np.random.default_rng(seed)
        self.d, self.games = d, []
        for _ in range(heads):
            s, u, unknown = rng.standard_normal((3, d + 2))
            unknown_s, unknown_u = unknown[0] + 0.1 * unknown, unknown[1] + 0.1 * unknown[::-1]
            scores = (sharpness * s, sharpness * unknown_s)
            groups = [[j + 1] for j in range(d)]
            self.games.append(ratio_game.from_scores(scores, (u, unknown_u), groups))

    def __call__(self, keep: np.ndarray) -> np.ndarray:
        return np.mean([game(keep) for game in self.games], axis=0)

    def shapley(self) -> np.ndarray:
        return np.mean([ratio_game.shapley(game) for game in self.games], axis=0)


def ends(f: Function, d: int) -> tuple[float, float]:
    full, empty = f(np.repeat([[True], [False]], d, axis=1)).tolist()
    return full, empty


def sampled(f: Function, d: int, rows: int, seed: int) -> Estimate:
    pairs = MaskPairs(d, lime_limit.pair_share(d), seed)
    keep, drawn = pairs.first((rows - 2) // 2)
    return estimate(keep, f(keep), ends(f, d), drawn)


def one_layer(tokenizer: Any, sharpness: float = 1.0) -> Any:
    config = OneLayerConfig(len(tokenizer), heads=3, width=12, d_att=6, d_out=5, context=64, pad_id=3)
    module = OneLayerClassifier(config, 0).double()
    with torch.no_grad():
        module.query *= 10 * sharpness
        module.key *= 10
        module.readout *= 10
    return heedful.load(module, tokenizer=tokenizer)


@pytest.fixture(params=[1.0, 4.0], ids=["diffuse", "peaked"])
def model(request: pytest.FixtureRequest, tokenizer_of: Callable[[str], Any]) -> Any:
    return one_layer(tokenizer_of("wordpiece"), request.param)


def run(model: Any, name: str = "kernel-shap", text: str = TEXT, **params: Any) -> Any:
    x = model.encode(text)
    return run_explainer(name, model, x, model.target(x), **params)


def test_few_words_are_exact(model: Any) -> None:
    found, exact = run(model, text=SHORT, operator="unk"), run(model, "shapley-exact", SHORT)
    np.testing.assert_allclose(found.scores, exact.scores, atol=1e-10)
    np.testing.assert_array_equal(found.stderr, 0)
    assert found.base == pytest.approx(exact.base)
    cost = heedful.explain(model, SHORT, "kernel-shap")["kernel-shap"].cost
    assert cost.forwards == 2 ** len(found.x.units("word"))


@pytest.mark.parametrize("d", [2, 3, 5, 8])
def test_all_masks_give_the_shapley_value(d: int) -> None:
    f = Heads(d, 3.0, seed=d)
    found = sampled(f, d, 2**d, seed=0)
    np.testing.assert_allclose(found.values, f.shapley(), atol=1e-10)
    assert not found.stderr.any()


def test_shap_package_agrees(model: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its plots pull in a deprecated colour map
        import shap

        found = run(model, text=SHORT)
        d = len(found.x.units("word"))

        def f(rows: np.ndarray) -> np.ndarray:
            return np.asarray(model.values(found.x, found.target, rows > 0.5))

        oracle = shap.KernelExplainer(f, np.zeros((1, d)), silent=True)
        want = oracle.shap_values(np.ones((1, d)), nsamples=2**d, l1_reg=False, silent=True)[0]
    scores = [found.scores[group].sum() for group in found.x.units("word")]
    np.testing.assert_allclose(scores, want, atol=1e-8)  # shap solves normal equations


def test_the_sum_is_exact_when_sampled(model: Any) -> None:
    found, exact = run(model, operator="unk", samples=100, precision=0.0), run(model, "shapley-exact")
    assert found.scores.sum() == pytest.approx(found.output - found.base, abs=1e-10)
    assert (np.abs(found.scores - exact.scores) <= 5.5 * found.stderr).all()
    assert found.stderr.any()


@pytest.mark.parametrize("d", [5, 17, 40])
def test_linear_functions_are_recovered(d: int) -> None:
    slopes = np.random.default_rng(d).standard_normal(d)
    found = sampled(lambda z: 3 + z @ slopes, d, min(2**d, 4 * d + 20), seed=1)
    np.testing.assert_allclose(found.values, slopes, atol=1e-10)
    assert found.stderr.max() < 1e-10


def test_pairs_make_two_word_interactions_free() -> None:
    """Complementary pairs cancel interactions of even order: z_0 z_1 is shared half and half, exactly."""
    found = sampled(lambda z: (z[:, 0] & z[:, 1]).astype(float), 16, 90, seed=0)
    np.testing.assert_allclose(found.values, [0.5, 0.5] + [0] * 14, atol=1e-8)


def test_unused_words_get_nothing_and_twins_the_same() -> None:
    found = sampled(lambda z: 1.0 * (z[:, 0] | z[:, 1]) * z[:, 2], 8, 256, seed=0)
    np.testing.assert_allclose(found.values[3:], 0, atol=1e-10)
    assert found.values[0] == pytest.approx(found.values[1])


def test_precision_samples_budget_and_seed(model: Any) -> None:
    loose, tight = run(model, precision=0.5), run(model, precision=0.01, samples=400)
    assert np.linalg.norm(loose.stderr) > np.linalg.norm(tight.stderr)
    cost = heedful.explain(model, TEXT, "kernel-shap", budget=90)["kernel-shap"].cost
    assert cost.unique <= 90
    np.testing.assert_array_equal(run(model, seed=4).scores, run(model, seed=4).scores)
    assert (run(model, seed=4).scores != run(model, seed=5).scores).any()
    with pytest.raises(HeedfulError, match="at least 50 model inputs"):
        run(model, samples=20)


@pytest.mark.parametrize("text", ["cat", "cat sat"])
def test_short_texts(model: Any, text: str) -> None:
    found = run(model, text=text)
    assert found.scores.sum() == pytest.approx(found.output - found.base, abs=1e-10)
