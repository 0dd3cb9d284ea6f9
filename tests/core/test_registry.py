"""Explainers register themselves, are found by name, and are offered where a model has what they need."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from heedful.core import registry
from heedful.core.attribution import Attribution
from heedful.core.errors import HeedfulError
from heedful.engine.question import run_explainer
from heedful.models.load import load


@pytest.fixture
def own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Registrations of a test are gone after it."""
    registry.explainers()
    monkeypatch.setattr(registry, "_explainers", dict(registry._explainers))


def test_the_control_comes_last_and_everyone_cites() -> None:
    found = registry.explainers()
    assert list(found)[-1] == "random"
    assert list(found)[:-1] == sorted(list(found)[:-1])
    assert {
        "grad-avg",
        "grad-l1",
        "grad-l2",
        "grad-x-input",
        "attention-avg",
        "attention-max",
        "occlusion",
    } <= set(found)
    assert all(entry.cite and entry.summary and "\n" not in entry.summary for entry in found.values())
    unsigned = {"grad-l1", "grad-l2", "attention-avg", "attention-max"}
    assert unsigned <= {name for name, entry in found.items() if not entry.signed}
    assert all(found[name].signed for name in ("grad-avg", "grad-x-input", "occlusion", "random"))


def test_unknown_methods_get_a_suggestion() -> None:
    with pytest.raises(
        HeedfulError, match=r"unknown method 'oclusion'.*Did you mean 'occlusion'\?.*Known: .*grad-l1"
    ):
        registry.get("oclusion")
    with pytest.raises(HeedfulError, match=r"unknown method 'shap'. Did you mean 'kernel-shap'\?"):
        registry.get("shap")
    with pytest.raises(HeedfulError, match=r"unknown method ''. Known"):
        registry.get("")


@pytest.mark.usefixtures("own_registry")
def test_a_method_can_be_taken_out_again() -> None:
    registry.forget("occlusion")
    assert "occlusion" not in registry.explainers()
    with pytest.raises(HeedfulError, match="unknown method 'occlusion'"):
        registry.forget("occlusion")


@pytest.mark.usefixtures("own_registry")
def test_a_function_becomes_a_method(shared: Any) -> None:
    @registry.explainer("length", needs={"values"}, cite="nobody", signed=False)
    def length(q: Any, *, power: int = 1) -> Attribution:
        """Longer words count more.

        Not part of the summary.
        """
        x, target = q.x, q.target
        return Attribution(
            x, target, np.array([float(b - a) ** power for a, b in x.offsets]), params={"used": power}
        )

    entry = registry.get("length")
    assert entry.summary == "Longer words count more."
    assert {name: p.default for name, p in entry.params.items()} == {"power": 1}
    family = shared("bert")
    x = family.x("the cat sat")
    found = run_explainer(entry, family.model, x, family.model.target(x), power=2)
    assert found.scores.tolist() == [0, 9, 9, 9, 0]
    assert (found.method, found.params, found.signed) == ("length", {"power": 2, "used": 2}, False)
    with pytest.raises(
        HeedfulError, match=r"length has no parameter powr.*Did you mean 'power'\? It takes: power"
    ):
        run_explainer(entry, family.model, x, family.model.target(x), powr=2)


@pytest.mark.usefixtures("own_registry")
def test_two_methods_of_one_name_are_refused() -> None:
    def impostor(q: Any) -> Attribution: ...

    with pytest.raises(ValueError, match="two explainers are called 'occlusion'"):
        registry.explainer("occlusion", needs=set(), cite="x")(impostor)


def test_scores_of_the_wrong_length_are_refused(shared: Any) -> None:
    x = shared("bert").x()
    with pytest.raises(ValueError, match=r"\(3,\) scores for"):
        Attribution(x, shared("bert").model.target(x), np.zeros(3))


def test_support_says_what_is_missing(shared: Any) -> None:
    from heedful.models.function import FunctionModel

    model = FunctionModel(lambda texts: [0.0] * len(texts), name="mine")
    table = {s.method: s for s in registry.support(model)}
    assert table["occlusion"].ok
    assert table["random"].ok
    assert table["grad-l2"].why == (
        "it needs gradients with respect to its input, which this model does not offer"
    )
    assert "attention weights" in table["attention-avg"].why
    with pytest.raises(
        HeedfulError, match=r"^grad-l2 cannot explain mine: it needs gradients.*heedful doctor mine"
    ):
        model.require(frozenset({"gradients"}), "grad-l2")
    assert {"grad-l2", "attention-avg", "occlusion"} <= {
        s.method for s in registry.support(shared("bert").model) if s.ok
    }


# --- by which operators a method was fitted ----------------------------------------------------------------

FITTED = {
    "occlusion": ("mask",),
    "lime": ("mask",),
    "kernel-shap": ("mask",),
    "integrated-gradients": ("mask",),
    "attention-avg": (),
    "grad-l2": (),
    "random": (),
}


def explained(method: str, name: str = "zoo:sentiment", **params: Any) -> Attribution:
    model = load(name)
    x = model.encode("the service is not bad")
    return run_explainer(method, model, x, model.target(x), **params)


