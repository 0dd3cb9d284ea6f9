"""Evidence of one text: what is said of it, what it costs, and that it comes back from disk."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import heedful
from heedful import checks
from heedful.comparisons.single_text import (
    METRICS,
    draws_needed,
    operator_of,
    rows_of,
    standings,
    verdict_text,
)
from heedful.core import registry
from heedful.core.evidence import Evidence
from heedful.core.internals import Removal
from heedful.metrics import sensitivity_warning
from heedful.reports.reproduce import command, python

TEXT = "the cat sat on the mat the sat on mat"


ORDERS = tuple(np.linspace(-1.0, 1.0, 20))


def line(
    method: str, value: float, *, circular: bool = False, metric: str = "aopc", orders: int = 20
) -> Evidence:
    drawn = tuple(np.linspace(-1.0, 1.0, orders))
    given = (value, 0.0, 2.0, value / 2, (np.nan, np.nan), 1, (-1.0, 1.0), circular, drawn)
    entry = registry.get_metric(metric)
    return Evidence(metric, "delete", method, *given, entry.better, entry.family)


def test_the_words_follow_the_numbers() -> None:
    found = [line("a", 1.5), line("b", 0.5), line("c", 2.0), line("d", 9.0, circular=True)]
    first, second, third, last = verdict_text(found, d=10).splitlines()
    assert first == "Of 20 random orders on this text, a and c beat all 20, b beat 15."
    assert second.startswith(
        "To test whether these 3 methods beat chance on one text takes --draws 59, about "
    )
    assert third == "The evidence removes words by delete."
    assert "heedful audit" in last
    assert "b beat none" in verdict_text([line("b", -1.5)])
    both = [line("a", 1.5), line("a", -1.5, metric="sufficiency")]
    assert "if its mean rank over the metrics is lower" in verdict_text(both), "two metrics are joined"
    assert "mean rank" not in first
    alone = verdict_text([line("a", 1.5)], d=1)
    assert alone.startswith("The text has one word: there are no orders to compare")
    assert "beat all" not in alone
    assert verdict_text([]).startswith("Nothing was weighed")
    assert "pass evidence=True" in verdict_text([])
    assert "No metric of the verdict" in verdict_text([line("a", 1.0, metric="monotonicity")])


def test_enough_orders_are_tested() -> None:
    many = [line("a", 1.5, orders=40), line("b", 0.5, orders=40)]
    assert [(one.method, one.beat, one.draws) for one in standings(many)] == [("a", 40, 40), ("b", 30, 40)]
    assert [one.p for one in standings(many)] == pytest.approx([2 / 41, 11 / 41])
    told = verdict_text(many)
    better = "Better than random orders on this text: a (p ≤ 0.049), corrected for 2 methods."
    assert f"{better} Not proven better: b." in told, "of a that beat all orders, p is only bounded"
    most = [replace(line("a", 0.99, orders=100), orders=(*np.linspace(-1.0, 0.9, 99), 2.0))]
    assert "a (p = 0.02)" in verdict_text(most)
    assert "No method is proven better" in verdict_text([line("b", 0.5, orders=40)])
    assert all(np.isnan(one.p) for one in standings([line(name, 2.0, orders=40) for name in "abc"]))
    assert [draws_needed(methods) for methods in (1, 5, 16)] == [19, 99, 319]


def test_a_random_order_that_does_as_well_is_not_beaten() -> None:
    (one,) = standings([line("a", 1.0)])  # the best of the random orders has 1.0, too
    assert (one.beat, one.draws) == (19, 20)
    assert one.p == pytest.approx(2 / 21)


def test_two_families_have_a_voice_each() -> None:
    """An order is one thing: best by one family and worst by the other beats half of the random ones."""
    low = replace(line("a", 1.5, metric="sufficiency"), best=-2.0)  # a large shortfall is bad
    (one,) = standings([line("a", 1.5), low])
    assert 0 <= one.beat <= 12
    good = replace(line("a", -1.5, metric="sufficiency"), best=-2.0)
    assert standings([line("a", 1.5), good])[0].beat == 20
    assert good.beat == 20
    assert replace(good, value=-0.5).beat == 15


def test_a_method_that_knows_nothing_is_seldom_shown_on_one_text() -> None:
    """One more random order among 19: p is uniform on 1/20, 2/20, ..."""
    counts = []
    for seed in range(400):
        values = np.random.default_rng(seed).normal(size=(2, 20))
        pair = [
            replace(line("m", values[0, 0]), orders=tuple(values[0, 1:])),
            replace(line("m", values[1, 0], metric="sufficiency"), orders=tuple(values[1, 1:])),
        ]
        (one,) = standings(pair)
        counts.append(one.p <= 0.05)
    assert sum(counts) <= 34  # 5 % of 400, and three standard deviations


@pytest.fixture(scope="module")
def bag() -> Any:
    return checks.linear_model()


@pytest.fixture(scope="module")
def weighed(bag: Any) -> heedful.Comparison:
    return heedful.explain(bag, TEXT, ["occlusion", "lime"], evidence=True)


def test_the_methods_of_a_linear_model_do_best(weighed: heedful.Comparison, bag: Any) -> None:
    assert {e.method for e in weighed.evidence} == {"occlusion", "lime"}
    assert {e.metric for e in weighed.evidence} == set(METRICS)
    fitted = {operator for item in weighed.attributions for operator in item.fitted_by or ()}
    assert {e.operator for e in weighed.evidence} == {operator_of(bag, weighed.attributions)}
    assert not fitted & {e.operator for e in weighed.evidence}, "no method is judged by its own removal"
    assert all(e.skill == pytest.approx(1.0) and e.beat >= len(e.orders) - 1 for e in weighed.evidence)


def test_methods_are_tested_unless_told_otherwise(bag: Any) -> None:
    assert heedful.explain(bag, TEXT).evidence
    assert not heedful.explain(bag, TEXT, evidence=False).evidence
    assert heedful.explain(bag, TEXT, "occlusion").evidence
    (one,) = heedful.explain(bag, TEXT, "occlusion", evidence="aopc").evidence
    assert one.metric == "aopc"
    with pytest.raises(heedful.HeedfulError, match="unknown metric 'luck'"):
        heedful.explain(bag, TEXT, "occlusion", evidence=["luck"])


def test_a_budget_counts_evidence_too(bag: Any) -> None:
    d = len(bag.encode(TEXT).units("word"))
    small = heedful.explain(bag, TEXT, "occlusion", evidence=True, budget=d + 3)
    assert not small.evidence
    assert "budget" in small.settings["evidence_skipped"]
    before = bag.spent
    whole = heedful.explain(bag, TEXT, "occlusion", evidence=True, budget=d + 1 + rows_of(d, 1))
    assert whole.evidence
    assert (bag.spent - before).unique <= d + 1 + rows_of(d, 1)


def test_it_comes_back_from_disk_and_stands_on_the_page(weighed: heedful.Comparison, tmp_path: Path) -> None:
    again = heedful.Comparison.load(weighed.save(tmp_path / "run"))
    assert repr(again.evidence) == repr(weighed.evidence)  # nan is not equal to itself
    assert again.verdict == weighed.verdict
    assert weighed.to_dict()["verdict"] == weighed.verdict
    shown = weighed.page()
    assert "Which method to use" in shown
    assert weighed.verdict.splitlines()[0] in shown
    assert "evidence" not in python(weighed), "it is the default"
    named = replace(weighed, model={"name": "zoo:sentiment"})
    assert "--no-evidence" not in str(command(named))
    none = {**named.settings, "evidence": []}  # none was asked for
    assert "--no-evidence" in str(command(replace(named, evidence=(), settings=none)))


def test_it_says_by_what_words_are_removed(shared: Any) -> None:
    model = shared("bert").model
    methods = ["occlusion", "lime", "grad-l2"]
    other = heedful.explain(model, TEXT, methods, evidence=True)
    line = "The evidence removes words by delete; fitted: occlusion and lime by mask."
    assert other.verdict.count(line) == 1
    assert line in other.page()
    half = heedful.explain(model, TEXT, methods, evidence=True, params={"lime": {"operator": "delete"}})
    assert "The evidence removes words by swap; fitted: occlusion by mask; lime by delete." in half.verdict
    assert "fitted" not in heedful.explain(model, TEXT, "grad-l2", evidence=True).verdict


def test_a_test_is_made_where_it_is_cheap(bag: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """1,000 rows of the method pay for 19 random orders; the 11 of occlusion do not, so counts are all. Of a
    model as small as this a test is always cheap: it is taken for a large one."""
    small = heedful.explain(bag, TEXT, ["occlusion", "lime"], evidence=True)
    assert len(small.evidence[0].orders) == 39
    monkeypatch.setattr(type(bag), "size", property(lambda _: 10**9))
    expensive = heedful.explain(bag, TEXT, "lime", evidence=True, params={"lime": {"samples": 900}})
    cheap = heedful.explain(bag, TEXT, ["occlusion", "lime"], evidence=True)
    assert "--draws 39" in cheap.verdict
    assert len(cheap.evidence[0].orders) == 20
    assert re.search("p [=≤] ", expensive.verdict) or len(expensive.evidence[0].orders) == 20
    asked = heedful.explain(bag, TEXT, ["occlusion", "lime"], evidence=True, draws=39)
    assert len(asked.evidence[0].orders) == 39
    assert "corrected for 2 methods" in asked.verdict
    assert "draws=39" in python(asked)
    with pytest.raises(heedful.HeedfulError, match="draws cannot be 5"):
        heedful.explain(bag, TEXT, "occlusion", evidence=True, draws=5)


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
        assert ("there is little to explain" in found.page()) == told
        assert model.spent == spent
    finally:
        with torch.no_grad():
            model.module.classifier.weight.div_(size)


def test_how_far_the_output_moved() -> None:
    """The most of every row that is known, and rounded up: what is said must hold."""
    rows = Removal("mask", (0.0001, float("nan")), {"a": ((0.0, 2.0), (1.0, 1.99969))}, ((1.0, 1.9999, 2.0),))
    line = "No removal of words moves the output by more than 0.0004: there is little to explain."
    assert sensitivity_warning.of_one_text([rows], "classifier") == line
    assert sensitivity_warning.of_one_text([rows], "regression") == line
    far = Removal("delete", (), {}, ((1.0, 1.98, 2.0),))
    for kind in ("classifier", "regression"):
        assert sensitivity_warning.of_one_text([rows, far], kind) == ""
        assert sensitivity_warning.of_one_text([], kind) == ""
    small = replace(rows, curves={"a": ((0.0, 0.0003), (1.0, 0.0))}, band=())
    assert sensitivity_warning.of_one_text([small], "function") == "", "its unit is its own"
    assert "more than 0:" in sensitivity_warning.of_one_text([Removal("mask", (0.0,))], "classifier")


def test_how_far_the_output_moved_on_many_texts() -> None:
    near = [replace(line("a", 0.002, metric=name), best=0.003, n=9) for name in ("aopc", "sufficiency")]
    assert "by more than 0.003: there is little to explain" in sensitivity_warning.of_many(near, "classifier")
    for kind, table in (("function", near), ("classifier", [*near, line("b", 0.5)]), ("classifier", [])):
        assert sensitivity_warning.of_many(table, kind) == ""
    other = [*near, line("a", 9.0, metric="monotonicity")]
    assert sensitivity_warning.of_many(other, "classifier"), "a correlation is in no unit of the output"
