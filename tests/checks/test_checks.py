"""Every registered explainer is held to the conventions and its promises; each check catches a cheat.

Quick: on the linear model and one model of each kind. Slow: on every tiny family and every embedded model.
"""

from __future__ import annotations

import random
import unittest.mock
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

import heedful
from heedful import checks
from heedful.checks import conventions, properties
from heedful.checks import known_models as known
from heedful.core import registry
from heedful.core.attribution import Attribution
from heedful.models.zoo import catalog

# methods for pictures alone have tests of their own: tests/explainers/test_pictures.py
NAMES = [
    name for name, entry in registry.explainers().items() if not entry.needs & {"picture", "feature-map"}
]
QUICK = ("bert", "gpt2", "t5", "zoo:one-layer")
REST = (
    "bert-multi",
    "bert-regression",
    "mean-pool",
    "distilbert",
    "roberta",
    "gpt2-classifier",
    "llama",
    "llama-classifier",
    "t5-classifier",
    "bart",
    "bart-classifier",
    "zoo:sentiment",
    "zoo:lm",
)
loaded = cache(heedful.load)


@pytest.fixture(scope="module")
def bag() -> Any:
    return checks.linear_model()


# What each kind of model has not: a method that needs it is refused. All else is offered, or a test fails.
LACKS = {
    kind: set(lacks.split())
    for kinds, lacks in (
        ("linear", "attentions value-maps relevance relu one-layer"),
        ("function", "gradients attentions value-maps relevance relu one-layer"),
        ("zoo:one-layer", "value-maps relevance relu"),
        ("mean-pool", "one-layer"),
        ("bert bert-multi bert-regression distilbert roberta zoo:sentiment", "relu one-layer"),
        ("gpt2 gpt2-classifier llama llama-classifier zoo:lm", "relevance relu one-layer"),
        ("t5 t5-classifier", "value-maps relevance one-layer"),
        ("bart bart-classifier", "value-maps relevance relu one-layer"),
    )
    for kind in kinds.split()
}
# Models that have what a method needs and are refused all the same, with the reason it gives.
REFUSED = {
    ("anchors", "bert-regression"): "a regression has none",  # no class to hold in place
    ("anchors", "t5"): "a sequence has none",  # what it explains unless told otherwise: its whole answer
    ("anchors", "bart"): "a sequence has none",
}


def hold(name: str, kind: str, model: Any) -> None:
    """Every check, unless this model is known not to suit the method."""
    entry = registry.get(name)
    why = model.lacks(entry.needs)
    assert bool(why) == bool(entry.needs & LACKS[kind]), f"{name} on {kind}: {why or 'it has all it needs'}"
    if why:
        pytest.skip(why)
    if reason := REFUSED.get((name, kind)):
        with pytest.raises(heedful.HeedfulError, match=reason):
            checks.explained(entry, model)
        return
    checks.check_on(entry, model)


@pytest.mark.parametrize("name", NAMES)
def test_promises_on_models_whose_answer_is_known(name: str) -> None:
    checks.check_properties(registry.get(name))


@pytest.mark.parametrize("name", NAMES)
def test_on_the_linear_model(name: str, bag: Any) -> None:
    hold(name, "linear", bag)


@pytest.mark.parametrize("kind", QUICK)
@pytest.mark.parametrize("name", NAMES)
def test_on_each_kind_of_model(name: str, kind: str, shared: Any) -> None:
    hold(name, kind, loaded(kind) if kind.startswith("zoo:") else shared(kind).model)


@pytest.mark.slow
@pytest.mark.parametrize("kind", REST)
@pytest.mark.parametrize("name", NAMES)
def test_on_every_other_model(name: str, kind: str, shared: Any) -> None:
    hold(name, kind, loaded(kind) if kind.startswith("zoo:") else shared(kind).model)


@pytest.mark.parametrize("name", ["occlusion", "lime", "kernel-shap", "anchors", "search", "random"])
def test_on_a_function(name: str) -> None:
    model = heedful.load(lambda texts: np.array([[text.count("a"), len(text) / 9] for text in texts]))
    hold(name, "function", model)