@pytest.mark.parametrize("method", list(FITTED))
def test_a_method_was_fitted_by_the_operators_it_was_shown(method: str) -> None:
    assert explained(method).fitted_by == FITTED[method]


def test_parameters_decide_by_what_a_method_was_fitted() -> None:
    for operator in ("delete", "swap", "pad"):
        assert explained("occlusion", operator=operator).fitted_by == (operator,)
    assert explained("integrated-gradients", baseline="zero").fitted_by == ()
    assert explained("integrated-gradients", baseline="mean").fitted_by == ("mean",)
    assert explained("shapley-exact", "zoo:one-layer").fitted_by == ("unk",), (
        "by formulas that say what rows would"
    )


@pytest.mark.usefixtures("own_registry")
def test_a_plugin_neither_forgets_nor_overrides_by_what_it_was_fitted() -> None:
    @registry.explainer("silent", needs={"values"}, cite="nobody")
    def silent(q: Any) -> Attribution:
        """Says nothing of operators."""
        model, x, target = q.model, q.x, q.target
        keep = ~np.eye(len(x.units("word")), dtype=bool)
        model.values(x, target, np.ones_like(keep), "unk")  # the text itself: nothing is removed
        model.values(x, target, keep, "delete")
        return Attribution(x, target, np.zeros(len(x)))

    @registry.explainer("liar", needs={"values"}, cite="nobody")
    def liar(q: Any) -> Attribution:
        """Asks another, and removes sentences by itself; names an operator of its choice."""
        model, x, target = q.model, q.x, q.target
        inner = run_explainer("silent", model, x, target)
        assert inner.fitted_by == ("delete",)
        model.values(x, target, np.zeros((1, 1), dtype=bool), "swap", "sentence")
        return Attribution(x, target, np.zeros(len(x)), fitted_by=("pad",))

    assert explained("silent").fitted_by == ("delete",)
    assert explained("liar").fitted_by == ("delete", "swap")


NONSENSE: list[Any] = ["abc", None, [1], {}, 0, 1, -1, 0.5, float("nan"), float("inf"), True, ""]


@pytest.mark.parametrize("name", list(registry.explainers()))
def test_nonsense_parameters_are_refused_in_a_sentence_or_work(name: str, shared: Any) -> None:
    model = shared("bert").model
    entry = registry.get(name)
    if any(need not in model.capabilities for need in entry.needs):
        pytest.skip("not for this model")
    x = model.encode("the cat sat")
    target = model.target(x)
    few = {"samples": 32} if name == "anchors" else {}
    for parameter in entry.params:
        for value in NONSENSE:
            with contextlib.suppress(HeedfulError):
                found = run_explainer(entry, model, x, target, **(few | {parameter: value}))
                assert np.isfinite(found.scores).all(), f"{name}.{parameter}={value!r}"


@pytest.mark.parametrize(
    ("parameter", "value", "why"),
    [
        ("samples", "abc", "it takes int or nothing"),
        ("seed", -1, "it cannot be negative"),
        ("seed", None, "it takes int"),
        ("seed", 2**63, "the limit is 9,223,372,036,854,775,807"),
        ("samples", 10**6 + 1, "the limit is 1,000,000"),
        ("precision", 10**400, "it is too large"),
    ],
)
def test_a_wrong_value_is_told(parameter: str, value: Any, why: str, shared: Any) -> None:
    with pytest.raises(HeedfulError, match=rf"lime\.{parameter} cannot be .*: {why}"):
        registry.get("lime").check({parameter: value})


def test_explainers_know_nothing_of_runs() -> None:
    """A method takes any model; budgets reach it as an attribute, so it need not know who asks."""
    code = (
        "import importlib, pkgutil, sys, heedful.explainers as family\n"
        "for part in pkgutil.iter_modules(family.__path__):\n"
        "    importlib.import_module(f'heedful.explainers.{part.name}')\n"
        "assert 'heedful.explainers.value_zeroing' in sys.modules\n"
        "sys.exit(3 if 'heedful.comparisons.execute' in sys.modules else 0)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_number_that_python_does_not_write_out_is_told() -> None:
    with pytest.raises(HeedfulError, match=r"lime\.samples cannot be a number of 16,610 bits"):
        registry.get("lime").check({"samples": 10**5000})


def test_numbers_at_their_limits_are_taken() -> None:
    entry = registry.get("lime")
    entry.check({"samples": 10**6, "seed": 2**63 - 1, "precision": 10**300})
    assert entry.settled({"precision": 10**300})["precision"] == 1e300
    registry.get("attention-avg").check({"layer": -2})
    with pytest.raises(HeedfulError, match="the limit is 1,000,000"):
        registry.get("attention-avg").check({"layer": -(10**30)})


@pytest.mark.parametrize("name", list(registry.explainers()))
def test_no_parameter_takes_a_number_of_any_size(name: str) -> None:
    entry = registry.get(name)
    for parameter in entry.params.values():
        if {int, float} & set(parameter.kinds):
            for value in (parameter.most + 1, 10**400):
                with pytest.raises(HeedfulError, match=r"the limit is|it is too large"):
                    entry.settled({parameter.name: value})
