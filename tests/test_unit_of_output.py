"""The unit of the output does not matter: f times c gives scores and errors times c, f plus s the same ones.

    times c     to 1e-9 for any c (an operation rounds at 2e-16, and fits and sums lose some digits), to the
                bit for powers of two, which round nothing
    plus s      f + s is itself rounded to eps |s|, so scores may differ by ROUNDINGS such steps, no more: the
                weights by which values of f enter a score sum to less than that

Every registered explainer on every model here that has what it needs, every registered metric. What does
scale otherwise, by definition, is named, and is shown to do so.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from functools import cache, partial
from typing import Any

import numpy as np
import pytest
import torch

import heedful
from heedful.checks import known_models as known
from heedful.checks.conventions import CHEAP_PARAMS
from heedful.checks.metrics import TEXT as LONGER
from heedful.checks.metrics import Bench
from heedful.core import registry
from heedful.core.attribution import Attribution
from heedful.core.model import Model
from heedful.engine.question import run_explainer
from heedful.explainers import lime as limes
from heedful.metrics.score import score_explanations
from heedful.nn.one_layer import OneLayerClassifier

CLOSE, ROUNDINGS = 1e-9, 32
EPS = float(np.finfo(float).eps)
POWER, OTHERS = 2.0**20, (1e-12, 1e10)  # in the quick suite
MORE = (1e-9, 1e-3, 2.0**-20, 2.0**-40, 2.0**33, 1e6, 1e12)
SHIFTS = (1e6, -1e3)  # of |f(x)|; the first in the quick suite
# what has no unit: ranks, shares of attention, the words of a rule, noise
WITHOUT_UNIT = {
    *("anchors", "random", "search", "value-zeroing"),
    *("attention-avg", "attention-flow", "attention-max", "attention-optimus", "attention-rollout"),
}
# R - I = sum of layers + products of two + ...: each layer has the unit of f, and so a sum of its powers
POWERS_OF_UNIT = {"chefer", "chefer-lrp"}
TEXTS = {  # 12 words and more: not all masks are run
    "stack": "the cat sat on the mat on cat the sat mat cat",
    "shallow": "cat the sat mat on the",
    "reader": "mat cat the sat on the mat cat on sat the mat",
    "textbook": known.TEXT,
    "game": " ".join(f"w{j}" for j in range(14)),
    "vote": " ".join(f"w{j}" for j in range(10)),
    "long game": " ".join(f"w{j}" for j in range(50)),
}


def stack(scale: float, shift: float, layers: int = 2) -> Model:
    """A BERT whose last layer is scaled and shifted: its logits are, and nothing else."""
    source: Any = known.stack_model()
    module = deepcopy(source.module)
    module.bert.encoder.layer = module.bert.encoder.layer[:layers]
    module.config.num_hidden_layers = layers
    _changed(module.classifier, scale, shift)
    return heedful.load((module, source.backend.tokenizer))


def reader(scale: float, shift: float) -> Model:
    source: Any = known.reader_model()
    module = deepcopy(source.module)
    _changed(module.out, scale, shift)
    return heedful.load(module, tokenizer=source.backend.tokenizer, labels=known.LABELS)


@torch.no_grad()
def _changed(last: Any, scale: float, shift: float) -> None:
    last.weight.mul_(scale)
    last.bias.mul_(scale).add_(shift)


def textbook(scale: float, shift: float) -> Model:
    """One layer of attention. It has no bias; what its softmax averages may have one: a coordinate that is 1
    for every token, that no query or key reads, and that every head reads out as `shift`."""
    source: Any = known.textbook_model()
    module: OneLayerClassifier = deepcopy(source.module)
    with torch.no_grad():
        module.token.weight[:, -1], module.position[:, -1] = 1.0, 0.0
        module.query[..., -1], module.key[..., -1], module.value[..., -1] = 0.0, 0.0, 0.0
        module.value[:, -1, :], module.value[:, -1, -1] = 0.0, 1.0
        module.readout.mul_(scale)
        module.readout[:, :, -1] = shift
    return heedful.load(
        module,
        tokenizer=source.backend.tokenizer,
        labels=known.LABELS,
        forward=lambda embeds, mask: module.attend(inputs_embeds=embeds, attention_mask=mask),
    )


def game(scale: float, shift: float, words: int = 14, seed: int = 5) -> Model:
    """A function of which words are there, with interactions of every order."""
    rng = np.random.default_rng(seed)
    into, out = rng.standard_normal((words, 20)) / np.sqrt(words), rng.standard_normal(20)
    place = {f"w{j}": j for j in range(words)}

    def f(texts: list[str]) -> Any:
        there = np.zeros((len(texts), words))
        for row, text in zip(there, texts, strict=True):
            row[[place[word] for word in text.split() if word in place]] = 1.0
        values = np.array(
            [np.tanh(3 * row @ into) @ out for row in there]
        )  # row by row: the same in any batch
        return scale * values + shift

    return heedful.load(f)


def vote(scale: float, shift: float) -> Model:
    """Two scores of opposite sign: words vote, and a few of them are needed for a majority."""
    weights = {f"w{j}": 1.0 + j * j / 8 for j in range(10)}

    def f(texts: list[str]) -> Any:
        lead = np.array([sum(weights.get(word, 0.0) for word in text.split()) for text in texts])
        lead = lead - 0.6 * sum(weights.values())
        return np.column_stack([scale * lead + shift, -scale * lead + shift])

    return heedful.load(f)


MODELS: dict[str, Callable[[float, float], Model]] = {  # the quickest first
    "game": cache(game),
    "vote": cache(vote),
    "reader": cache(reader),
    "textbook": cache(textbook),
    "shallow": cache(partial(stack, layers=1)),
    "stack": cache(stack),
    "long game": cache(partial(game, words=50, seed=6)),
}
PLAIN = {name: make(1.0, 0.0) for name, make in MODELS.items()}
CASES = [
    (name, kind)
    for name, entry in registry.explainers().items()
    for kind, model in PLAIN.items()
    if not model.lacks(entry.needs) and not (name == "anchors" and len(model.labels) < 2)
]
FIRST = dict(reversed(CASES))
QUICK = [
    *FIRST.items(),
    *(("chefer", "stack"), ("chefer-lrp", "stack"), ("search", "stack")),
    *(("lime", "long game"), ("kernel-shap", "long game")),
]
REST = [case for case in CASES if case not in QUICK]


def explained(name: str, kind: str, scale: float = 1.0, shift: float = 0.0, **params: Any) -> Attribution:
    model, entry = MODELS[kind](scale, shift), registry.get(name)
    plain = PLAIN[kind]
    x = plain.encode(TEXTS[kind])
    given = {"samples": CHEAP_PARAMS["samples"], **params} if name == "anchors" else params
    return run_explainer(entry, model, x, plain.target(x), **given)


@cache
def unchanged(name: str, kind: str) -> Attribution:
    return explained(name, kind)


def output(kind: str) -> float:
    x = PLAIN[kind].encode(TEXTS[kind])
    whole = np.ones((1, len(x.units("word"))), dtype=bool)
    return float(PLAIN[kind].values(x, PLAIN[kind].target(x), whole)[0])


def scales(found: Attribution, plain: Attribution, factor: float, exact: bool) -> None:
    pairs = [(found.scores, plain.scores)]
    assert (found.stderr is None) == (plain.stderr is None)
    if found.stderr is not None and plain.stderr is not None:
        pairs.append((found.stderr, plain.stderr))
    for own, wanted in pairs:
        if exact:
            np.testing.assert_array_equal(own, factor * wanted)
        else:
            size = factor * np.abs(wanted).max(initial=0.0)
            np.testing.assert_allclose(own, factor * wanted, rtol=0, atol=CLOSE * size)


@pytest.mark.parametrize(("name", "kind"), QUICK)
def test_explanations_scale(name: str, kind: str) -> None:
    check_scales(name, kind, (POWER, *OTHERS))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "kind"), CASES)
def test_explanations_scale_by_more(name: str, kind: str) -> None:
    check_scales(name, kind, (POWER, *OTHERS, *MORE) if (name, kind) in REST else MORE)


def check_scales(name: str, kind: str, factors: tuple[float, ...]) -> None:
    plain = unchanged(name, kind)
    for factor in factors:
        found, exact = explained(name, kind, factor), float(np.log2(factor)).is_integer()
        if name in POWERS_OF_UNIT and kind == "stack":
            off = np.abs(found.scores / factor - plain.scores).max() / plain.scores.max()
            same = np.abs(found.scores - plain.scores).max() / plain.scores.max()
            assert min(off, same) > 1e-6, f"{name} scales after all: take it off the list"
            continue
        scales(found, plain, 1.0 if name in WITHOUT_UNIT else factor, exact)
        if name not in WITHOUT_UNIT and plain.scores.any():
            assert np.abs(found.scores / factor).max() > 0


@pytest.mark.parametrize(("name", "kind"), QUICK)
def test_explanations_bear_shifts(name: str, kind: str) -> None:
    check_shifts(name, kind, SHIFTS[:1])


@pytest.mark.slow
@pytest.mark.parametrize(("name", "kind"), CASES)
def test_explanations_bear_more_shifts(name: str, kind: str) -> None:
    check_shifts(name, kind, SHIFTS)


def check_shifts(name: str, kind: str, shares: tuple[float, ...]) -> None:
    reads_embeddings = not registry.get(name).needs & {"values", "one-layer"} or name == "gradient-exact"
    if kind == "textbook" and reads_embeddings:
        pytest.skip("its constant is a coordinate of the embeddings, of which gradients have their share")
    plain, size = unchanged(name, kind), abs(output(kind))
    for share in shares:
        shift = share * size
        found, step = explained(name, kind, 1.0, shift), ROUNDINGS * EPS * abs(shift)
        if name in WITHOUT_UNIT:
            step = 0.0
        np.testing.assert_allclose(found.scores, plain.scores, rtol=0, atol=step)
        if plain.stderr is not None:
            np.testing.assert_allclose(found.stderr, plain.stderr, rtol=0, atol=step)
        if np.isfinite(plain.output):  # of some methods it is not known
            assert found.output == pytest.approx(plain.output + shift, rel=1e-12)


@pytest.mark.parametrize(("name", "kind"), FIRST.items())
def test_no_case_is_idle(name: str, kind: str) -> None:
    assert np.ptp(unchanged(name, kind).scores) > 0


@pytest.mark.parametrize("features", [3, 8])
def test_published_lime_scales_too(features: int) -> None:
    plain = explained("lime", "game", variant="published", samples=300, features=features)
    for factor in (POWER, *OTHERS):
        found = explained("lime", "game", factor, variant="published", samples=300, features=features)
        scales(found, plain, factor, factor == POWER)
    shift = 1e6 * abs(output("game"))
    found = explained("lime", "game", 1.0, shift, variant="published", samples=300, features=features)
    np.testing.assert_allclose(found.scores, plain.scores, rtol=0, atol=ROUNDINGS * EPS * shift)


@pytest.mark.parametrize("seed", [41, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (42, 43))])
@pytest.mark.parametrize("words", [11, 24, 50])
@pytest.mark.parametrize("name", ["lime", "kernel-shap"])
def test_sampled_methods_know_their_error_in_every_unit(name: str, words: int, seed: int) -> None:
    """The same rows, the same relative error, the same note: what was 98 % off said it was exact."""
    text, entry = " ".join(f"w{j}" for j in range(words)), registry.get(name)
    plain = game(1.0, 0.0, words, seed)
    x = plain.encode(text)
    wanted = run_explainer(entry, plain, x, plain.target(x), seed=seed)
    assert wanted.stderr is not None
    assert wanted.stderr.any()
    for factor in (1e-12, 2.0**-31, 1e10):
        model = game(factor, 0.0, words, seed)
        found = run_explainer(entry, model, x, plain.target(x), seed=seed)
        scales(found, wanted, factor, factor == 2.0**-31)
        assert found.notes == wanted.notes
        assert model.spent.forwards == plain.spent.forwards


# --- metrics -----------------------------------------------------------------------------------------------


def bag(scale: float, shift: float) -> Model:
    """A sum of word weights; its edits leave the output alone, which those of a random BERT do not."""
    source: Any = known.linear_model()
    module = source.module
    return heedful.load(
        module,
        tokenizer=source.backend.tokenizer,
        labels=known.LABELS,
        forward=lambda embeds, mask: scale * module(embeds, mask) + shift,
    )


WEIGHED: dict[str, Callable[[float, float], Model]] = {"edit-sensitivity": cache(bag)}


def metric_value(name: str, scale: float, share: float, noisy: bool = False) -> float:
    """Of the truth, or the truth with noise, for f times `scale`, shifted by `share` of its own size."""
    make = WEIGHED.get(name, MODELS["stack"])
    plain = make(1.0, 0.0)
    x = plain.encode(LONGER)
    target = plain.target(x)
    size = scale * abs(float(plain.values(x, target, np.ones((1, len(x.units("word"))), dtype=bool))[0]))
    bench = Bench(registry.get_metric(name), make(scale, share * size), x, target)
    return bench.value("noise" if noisy else "truth")


# metrics for pictures have tests of their own
TEXT_METRICS = sorted(
    name for name, entry in registry.metrics().items() if "picture" not in entry.needs and not entry.masks
)
# in the unit of the output although they are not of the verdict: a fall of the output itself
FALLS = {"road-morf", "road-lerf"}


def check_metric(name: str, noisy: bool, changes: tuple[tuple[float, float], ...]) -> None:
    """Metrics of the verdict are in the unit of the output, all others have none; none minds a constant."""
    plain = metric_value(name, 1.0, 0.0, noisy)
    assert np.isfinite(plain)
    for scale, share in changes:
        unit = scale if registry.get_metric(name).family or name in FALLS else 1.0
        found = metric_value(name, scale, share, noisy)
        if share == 0.0 and float(np.log2(scale)).is_integer():
            assert found == plain * unit
        else:  # quotients of differences of f: rounding of f + s, over changes of a hundredth of f
            step = max(CLOSE, 100 * ROUNDINGS * EPS * abs(share))
            assert found == pytest.approx(plain * unit, rel=CLOSE, abs=step * unit)


@pytest.mark.parametrize("name", TEXT_METRICS)
def test_metrics_have_the_unit_they_say(name: str) -> None:
    both = (1e10, SHIFTS[0])
    check_metric(name, False, (both,) if registry.get_metric(name).expensive else ((POWER, 0.0), both))


@pytest.mark.slow
@pytest.mark.parametrize("noisy", [False, True])
@pytest.mark.parametrize("name", TEXT_METRICS)
def test_metrics_have_that_unit_everywhere(name: str, noisy: bool) -> None:
    scales = [(scale, 0.0) for scale in (POWER, *OTHERS, *MORE)]
    check_metric(name, noisy, (*scales, *((1.0, share) for share in SHIFTS)))


def test_controls_and_bests_have_the_unit_of_the_metric() -> None:
    """Random scores, the best order found and the skill; of `completeness` the control has no size of f's."""
    names = [name for name, metric in registry.metrics().items() if metric.kind == "removal"]

    def table(scale: float, shift: float) -> dict[str, Any]:
        model, plain = MODELS["stack"](scale, shift), PLAIN["stack"]
        x = plain.encode(LONGER)
        item = run_explainer("occlusion", model, x, plain.target(x))
        return {score.metric: score for score in score_explanations(model, [item], names, ["mask"], draws=5)}

    plain = table(1.0, 0.0)
    assert sorted(plain) == sorted(names)
    scale, share = 1e10, 1e6
    found = table(scale, scale * share)
    for name in names:
        unit = scale if registry.get_metric(name).family or name in FALLS else 1.0
        step = 100 * ROUNDINGS * EPS * share
        for part in ("value", "control", "low", "high", "best"):
            own, wanted = getattr(found[name], part), unit * getattr(plain[name], part)
            assert own == pytest.approx(wanted, rel=CLOSE, abs=step * unit), (name, part)
        assert found[name].skill == pytest.approx(plain[name].skill, rel=0, abs=1e3 * step)