def test_an_unexpected_refusal_fails(bag: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a method that begins to refuse nor a model that loses a capability goes unnoticed."""

    def refuses(q: Any) -> Attribution:
        raise heedful.HeedfulError("not today")

    monkeypatch.setitem(registry._explainers, "cheat", cheat(refuses))
    with pytest.raises(heedful.HeedfulError, match="not today"):
        hold("cheat", "linear", bag)
    monkeypatch.setitem(registry._explainers, "cheat", cheat(constant, needs=frozenset({"gradients"})))
    model = heedful.load(lambda texts: [1.0 for _ in texts])
    with pytest.raises(AssertionError, match="cheat on linear: it needs gradients"):
        hold("cheat", "linear", model)


def test_no_embedded_model_is_left_out() -> None:
    pictures = {"image-classifier", "dual-encoder"}  # their inputs are no texts
    embedded = {f"zoo:{entry.name}" for entry in catalog.EMBEDDED if entry.kind not in pictures}
    assert {kind for kind in (*QUICK, *REST) if kind.startswith("zoo:")} == embedded


def test_this_family_is_not_left_out(family: Any) -> None:
    assert family.name in (*QUICK, *REST)


def test_every_explainer_is_held_to_something_on_some_quick_model(bag: Any, shared: Any) -> None:
    models = [bag, *(loaded(k) if k.startswith("zoo:") else shared(k).model for k in QUICK)]
    for name in NAMES:
        assert any(not model.lacks(registry.get(name).needs) for model in models), name


# --- the models whose answer is known are what they claim to be ------------------------------------------


def words_of(model: Any) -> Any:
    x = model.encode(known.TEXT)
    return x, model.target(x), len(x.units("word"))


@pytest.mark.parametrize("make", [known.reader_model, known.textbook_model])
def test_nothing_at_the_deaf_position_reaches_the_output(make: Callable[[], Any]) -> None:
    model = make()
    x, target, size = words_of(model)
    embeds = model.lookup(x, target)
    place = x.units("word")[known.DEAF][0]
    noise = torch.zeros_like(embeds)
    noise[place] = torch.linspace(-1, 1, embeds.shape[1])
    values, _ = model.gradients(x, target, torch.stack([embeds, embeds + noise]))
    assert values[0] == values[1]
    keep = ~np.eye(size, dtype=bool)
    drops = abs(model.values(x, target, np.ones((1, size), dtype=bool)) - model.values(x, target, keep))
    assert drops[known.DEAF] == 0
    assert np.delete(drops, known.DEAF).min() > 1e-4  # every other word matters


@pytest.mark.parametrize("make", [known.reader_model, known.stack_model, known.textbook_model])
def test_equal_words_can_be_swapped(make: Callable[[], Any]) -> None:
    model = make()
    x, target, size = words_of(model)
    first, second = (i for i, word in enumerate(known.TEXT.split()) if word == known.TWIN)
    keep = np.ones((2, size), dtype=bool)
    keep[0, first] = keep[1, second] = False
    values = model.values(x, target, keep)
    assert values[0] == pytest.approx(values[1], rel=1e-12)  # float64


def test_the_reader_looks_at_what_it_does_not_hear() -> None:
    found = checks.explained(registry.get("attention-avg"), known.reader_model())
    assert found.words()[known.DEAF].score == pytest.approx(known.GLANCE)


# --- each check catches a cheat ---------------------------------------------------------------------------


def cheat(run: Any, **changes: Any) -> registry.Explainer:
    settings = {"needs": frozenset(), "cite": "", "summary": "", "signed": True, "params": {}}
    return registry.Explainer("cheat", run, **(settings | changes))


def constant(q: Any) -> Attribution:
    return Attribution(q.x, q.target, np.ones(len(q.x)), output=1.0, base=0.0)


def scored(score: Callable[[Any, Any, Any], Any]) -> registry.Explainer:
    return cheat(lambda q: Attribution(q.x, q.target, np.asarray(score(q.model, q.x, q.target))))


def after(act: Callable[[Any], object]) -> registry.Explainer:
    """Scores all one, once it has done something to the module."""

    def run(q: Any) -> Attribution:
        act(q.model.module)
        return constant(q)

    return cheat(run)


def test_nan_is_caught(bag: Any) -> None:
    with pytest.raises(AssertionError, match="not finite"):
        conventions.check_scores(scored(lambda model, x, target: np.full(len(x), np.nan)), bag)


def test_nan_in_odd_scripts_alone_is_caught(bag: Any) -> None:
    bad = scored(lambda model, x, target: np.full(len(x), 1.0 if x.text.isascii() else np.nan))
    with pytest.raises(AssertionError, match="not finite"):
        conventions.check_scores(bad, bag)


def test_hidden_signs_are_caught(bag: Any) -> None:
    bad = replace(scored(lambda model, x, target: -np.ones(len(x))), signed=False)
    with pytest.raises(AssertionError, match="negative scores"):
        conventions.check_scores(bad, bag)


def test_negative_errors_are_caught(bag: Any) -> None:
    bad = cheat(lambda q: replace(constant(q), stderr=-np.ones(len(q.x))))
    with pytest.raises(AssertionError, match="negative or missing"):
        conventions.check_scores(bad, bag)


@pytest.mark.parametrize(
    ("score", "kind"),
    [
        (lambda model, x, target: np.ones(len(x)) / (len(x.units("token")) - 1), "one token"),
        (lambda model, x, target: np.ones(len(x)) * x.units("word")[0][0], "special tokens alone"),
    ],
)
def test_breaking_on_odd_inputs_is_caught(score: Any, kind: str, bag: Any) -> None:
    with (
        np.errstate(divide="raise"),
        pytest.raises(AssertionError, match=f"breaks on {kind}"),
    ):
        conventions.check_odd_inputs(scored(score), bag)


def test_nan_for_odd_inputs_is_caught(bag: Any) -> None:
    bad = scored(lambda model, x, target: np.full(len(x), 1.0 if x.word_spans else np.nan))
    with pytest.raises(AssertionError, match="not finite"):
        conventions.check_odd_inputs(bad, bag)


@pytest.mark.parametrize(
    "draw",
    [
        lambda size: torch.rand(size).double().numpy(),
        lambda size: np.random.rand(size),  # noqa: NPY002
        lambda size: np.full(size, random.random()),
    ],
    ids=["torch", "numpy", "python"],
)
def test_global_randomness_is_caught(draw: Any, bag: Any) -> None:
    with pytest.raises(AssertionError, match="differs from itself"):
        conventions.check_deterministic(scored(lambda model, x, target: draw(len(x))), bag)


def nudge(module: Any) -> None:
    with torch.no_grad():
        module.classifier.weight[0, 0] += 1e-7


def swap(module: Any) -> None:
    module.classifier.weight = torch.nn.Parameter(module.classifier.weight.detach().clone())


CHANGES: dict[str, tuple[str, Callable[[Any], object]]] = {
    "a changed weight": ("weights", nudge),
    "another parameter": ("weights", swap),
    "a left gradient": ("gradients", lambda module: module.classifier.weight.sum().backward()),
    "a frozen parameter": ("requires_grad", lambda module: module.classifier.weight.requires_grad_(False)),
    "another mode": ("modes", lambda module: module.train()),
    "a left hook": ("hooks", lambda module: module.classifier.register_forward_hook(lambda *_: None)),
    "a left attribute": ("attributes", lambda module: setattr(module, "seen", True)),
    "another attention": ("configuration", lambda module: module.set_attn_implementation("eager")),
    "another setting": ("configuration", lambda module: setattr(module.config, "num_beams_", 3)),
    "a global draw of torch": ("global random state", lambda module: torch.rand(1)),
    "a global draw of numpy": ("global random state", lambda module: np.random.rand()),  # noqa: NPY002
    "gradients switched off": ("gradient mode", lambda module: torch.set_grad_enabled(False)),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_left_behind_is_caught(change: str, fresh: Any) -> None:
    what, act = CHANGES[change]
    own = fresh("bert").model
    with torch.enable_grad(), pytest.raises(AssertionError, match=f"left traces: {what}$"):
        conventions.check_model_untouched(after(act), own)


def test_a_method_that_reads_stale_rows_is_caught(bag: Any) -> None:
    calls: list[int] = []

    def stale(model: Any, x: Any, target: Any) -> Any:
        calls.append(1)
        return np.full(len(x), float(len(calls)))

    with pytest.raises(AssertionError, match="reads stale rows"):
        conventions.check_remembered(scored(stale), bag)


def test_a_method_that_differs_in_company_is_caught(bag: Any) -> None:
    sessions: list[Any] = []

    def counts(q: Any) -> Attribution:
        sessions.extend([q.session] if q.session not in sessions else [])
        return Attribution(q.x, q.target, np.full(len(q.x), float(len(sessions))))

    with pytest.raises(AssertionError, match="differs alone"):
        conventions.check_remembered(cheat(counts), bag)


class Sociable(known.SumOfWords):
    """Each row hears a millionth of the rows it is run with."""

    def forward(self, inputs_embeds: Any, attention_mask: Any) -> Any:
        logits = super().forward(inputs_embeds, attention_mask)
        return logits + 1e-6 * logits.mean(0)


def test_rows_that_hear_their_neighbours_are_caught() -> None:
    own = checks.linear_model()
    own.backend.module.__class__ = Sociable
    with pytest.raises(AssertionError, match="what its rows were run with"):
        conventions.check_chunks(registry.get("occlusion"), own)


def test_a_method_that_counts_its_chunks_is_caught(bag: Any) -> None:
    def counted(model: Any, x: Any, target: Any) -> Any:
        chunks: list[int] = []
        keep = ~np.eye(len(x), dtype=bool)
        model.values(x, target, keep, "delete", "token", progress=lambda done, rows: chunks.append(done))
        return np.full(len(x), float(len(chunks)))

    with pytest.raises(AssertionError, match="what its rows were run with"):
        conventions.check_chunks(scored(counted), bag)


def test_a_method_that_takes_its_points_in_turn_is_caught(bag: Any) -> None:
    """The first point in embedding space asked for counts double."""

    def in_turn(q: Any) -> Attribution:
        calls: list[int] = []
        model, run = q.model, q.model.backend.traced

        def first_doubled(inputs: Any, hidden: bool = False) -> Any:
            calls.append(1)
            out = run(inputs, hidden)
            return replace(out, logits=out.logits * (2 if len(calls) == 1 else 1))

        points = torch.stack([q.embeds() * share for share in (1.0, 0.0)])
        with unittest.mock.patch.object(model.backend, "traced", first_doubled):
            values, _ = q.gradients(points)
        return Attribution(q.x, q.target, np.full(len(q.x), float(values[0])))

    with pytest.raises(AssertionError, match="what its rows were run with"):
        conventions.check_chunks(cheat(in_turn), bag)


def test_a_method_that_is_not_linear_is_caught() -> None:
    with pytest.raises(AssertionError, match="misses a linear model"):
        properties.check_linear(cheat(constant))


def test_a_gap_is_caught(bag: Any) -> None:
    with pytest.raises(AssertionError, match="scores sum to"):
        properties.check_complete(cheat(constant), bag)


def test_a_small_gap_is_caught(bag: Any) -> None:
    def nearly(q: Any) -> Attribution:
        found = checks.explained(registry.get("kernel-shap"), q.model)
        return replace(found, scores=found.scores * 1.002)

    with pytest.raises(AssertionError, match="scores sum to"):
        properties.check_complete(cheat(nearly), bag)


@pytest.mark.parametrize("name", ["attention-avg", "attention-rollout", "lime", "lime-exact", "random"])
def test_credit_for_an_unread_word_is_caught(name: str) -> None:
    """Not cheats: methods that do not promise it, and rightly so."""
    assert "unused" not in registry.get(name).properties
    with pytest.raises(AssertionError, match="never reads"):
        properties.check_unused(registry.get(name))


def test_a_method_that_credits_nothing_is_caught() -> None:
    with pytest.raises(AssertionError, match="every word zero"):
        properties.check_unused(scored(lambda model, x, target: np.zeros(len(x))))


@pytest.mark.parametrize("name", ["search", "random"])
def test_a_method_that_breaks_ties_is_caught(name: str) -> None:
    assert "symmetric" not in registry.get(name).properties
    with pytest.raises(AssertionError, match="tells equal words"):
        properties.check_symmetric(registry.get(name))


def test_favour_for_the_first_word_is_caught() -> None:
    def favoured(q: Any) -> Attribution:
        found = checks.explained(registry.get("occlusion"), q.model)
        tilt = 1 - 1e-6 * np.arange(len(q.x))
        return replace(found, scores=found.scores * tilt)

    with pytest.raises(AssertionError, match="tells equal words"):
        properties.check_symmetric(cheat(favoured, needs=frozenset({"values"})))


# gradients that are wrong in one way each: (T, d) and the embeddings -> scores
WRONG: dict[str, tuple[str, Callable[[Any, Any], Any]]] = {
    "sum for mean": ("gradient-mean", lambda g, e: g.sum(-1)),
    "wrong axis": ("gradient-mean", lambda g, e: g.mean(0).repeat(len(g))[: len(g)]),
    "mean for norm": ("gradient-l1", lambda g, e: g.abs().mean(-1)),
    "l1 for l2": ("gradient-l2", lambda g, e: g.norm(p=1, dim=-1)),
    "no root": ("gradient-l2", lambda g, e: (g**2).sum(-1)),
    "sign": ("gradient-x-input", lambda g, e: -(g * e).sum(-1)),
    "absolute": ("gradient-x-input", lambda g, e: (g * e).abs().sum(-1)),
    "one part in ten thousand": ("gradient-x-input", lambda g, e: 1.0001 * (g * e).sum(-1)),
}


@pytest.mark.parametrize("error", WRONG)
def test_a_wrong_gradient_is_caught_by_finite_differences(error: str) -> None:
    property_name, read = WRONG[error]

    def wrong(model: Any, x: Any, target: Any) -> Any:
        trace = model.trace(x, target)
        return read(trace.grad_embeds, trace.embeds)

    with pytest.raises(AssertionError, match="of finite differences"):
        properties.check_differences(replace(scored(wrong), needs=frozenset({"gradients"})), property_name)


@pytest.mark.parametrize("property_name", properties.READINGS)
def test_a_gradient_that_lacks_a_part_is_caught_on_any_model(property_name: str, shared: Any) -> None:
    """A tenth of the gradient of half of the coordinates is lost, as to a detached tensor."""

    def detached(model: Any, x: Any, target: Any) -> Any:
        trace = model.trace(x, target)
        grad = trace.grad_embeds.clone()
        grad[:, ::2] *= 0.9
        return properties.READINGS[property_name](grad.double(), trace.embeds.double())

    with pytest.raises(AssertionError, match="is not the slope of"):
        properties.check_slopes(scored(detached), shared("gpt2").model, property_name)


def test_a_promise_nobody_can_test_is_caught() -> None:
    with pytest.raises(AssertionError, match="makes a promise that no model"):
        properties.check_unused(cheat(constant, needs=frozenset({"relevance"})))


def test_an_unknown_property_is_refused() -> None:
    with pytest.raises(heedful.HeedfulError, match="declares faithful, which no check knows"):
        checks.check_properties(cheat(constant, properties=frozenset({"faithful"})))


def test_everything_is_checked_by_name() -> None:
    checks.check_explainer("occlusion")
    checks.check_explainer("attention-avg", known.stack_model())


def test_an_unsupported_model_is_refused() -> None:
    with pytest.raises(heedful.HeedfulError, match="cannot be checked on"):
        checks.check_explainer("attention-avg")
