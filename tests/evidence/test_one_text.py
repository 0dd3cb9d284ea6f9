"""Evidence of one text: what is said of it, what it costs, and that it comes back from disk."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import heedful
from heedful import checks
from heedful.evidence import moved
from heedful.evidence.one_text import METRICS, operator_of, rows_of, said
from heedful.types import Evidence, Removal
from heedful.view.html import page
from heedful.view.repeat import command, python

TEXT = "the cat sat on the mat the sat on mat"


def line(method: str, value: float, *, circular: bool = False, metric: str = "aopc") -> Evidence:
    return Evidence(
        metric, "delete", method, value, 0.0, 2.0, value / 2, (np.nan, np.nan), 1, (-1.0, 1.0), circular
    )


def test_the_words_follow_the_numbers() -> None:
    found = [line("a", 1.5), line("b", 0.5), line("c", 2.0), line("d", 9.0, circular=True)]
    first, last = said(found).splitlines()
    assert first == (
        "On this text, by aopc under delete, c and a do better than 10 random orders did; not so b."
    )
    assert "heedful audit" in last
    assert "no method does better" in said([line("b", 0.5)])
    assert said([]).startswith("Nothing was weighed")
    assert "pass evidence=True" in said([])


def test_low_is_good_where_the_best_is_below_the_control() -> None:
    low = replace(line("a", -1.5), best=-2.0)
    assert low.above_chance
    assert not replace(low, value=-0.5).above_chance
    many = replace(low, n=20, interval=(-0.1, 0.4))
    assert not many.above_chance, "of many texts, the interval tells"


@pytest.fixture(scope="module")
def bag() -> Any:
    return checks.linear_model()


@pytest.fixture(scope="module")
def weighed(bag: Any) -> heedful.Comparison:
    return heedful.explain(bag, TEXT, ["occlusion", "lime"], evidence=True)


def test_the_methods_of_a_linear_model_do_best(weighed: heedful.Comparison, bag: Any) -> None:
    assert {e.method for e in weighed.evidence} == {"occlusion", "lime"}
    assert {e.metric for e in weighed.evidence} == set(METRICS)
    assert {e.operator for e in weighed.evidence} == {operator_of(bag)} == {"delete"}
    assert all(e.skill == pytest.approx(1.0) and e.above_chance for e in weighed.evidence)


def test_it_is_weighed_when_every_method_runs_or_when_asked(bag: Any) -> None:
    assert heedful.explain(bag, TEXT).evidence
    assert not heedful.explain(bag, TEXT, evidence=False).evidence
    assert not heedful.explain(bag, TEXT, "occlusion").evidence
    (one,) = heedful.explain(bag, TEXT, "occlusion", evidence="aopc").evidence
    assert one.metric == "aopc"
    with pytest.raises(heedful.HeedfulError, match="unknown metric 'luck'"):
        heedful.explain(bag, TEXT, "occlusion", evidence=["luck"])


def test_a_budget_counts_evidence_too(bag: Any) -> None:
    d = len(bag.encode(TEXT).units("word"))
    small = heedful.explain(bag, TEXT, "occlusion", evidence=True, budget=d + 3)
    assert not small.evidence
    assert "budget" in small.settings["not weighed"]
    before = bag.spent
    whole = heedful.explain(bag, TEXT, "occlusion", evidence=True, budget=d + 1 + rows_of(d, 1))
    assert whole.evidence
    assert (bag.spent - before).unique <= d + 1 + rows_of(d, 1)


def test_it_comes_back_from_disk_and_stands_on_the_page(weighed: heedful.Comparison, tmp_path: Path) -> None:
    again = heedful.Comparison.load(weighed.save(tmp_path / "run"))
    assert repr(again.evidence) == repr(weighed.evidence)  # nan is not equal to itself
    assert again.verdict == weighed.verdict
    assert weighed.to_dict()["verdict"] == weighed.verdict
    shown = page(weighed)
    assert "Which to heed?" in shown
    assert "do better than 10 random orders did" in shown
    assert "evidence=['comprehensiveness', 'sufficiency']" in python(weighed)
    named = replace(weighed, model={"name": "zoo:sentiment"})
    assert "--no-evidence" not in str(command(named))
    assert "--no-evidence" in str(command(replace(named, evidence=())))


def test_it_says_by_what_words_are_removed(shared: Any, weighed: heedful.Comparison) -> None:
    model = shared("bert").model
    methods = ["occlusion", "lime", "grad-l2"]
    other = heedful.explain(model, TEXT, methods, evidence=True)
    line = "removes words by delete; occlusion and lime by mask: no method is judged by its own removal."
    assert other.verdict.count(line) == 1
    assert line in page(other)
    too = (
        "removes words by delete; occlusion and lime by delete too, so they are judged by their own removal."
    )
    assert too in weighed.verdict
    half = heedful.explain(model, TEXT, methods, evidence=True, params={"lime": {"operator": "delete"}})
    both = (
        "removes words by delete; occlusion by mask; lime by delete too, so it is judged by its own removal."
    )
    assert both in half.verdict
    assert "removes words" not in heedful.explain(model, TEXT, "grad-l2", evidence=True).verdict


@pytest.mark.parametrize(("size", "told"), [(1e-4, True), (1.0, False)])
def test_a_model_that_hardly_reads_is_told(size: float, told: bool, shared: Any) -> None:
    """A read-out scaled down: what every removal moves is then known to be small. No row is run for it."""
    model = shared("bert").model
    with torch.no_grad():
        model.module.classifier.weight.mul_(size)
    try:
        found = heedful.explain(model, TEXT, ["occlusion"], evidence=True)
        spent = model.spent
        assert ("there is little to explain" in found.verdict) == told
        assert ("there is little to explain" in page(found)) == told
        assert model.spent == spent
    finally:
        with torch.no_grad():
            model.module.classifier.weight.div_(size)


def test_how_far_the_output_moved() -> None:
    """The most of every row that is known, and rounded up: what is said must hold."""
    rows = Removal("mask", (0.0001, float("nan")), {"a": ((0.0, 2.0), (1.0, 1.99969))}, ((1.0, 1.9999, 2.0),))
    line = "No removal of words moves the output by more than 0.0004: there is little to explain."
    assert moved.of_one_text([rows], "classifier") == line
    assert moved.of_one_text([rows], "regression") == line
    far = Removal("delete", (), {}, ((1.0, 1.98, 2.0),))
    for kind in ("classifier", "regression"):
        assert moved.of_one_text([rows, far], kind) == ""
        assert moved.of_one_text([], kind) == ""
    small = replace(rows, curves={"a": ((0.0, 0.0003), (1.0, 0.0))}, band=())
    assert moved.of_one_text([small], "function") == "", "its unit is its own"
    assert "more than 0:" in moved.of_one_text([Removal("mask", (0.0,))], "classifier")


def test_how_far_the_output_moved_on_many_texts() -> None:
    near = [replace(line("a", 0.002, metric=name), best=0.003, n=9) for name in ("aopc", "sufficiency")]
    assert "by more than 0.003: there is little to explain" in moved.of_many(near, "classifier")
    for kind, table in (("function", near), ("classifier", [*near, line("b", 0.5)]), ("classifier", [])):
        assert moved.of_many(table, kind) == ""
    other = [*near, line("a", 9.0, metric="monotonicity")]
    assert moved.of_many(other, "classifier"), "a correlation is in no unit of the output"
