"""Every registered explainer on the linear model and three kinds of transformers; the checks catch cheats."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import heedful
from heedful import checks, registry
from heedful.models.base import missing
from heedful.types import Attribution

NAMES = list(registry.explainers())
FAMILIES = ("bert", "gpt2", "t5")


@pytest.fixture(scope="module")
def bag() -> Any:
    return checks.linear_model()


@pytest.mark.parametrize("name", NAMES)
def test_on_the_linear_model(name: str, bag: Any) -> None:
    if missing(bag, registry.get(name).needs):
        pytest.skip("the linear model shows no attention")
    checks.check_explainer(name)


@pytest.mark.parametrize("kind", FAMILIES)
@pytest.mark.parametrize("name", NAMES)
def test_on_every_kind_of_transformer(name: str, kind: str, shared: Any) -> None:
    model = shared(kind).model
    if why := missing(model, registry.get(name).needs):
        pytest.skip(why)
    try:
        checks.explained(registry.get(name), model)
    except heedful.HeedfulError as refusal:
        pytest.skip(str(refusal))
    checks.check_explainer(name, model)


def cheat(run: Any, **changes: Any) -> registry.Explainer:
    settings = {"needs": frozenset(), "cite": "", "summary": "", "signed": True, "params": {}}
    return registry.Explainer("cheat", run, **(settings | changes))


def constant(model: Any, x: Any, target: Any) -> Attribution:
    return Attribution(x, target, np.ones(len(x)), output=1.0, base=0.0)


def test_nan_is_caught(bag: Any) -> None:
    bad = cheat(lambda model, x, target: Attribution(x, target, np.full(len(x), np.nan)))
    with pytest.raises(AssertionError, match="not finite"):
        checks.check_scores(bad, bag)


def test_hidden_signs_are_caught(bag: Any) -> None:
    bad = cheat(lambda model, x, target: Attribution(x, target, -np.ones(len(x))), signed=False)
    with pytest.raises(AssertionError, match="negative scores"):
        checks.check_scores(bad, bag)


def test_global_randomness_is_caught(bag: Any) -> None:
    bad = cheat(lambda model, x, target: Attribution(x, target, torch.rand(len(x)).double().numpy()))
    with pytest.raises(AssertionError, match="differs from itself"):
        checks.check_deterministic(bad, bag)


def test_a_method_that_is_not_linear_is_caught(bag: Any) -> None:
    with pytest.raises(AssertionError, match="misses a linear model"):
        checks.check_linear(cheat(constant), bag)


def test_a_gap_is_caught(bag: Any) -> None:
    with pytest.raises(AssertionError, match="scores sum to"):
        checks.check_complete(cheat(constant), bag)


def test_a_changed_weight_is_caught() -> None:
    own = checks.linear_model()

    def nudge(model: Any, x: Any, target: Any) -> Attribution:
        with torch.no_grad():
            model.backend.module.table.weight[3, 0] += 1
        return constant(model, x, target)

    with pytest.raises(AssertionError, match="left traces"):
        checks.check_model_untouched(cheat(nudge), own)


def test_a_left_gradient_is_caught() -> None:
    own = checks.linear_model()

    def backward(model: Any, x: Any, target: Any) -> Attribution:
        model.backend.module.table(torch.tensor([2])).sum().backward()
        return constant(model, x, target)

    with pytest.raises(AssertionError, match="left gradients"):
        checks.check_model_untouched(cheat(backward), own)


def test_a_method_that_reads_stale_rows_is_caught(bag: Any) -> None:
    calls: list[int] = []

    def stale(model: Any, x: Any, target: Any) -> Attribution:
        calls.append(1)
        return replace(constant(model, x, target), scores=np.full(len(x), float(len(calls))))

    with pytest.raises(AssertionError):
        checks.check_remembered(cheat(stale), bag)


def test_an_unsupported_model_is_refused(bag: Any) -> None:
    with pytest.raises(heedful.HeedfulError, match="cannot be checked on"):
        checks.check_explainer("attention-avg")
