"""The exact explainers against autograd and against every subset of the words run through the model."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from math import comb
from typing import Any

import numpy as np
import pytest
import torch

import heedful
from heedful.core.errors import HeedfulError
from heedful.engine.question import run_explainer
from heedful.explainers.exact_one_layer import gradient
from heedful.modalities.text_windows import select
from heedful.nn import OneLayerClassifier, OneLayerConfig
from heedful.stats.lime_limit import row_weights

EXACT = 1e-10
TEXT = "the cat sat on the mat. hello"  # 8 words, "the" twice at its own places


def one_layer(tokenizer: Any, sharpness: float = 1.0, seed: int = 0, **more: Any) -> Any:
    """A random float64 model behind the door; sharpness multiplies the attention scores."""
    sizes = {"heads": 3, "width": 12, "d_att": 6, "d_out": 5, "context": 64, "classes": 3, "pad_id": 3}
    config = OneLayerConfig(vocab_size=len(tokenizer), **(sizes | more))
    module = OneLayerClassifier(config, seed).double()
    with torch.no_grad():
        module.query *= 10 * sharpness
        module.key *= 10
        module.readout *= 10
    return heedful.load(module, tokenizer=tokenizer)


@pytest.fixture(params=[1.0, 8.0], ids=["diffuse", "peaked"])
def model(request: pytest.FixtureRequest, tokenizer_of: Callable[[str], Any]) -> Any:
    return one_layer(tokenizer_of("wordpiece"), request.param)


def run(model: Any, name: str, text: str = TEXT, target: Any = None, **params: Any) -> Any:
    x = model.encode(text)
    return run_explainer(name, model, x, model.target(x, target), **params)


def subsets(model: Any, found: Any, unit: str) -> tuple[np.ndarray, np.ndarray]:
    d = len(found.x.units(unit))
    keep = np.array(list(product([False, True], repeat=d)))
    return keep, model.values(found.x, found.target, keep, "unk", unit)


def by_unit(found: Any, unit: str) -> np.ndarray:
    return np.array([found.scores[group].sum() for group in found.x.units(unit)])


@pytest.mark.parametrize("unit", ["word", "token"])
@pytest.mark.parametrize("bandwidth", [0.1, 0.25, 1.0, np.inf])
def test_lime_against_every_subset(model: Any, bandwidth: float, unit: str) -> None:
    found = run(model, "lime-exact", bandwidth=bandwidth, unit=unit)
    keep, values = subsets(model, found, unit)
    d = keep.shape[1]
    chance = np.array([0.0 if k == d else 1 / comb(d, k) for k in keep.sum(1).tolist()])
    root = np.sqrt(chance * row_weights(keep, bandwidth))[:, None]
    design = np.column_stack([np.ones(len(keep)), keep])
    want = np.linalg.lstsq(design * root, values * root[:, 0], rcond=None)[0][1:]
    np.testing.assert_allclose(by_unit(found, unit), want, atol=EXACT)
    assert found.output == pytest.approx(values[-1], abs=EXACT)
    assert found.base == pytest.approx(values[0], abs=EXACT)
    assert found.params["operator"] == "unk"
    assert found.stderr is None


def test_shapley_against_every_subset(model: Any) -> None:
    found = run(model, "shapley-exact")
    keep, values = subsets(model, found, "word")
    d = keep.shape[1]
    want = np.zeros(d)
    for j in range(d):
        without = np.flatnonzero(~keep[:, j])  # in counting order, adding word j adds 2^(d-1-j)
        share = np.array([1 / (d * comb(d - 1, k)) for k in keep[without].sum(1).tolist()])
        want[j] = share @ (values[without + 2 ** (d - 1 - j)] - values[without])
    np.testing.assert_allclose(by_unit(found, "word"), want, atol=EXACT)
    assert found.scores.sum() == pytest.approx(found.output - found.base, abs=EXACT)


@pytest.mark.parametrize("target", [1, {"label": 0, "contrast": 2}])
def test_gradient_against_autograd(model: Any, target: Any) -> None:
    x = model.encode(TEXT)
    wanted = model.target(x, target)
    trace = model.trace(x, wanted)
    grad, output = gradient(model.backend.module, wanted, trace.embeds)
    torch.testing.assert_close(grad, trace.grad_embeds, atol=1e-12, rtol=0)  # row 0 is CLS
    assert output == pytest.approx(trace.output, abs=1e-12)
    assert grad[0].abs().max() > 1e-4
    for reduce, twin in {"x-input": "grad-x-input", "avg": "grad-avg"}.items():
        found, want = (
            run(model, "gradient-exact", target=target, reduce=reduce),
            run(model, twin, target=target),
        )
        np.testing.assert_allclose(found.scores, want.scores, atol=1e-12)


def test_gradient_times_input_misses_completeness_by_two_attention_covariances(model: Any) -> None:
    """sum_t <df/de_t, e_t> = f + 2 Cov_alpha(score, u): query and key paths, mean over heads."""
    found = run(model, "gradient-exact")
    module = model.backend.module
    e = module.embed(torch.tensor([found.x.ids]))[0].detach()
    gap = torch.zeros((), dtype=torch.float64)
    for i in range(module.config.heads):
        score = e @ module.key[i].T @ (module.query[i] @ e[0]) / module.config.d_att**0.5
        u, alpha = e @ module.value[i].T @ module.readout[i, found.target.index], score.softmax(-1)
        gap += (alpha * score * u).sum() - (alpha * score).sum() * (alpha * u).sum()
    assert found.scores.sum() == pytest.approx(found.output + 2 * gap.item() / module.config.heads, abs=EXACT)


@pytest.mark.parametrize("name", ["lime-exact", "shapley-exact", "gradient-exact"])
def test_a_contrast_is_a_difference(model: Any, name: str) -> None:
    a, b = run(model, name, target=0), run(model, name, target=2)
    both = run(model, name, target={"label": 0, "contrast": 2})
    np.testing.assert_allclose(both.scores, a.scores - b.scores, atol=EXACT)
    assert both.output == pytest.approx(a.output - b.output)


def test_single_precision_models_are_explained_in_double(tokenizer_of: Callable[[str], Any]) -> None:
    model = one_layer(tokenizer_of("wordpiece"))
    want = run(model, "shapley-exact").scores
    model.backend.module.float()
    found = run(model, "shapley-exact")
    np.testing.assert_allclose(found.scores, want, atol=1e-5)  # float32 weights
    assert found.scores.sum() == pytest.approx(found.output - found.base, abs=EXACT)
    assert model.backend.module.query.dtype == torch.float32


@pytest.mark.parametrize("name", ["lime-exact", "shapley-exact", "gradient-exact"])
def test_one_word_and_no_word(model: Any, name: str) -> None:
    one = run(model, name, "cat")
    special = select(one.x, [0, len(one.x) - 1])
    none = run_explainer(name, model, special, one.target)
    assert np.isfinite(one.scores).all()
    assert np.isfinite(none.scores).all()
    if name != "gradient-exact":
        assert one.scores.sum() == pytest.approx(one.output - one.base, abs=EXACT)
        assert not none.scores.any()


def test_no_row_is_run(model: Any) -> None:
    found = heedful.explain(model, TEXT, ["lime-exact", "shapley-exact", "gradient-exact"])
    for name in ("lime-exact", "shapley-exact", "gradient-exact"):
        assert found[name].cost.forwards == 0


def test_offered_to_the_textbook_model_only(shared: Any, tokenizer_of: Callable[[str], Any]) -> None:
    tokenizer = tokenizer_of("wordpiece")
    model = one_layer(tokenizer)
    assert "one-layer" in model.capabilities
    module = model.backend.module

    def twice(embeds: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return 2 * module(inputs_embeds=embeds, attention_mask=mask)

    assert "one-layer" not in heedful.load(module, tokenizer=tokenizer, forward=twice).capabilities
    assert "one-layer" not in shared("bert").model.capabilities
    with pytest.raises(HeedfulError, match="single layer of attention"):
        heedful.explain(shared("bert").model, TEXT, "lime-exact")


def test_a_word_that_asks_the_question_is_refused(tokenizer_of: Callable[[str], Any]) -> None:
    model = one_layer(tokenizer_of("unigram"))  # no [CLS] in front
    with pytest.raises(HeedfulError, match="reads its answer at the first token"):
        run(model, "shapley-exact")


def test_bad_parameters(model: Any) -> None:
    with pytest.raises(HeedfulError, match="reduction"):
        run(model, "gradient-exact", reduce="l3")
    with pytest.raises(HeedfulError, match="bandwidth"):
        run(model, "lime-exact", bandwidth=-1.0)
