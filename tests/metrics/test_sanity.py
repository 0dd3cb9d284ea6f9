"""Random weights and random labels: methods that follow the model move, those that do not are seen."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

import heedful
from heedful import checks
from heedful.checks.module_state import changes, noticed
from heedful.core import registry
from heedful.core.attribution import Attribution
from heedful.engine.question import run_explainer
from heedful.metrics import sanity as s
from heedful.metrics.metric_input import MetricInput
from heedful.metrics.score import score_explanations

TEXT = "the cat sat on the low mat. hello world!"
LONG = "the film is not bad at all, but the ending was a great disappointment and the music far too loud"


def subject_of(model: Any, method: str, text: str = TEXT) -> MetricInput:
    entry = registry.get(method)
    x = model.encode(text)
    return MetricInput(
        model,
        run_explainer(entry, model, x, model.target(x)),
        lambda m, y, t, seed: run_explainer(entry, m, y, t),
    )


def of_the_text(model: Any, x: Any, target: Any, seed: int) -> Attribution:
    """A method that never looks at the model: word length."""
    return Attribution(
        x, target, np.array([float(len(token)) + 0.01 * i for i, token in enumerate(x.tokens)])
    )


def test_layers_by_name(shared: Any) -> None:
    names = list(s.layers_of(shared("bert").hf))
    assert names == [
        "bert.embeddings",
        "bert.encoder.layer.0",
        "bert.encoder.layer.1",
        "bert.pooler",
        "classifier",
    ]
    assert list(s.layers_of(shared("gpt2").hf)) == [
        "transformer.wte",
        "transformer.wpe",
        "transformer.h.0",
        "transformer.h.1",
        "transformer.ln_f",
    ]
    model = heedful.load("zoo:one-layer")
    assert list(s.layers_of(model.module)) == ["token", "query", "key", "value", "readout"]  # type: ignore[arg-type]
    t5 = list(s.layers_of(shared("t5").hf))
    assert t5.index("encoder.block.0") < t5.index("encoder.block.1") < t5.index("decoder.block.0")
    layers = s.layers_of(shared("bert").hf)
    assert sum(len(tensors) for tensors in layers.values()) == len(list(shared("bert").hf.parameters()))


def test_weights_are_drawn_with_their_own_mean_and_spread() -> None:
    layer = nn.Linear(200, 300)
    with torch.no_grad():
        layer.weight.mul_(7).add_(3)
        layer.bias.fill_(2.0)
    before = layer.weight.detach().clone()
    s.randomise([layer.weight, layer.bias], torch.Generator().manual_seed(0))
    assert layer.weight.mean().item() == pytest.approx(before.mean().item(), abs=0.02)
    assert layer.weight.std().item() == pytest.approx(before.std().item(), rel=0.02)
    assert abs(np.corrcoef(before.flatten(), layer.weight.detach().flatten())[0, 1]) < 0.02
    assert stats.kurtosis(layer.weight.detach().flatten()) == pytest.approx(0, abs=0.1), "normal, not uniform"
    assert (layer.bias == 2.0).all(), "what never varied stays"


@pytest.mark.parametrize("mode", s.MODES)
def test_the_curve_goes_from_the_top_down_and_leaves_the_model_alone(mode: str, shared: Any) -> None:
    model = shared("bert").model
    before = noticed(model.module)
    curve = s.randomisation_curve(subject_of(model, "grad-x-input"), mode)
    assert not changes(before, noticed(model.module))
    assert [stage.name for stage in curve] == [
        "classifier",
        "bert.pooler",
        "bert.encoder.layer.1",
        "bert.encoder.layer.0",
        "bert.embeddings",
    ]
    assert curve == s.randomisation_curve(subject_of(model, "grad-x-input"), mode)
    assert curve != s.randomisation_curve(subject_of(model, "grad-x-input"), mode, seed=1)


def test_cascading_adds_up_and_independent_does_not(shared: Any) -> None:
    """What is random at each stage, seen by a method that counts the weights that are not as they were."""
    model = shared("bert").model
    trained = {name: p.detach().clone() for name, p in model.module.named_parameters()}
    seen: list[set[str]] = []

    def again(m: Any, x: Any, target: Any, seed: int) -> Attribution:
        random = {n for n, p in m.module.named_parameters() if not torch.equal(p, trained[n])}
        seen.append({name.split(".weight")[0] for name in random if name.endswith("weight")})
        return of_the_text(m, x, target, seed)

    subject = replace(subject_of(model, "grad-x-input"), again=again)
    for mode in s.MODES:
        s.randomisation_curve(subject, mode)
    cascade, alone = seen[:5], seen[5:]
    assert all(a < b for a, b in pairwise(cascade))
    assert cascade[0] == alone[0] == {"classifier"}
    assert not any(a & b for i, a in enumerate(alone) for b in alone[:i])
    assert set.union(*alone) == cascade[-1]


def test_long_stacks_are_looked_at_in_places(shared: Any) -> None:
    subject = subject_of(shared("bert").model, "grad-x-input")
    every = s.randomisation_curve(subject, most=None)
    few = s.randomisation_curve(subject, most=3)
    assert few == (every[0], every[2], every[4]), "the same weights, fewer looks"


def test_an_unknown_mode_is_told(shared: Any) -> None:
    with pytest.raises(heedful.HeedfulError, match="unknown mode 'sideways'"):
        s.randomisation_curve(subject_of(shared("bert").model, "grad-x-input"), "sideways")


def test_correlations_by_hand() -> None:
    scores, others = np.array([1.0, -2.0, 3.0, -4.0]), np.array([1.0, 2.0, 3.0, 4.0])
    found = s.compared("top", scores, others)
    assert found.size == pytest.approx(1.0)
    assert found.signed == pytest.approx(stats.spearmanr(scores, others).statistic) == pytest.approx(-0.4)
    assert s.correlation(np.ones(4), others) == 0.0


def test_a_method_of_the_text_alone_is_found_out() -> None:
    model = heedful.load("zoo:sentiment")
    real = subject_of(model, "grad-x-input", LONG)
    stuck = MetricInput(model, of_the_text(model, real.item.x, real.item.target, 0), of_the_text)
    values = [s.sanity(subject, np.random.default_rng(0)) for subject in (real, stuck)]
    assert values[1] == pytest.approx(1.0)
    assert values[0] < 0.8
    last = s.randomisation_curve(real)[-1]
    assert abs(last.size) < 0.6, "all weights random: chance, 0.2 on the mean, is left"


def test_the_value_is_the_mean_size_of_the_correlations(shared: Any) -> None:
    subject = subject_of(shared("bert").model, "grad-x-input")
    rng = np.random.default_rng(4)
    curve = s.randomisation_curve(subject, seed=int(np.random.default_rng(4).integers(2**31)))
    assert s.sanity(subject, rng) == pytest.approx(np.mean([abs(stage.size) for stage in curve]))
    assert any(stage.size < 0 for stage in curve) or any(stage.signed < 0 for stage in curve)


def test_nothing_is_said_of_two_words_or_functions(shared: Any) -> None:
    rng = np.random.default_rng(0)
    assert np.isnan(s.sanity(subject_of(shared("bert").model, "grad-x-input", "cat sat"), rng))
    function = heedful.load(lambda texts: [float(len(text)) for text in texts])
    assert np.isnan(s.sanity(subject_of(function, "occlusion"), rng))


def test_beside_its_control(shared: Any) -> None:
    model = shared("bert").model
    item = subject_of(model, "grad-x-input", " ".join([TEXT, "don't stop, a dog ran to the low house"])).item
    (score,) = score_explanations(model, [item], ["sanity"])
    words = len(item.x.units("word"))
    chance = np.sqrt(2 / np.pi / (words - 1))  # mean |Spearman| of unrelated orders
    assert score.control == pytest.approx(chance, abs=0.07)


@pytest.mark.filterwarnings("ignore")
def test_the_correlation_is_quantus() -> None:
    quantus = pytest.importorskip("quantus")
    a, b = np.random.default_rng(0).normal(size=(2, 12))
    assert s.correlation(a, b) == pytest.approx(quantus.similarity_func.correlation_spearman(a, b))


# --- labels ------------------------------------------------------------------------------------------------

FILLER = (
    "we",
    "saw",
    "this",
    "in",
    "the",
    "old",
    "hall",
    "with",
    "many",
    "other",
    "people",
    "on",
    "long",
    "day",
)


@cache
def reviews(count: int = 60) -> tuple[list[str], list[int]]:
    """Seven words that say nothing, and one that says it all."""
    rng = np.random.default_rng(0)
    texts, labels = [], []
    for i in range(count):
        words = rng.choice(FILLER, 7).tolist()
        words.insert(int(rng.integers(8)), ("awful", "superb")[i % 2])
        texts.append(" ".join(words))
        labels.append(i % 2)
    return texts, labels


def test_a_small_classifier_learns_what_it_is_told() -> None:
    texts, labels = reviews()
    model = s.one_layer_fit(texts, labels)
    said = [model.target(model.encode(text)).index for text in texts]
    assert said == labels
    found = run_explainer("occlusion", model, model.encode(texts[0]), model.target(model.encode(texts[0])))
    assert found.top(1)[0].text in ("awful", "superb")


def test_labels_at_random_move_methods_that_see_the_model_and_no_others() -> None:
    texts, labels = reviews()
    fitted = cache(lambda key, seed: s.one_layer_fit(texts, key, seed))

    def fit(texts: Any, labels: Any, seed: int) -> Any:
        return fitted(tuple(labels), seed)

    gradient = s.label_randomisation(fit, texts, labels, "grad-x-input", texts[:20])
    stuck = s.label_randomisation(fit, texts, labels, of_the_text, texts[:20])
    assert stuck.value == pytest.approx(1.0)
    assert gradient.value < 0.6
    assert gradient.fitted[0] == 1.0
    assert gradient.fitted[1] > 0.7, "learnt by heart"
    assert len(gradient.stages) == 20
    assert fitted.cache_info().misses == 2, "two trainings, with other labels"


def test_shuffled_labels_are_the_labels_in_another_order() -> None:
    seen: list[list[int]] = []
    model = checks.linear_model()

    def fit(texts: Any, labels: Any, seed: int) -> Any:
        seen.append(list(labels))
        return model

    labels = [0, 1] * 10
    s.label_randomisation(fit, ["cat mat sat"] * 20, labels, "grad-x-input")
    assert seen[0] == labels
    assert seen[1] != labels
    assert sorted(seen[1]) == sorted(labels)