def test_the_control_of_completeness_has_a_size_of_its_own() -> None:
    """Random scores have size 1: they cannot sum to the change of f in every unit (docs/metrics.md)."""

    def control(scale: float) -> float:
        model, plain = MODELS["stack"](scale, 0.0), PLAIN["stack"]
        x = plain.encode(LONGER)
        item = run_explainer("kernel-shap", model, x, plain.target(x))
        (score,) = score_explanations(model, [item], ["completeness"])
        return score.control

    assert control(1e-3) > 100 * control(1.0)


def test_limes_errors_are_there() -> None:
    """The estimator by itself: values far from zero, and in any unit, without a model."""
    rng = np.random.default_rng(8)
    from heedful.stats import lime_limit, mask_sampling

    pairs = mask_sampling.MaskPairs(16, lime_limit.pair_share(16, 0.25), seed=3)
    keep, drawn = pairs.first(90)
    values = np.tanh(keep @ rng.standard_normal((16, 5))) @ rng.standard_normal(5)
    plain = limes.estimate(keep, values, 0.3, drawn)
    for factor in (2.0**40, 2.0**-35):
        found = limes.estimate(keep, factor * values, factor * 0.3, drawn)
        np.testing.assert_array_equal(found.values, factor * plain.values)
        np.testing.assert_array_equal(found.stderr, factor * plain.stderr)
