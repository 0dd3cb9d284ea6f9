"""`plan`: what each method will ask for, foretold; and budgets, which are kept by all methods together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import heedful
from heedful.comparisons import planning
from heedful.comparisons.planning import plan
from heedful.core import registry
from heedful.core.attribution import Attribution
from heedful.engine.session import Session
from heedful.metrics.faithfulness import bin_counts

TEXTS = ("cat", "the cat sat", "the cat sat on the mat. hello world! don't stop, a dog ran")
LONG = " ".join(["the cat sat on the mat. hello world! don't stop, a dog ran"] * 9)
SMALL = {"anchors": {"samples": 200}, "search": {"depth": 4}}

APART = {"picture", "feature-map", "head-states"}  # of pictures, alone or with a text
TEXT_METHODS = [name for name, entry in registry.explainers().items() if not entry.needs & APART]


def model_for(method: str, shared: Any) -> Any:
    entry = registry.get(method)
    models = [shared(name).model for name in ("bert", "t5", "gpt2")]
    if "one-layer" in entry.needs:
        models.append(heedful.load("zoo:one-layer"))
    return next(model for model in models if not model.lacks(entry.needs))


@pytest.mark.parametrize("text", TEXTS, ids=["1 word", "3 words", "16 words"])
@pytest.mark.parametrize("method", TEXT_METHODS)
def test_no_method_runs_more_rows_than_foretold_or_asks_for_fewer(
    method: str, text: str, shared: Any
) -> None:
    model = model_for(method, shared)
    made = plan(model, text, method, params={method: SMALL.get(method, {})})
    least, most = made.rows[method]
    cost = heedful.explain(model, text, method, params={method: SMALL.get(method, {})})[method].cost
    assert cost.unique <= most  # rows that are alike are run once, so fewer may be run than were asked for
    assert cost.forwards >= least
    if least == most:
        assert cost.forwards == most


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("lime", {"samples": 90}),
        ("lime", {"variant": "published", "samples": 300}),
        ("lime", {"precision": 0.0, "unit": "token"}),
        ("kernel-shap", {"samples": 100}),
        ("kernel-shap", {"precision": 0.0}),
        ("integrated-gradients", {"tolerance": 0.0, "most": 100}),
        ("integrated-gradients", {"tolerance": 0.0, "most": 1}),
        ("smoothgrad", {"samples": 7}),
        ("search", {"beam": 1, "depth": 3}),
        ("search", {"beam": 5, "depth": 99, "unit": "sentence"}),
        ("anchors", {"threshold": 1.0, "samples": 33, "beam": 9}),
    ],
)
def test_parameters_are_counted(method: str, params: dict[str, Any], shared: Any) -> None:
    model = shared("bert").model
    made = plan(model, TEXTS[2], method, params={method: params})
    least, most = made.rows[method]
    cost = heedful.explain(model, TEXTS[2], method, params={method: params})[method].cost
    assert least <= cost.forwards
    assert cost.unique <= most
    if 0.0 in params.values():  # it may not stop before: the foretold most is what it takes
        assert cost.forwards >= 0.5 * most


@pytest.mark.parametrize("target", [{"sequence": " the cat"}, {"position": 5}, None], ids=str)
def test_rows_of_what_a_language_model_reads(target: Any, shared: Any) -> None:
    model = shared("gpt2").model
    methods = ["value-zeroing", "attention-optimus", "occlusion", "grad-l2"]
    made = plan(model, TEXTS[2], methods, target)
    found = heedful.explain(model, TEXTS[2], methods, target)
    assert {name: found[name].cost.forwards for name in methods} == {n: made.rows[n][1] for n in methods}


def test_a_plan_runs_nothing_but_the_prediction(fresh: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    family = fresh("bert")
    assert family.model.capabilities
    calls: list[int] = []
    family.hf.register_forward_pre_hook(lambda *_: calls.append(1))
    monkeypatch.setattr(planning, "LONG", np.inf)
    made = plan(family.model, TEXTS[2], "all")
    assert len(calls) == 2  # the target, and the prediction whose time is taken
    assert family.model.spent.unique == 0
    assert made.seconds_per_row > 0
    likely = {name: (least * most) ** 0.5 for name, (least, most) in made.rows.items()}
    assert made.seconds == pytest.approx(
        made.seconds_per_row
        * (
            3
            + made.weighing
            + sum(  # one trace; a backward is two forwards
                (3 if "gradients" in e.needs else 1) * likely[e.name] for e in made.chosen if e.counts
            )
        )
    )
    orders = len(made.chosen) - 1 + made.draws
    assert made.draws == 20 * (len(made.chosen) - 1) - 1, "a small model: a test of all methods is cheap"
    words = len(made.x.units("word"))
    bins = len(set(bin_counts(words)))
    alone = min(words, 20)
    assert made.weighing == 2 + 2 * bins * orders + alone  # two metrics; the same bin is run once
    data = made.to_dict()
    assert data["rows"] == made.most_rows >= max(row["most"] for row in data["methods"])
    assert set(data["skipped"]) >= {"anchors", "search"}


def test_a_long_run_is_timed_by_a_batch(fresh: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "LONG", 0.0)
    model = fresh("bert").model
    plan(model, TEXTS[2], "lime")
    assert model.spent.unique == planning.TIMED
    plan(model, TEXTS[2], "lime", budget=100)  # which allows no row that explains nothing
    assert model.spent.unique == planning.TIMED


def test_windows_are_counted_part_by_part(shared: Any) -> None:
    model = shared("bert").model
    made = plan(model, LONG, ["occlusion", "grad-l2"], long="window")
    assert len(made.pieces) >= 3
    found = heedful.explain(model, LONG, ["occlusion", "grad-l2"], long="window")
    assert found["occlusion"].cost.forwards == made.rows["occlusion"][1]
    assert found["grad-l2"].cost.forwards == made.rows["grad-l2"][1] == len(made.pieces)


def test_cheap_methods_run_first_and_are_shown_in_their_place(shared: Any) -> None:
    methods = ["kernel-shap", "lime", "occlusion", "integrated-gradients", "grad-l2"]
    made = plan(shared("bert").model, TEXTS[2], methods)
    order = [entry.name for entry in made.order]
    assert order[:3] == ["random", "grad-l2", "occlusion"]
    assert set(order[3:]) == {"lime", "kernel-shap", "integrated-gradients"}
    assert list(heedful.explain(shared("bert").model, TEXTS[2], methods)) == [*methods, "random"]


# --- budgets ----------------------------------------------------------------------------------------------


SHORT, WINDOWS = [(n, False) for n in (0, 1, 2, 30, 150, 400)], [(n, True) for n in (2, 60, 700)]


@pytest.mark.parametrize(("budget", "long"), [*SHORT, *WINDOWS])
def test_no_budget_is_exceeded_by_all_methods_together(budget: int, long: bool, fresh: Any) -> None:
    family = fresh("bert")
    text = LONG if long else TEXTS[2]
    found = heedful.explain(family.model, text, budget=budget, long="window")
    assert family.model.spent.unique <= budget
    assert sum(a.cost.unique for a in found.values()) <= budget
    for name, why in found.skipped.items():
        if registry.get(name).expensive or family.model.lacks(registry.get(name).needs):
            continue
        assert "model inputs left and this method needs" in why, name
    assert "random" in found
    if budget >= 1 and not long:
        assert "grad-l2" in found  # cheap ones are served first


def test_sampled_methods_share_what_is_left(fresh: Any) -> None:
    family = fresh("bert")
    methods = ["lime", "kernel-shap", "occlusion"]
    params = {name: {"precision": 0.0} for name in ("lime", "kernel-shap")}
    found = heedful.explain(family.model, TEXTS[2], methods, budget=200, params=params)
    words = len(found.x.word_spans)
    assert not found.skipped
    assert found["occlusion"].cost.unique == words + 1
    rest = 200 - words - 1
    for name in ("lime", "kernel-shap"):
        assert 0.8 * rest / 2 <= found[name].cost.forwards <= 0.5 * rest + 40  # shared rows are paid once
    alone = heedful.explain(family.model, TEXTS[2], "lime", budget=200, params={"lime": {"precision": 0.0}})
    assert alone["lime"].cost.unique > found["lime"].cost.unique


def test_a_window_gets_its_share_too(fresh: Any) -> None:
    family = fresh("bert")
    made = plan(family.model, LONG, "lime", long="window")
    budget = made.rows["lime"][0] + 100  # far below the most, enough for each part
    found = heedful.explain(
        family.model, LONG, "lime", budget=budget, long="window", params={"lime": {"precision": 0.0}}
    )
    assert "lime" in found
    assert budget - 50 <= found["lime"].cost.unique <= budget


def test_a_run_is_taken_in_place_of_a_model_and_remembers(fresh: Any) -> None:
    family = fresh("bert")
    run = Session(family.model)
    first = heedful.explain(run, TEXTS[2], ["lime", "grad-l2"])
    ran = family.model.spent.unique
    again = heedful.explain(run, TEXTS[2], ["lime", "grad-l2"])
    assert family.model.spent.unique == ran > 0
    np.testing.assert_array_equal(first["lime"].scores, again["lime"].scores)


def test_a_method_without_a_count_counts_as_one_pass(shared: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_explainers", dict(registry._explainers))

    @registry.explainer("plain", needs={"values"}, cite="nobody")
    def plain(q: Any) -> Attribution:
        """Zeros."""
        x, target = q.x, q.target
        return Attribution(x, target, np.zeros(len(x)))

    assert plan(shared("bert").model, "the cat", "plain").rows["plain"] == (1, 1)
