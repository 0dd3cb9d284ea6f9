"""The lab of seven explainers: pairs by kind, evidence, and planted bugs."""

from __future__ import annotations

from itertools import combinations
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from scipy import stats

import heedful
from heedful.core.document import Figure
from heedful.core.lab_report import Claim
from heedful.labs import disagreement as lab
from heedful.labs.base.registry import LabRun
from heedful.reports.charts.draw import svg


@pytest.fixture(scope="module")
def told() -> Any:
    return heedful.explain(heedful.load("zoo:one-layer"), lab.SENTENCE, lab.SEVEN, params=lab.ALL_TEXTS)


def held(run: LabRun) -> list[bool]:
    return [part.holds for part in run.parts if isinstance(part, Claim)]


def test_the_matrix_is_kendalls_tau_of_scores_or_sizes(told: Any) -> None:
    found = lab.matrix_of(told)
    scores = {name: np.array([word.score for word in told[name].words()]) for name in lab.SEVEN}
    for (i, a), (j, b) in combinations(enumerate(lab.SEVEN), 2):
        signed = told[a].signed and told[b].signed
        pair = (scores[a], scores[b]) if signed else (np.abs(scores[a]), np.abs(scores[b]))
        assert found[i, j] == pytest.approx(stats.kendalltau(*pair).statistic)


def test_pairs_of_one_kind(told: Any) -> None:
    same = [pair for pair, (a, b) in zip(combinations(lab.SEVEN, 2), lab.pair_kinds(), strict=True) if a == b]
    assert same == [("attention-avg", "attention-max"), ("lime", "grad-x-input"), ("grad-l1", "grad-l2")]


def test_the_sentence(told: Any) -> None:
    assert not told["lime"].stderr.any()  # nothing was drawn
    run = LabRun()
    lab.one_sentence(run, told)
    assert held(run) == [True]
    figure = next(part for part in run.parts if isinstance(part, Figure))
    assert "Purple" in figure.caption
    drawn = ElementTree.fromstring(svg(figure.chart))
    names = [text.text for text in drawn.iter("text")]
    assert set(lab.SENTENCE.split()) <= set(names)  # the rows are named where they stand
    kinds: dict[float, set[str]] = {}
    for cell in drawn.iter("rect"):
        kinds.setdefault(float(cell.attrib["x"]), set()).add(cell.attrib["class"])
    for x, name in zip(sorted(kinds), lab.SEVEN, strict=True):
        assert (kinds[x] == {"mark s2"}) is not told[name].signed  # never the colour of a sign
    assert kinds[sorted(kinds)[lab.SEVEN.index("lime")]] == {"cell pos", "cell neg"}


def test_random_rankings_fail_the_claims_of_agreement(told: Any) -> None:
    """Taus around zero: no kinds."""
    run = LabRun()
    lab.many_agree(run, np.random.default_rng(0).normal(0, 0.2, (40, 21)), np.ones(40), lab.matrix_of(told))
    assert held(run)[0] is True
    assert held(run)[2] is False


def test_methods_that_agree_as_lime_does_with_itself_fail(told: Any) -> None:
    rng = np.random.default_rng(0)
    run = LabRun()
    lab.many_agree(run, rng.normal(0.85, 0.05, (40, 21)), rng.normal(0.9, 0.05, 40), lab.matrix_of(told))
    assert held(run)[0] is False


def test_a_lime_that_draws_noise_fails_the_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were LIME's scores another draw's each time, its tau with itself would be that of chance."""
    rng = np.random.default_rng(0)
    monkeypatch.setattr(lab.agreement, "kendall", lambda a, b: float(rng.normal(0, 0.2)))
    monkeypatch.setattr(lab, "skill", lambda model, told, seed: np.zeros(7))
    monkeypatch.setattr(lab, "FAST", 8)
    run = LabRun(fast=True)
    lab.disagreement(run)
    assert held(run)[1] is False


def test_the_matrix_of_means_is_in_order(told: Any) -> None:
    run = LabRun()
    lab.many_agree(run, np.arange(42.0).reshape(2, 21) / 100, np.ones(2), lab.matrix_of(told))
    table = next(
        part
        for part in run.parts
        if getattr(part, "title", "") == "Agreement of two methods on reviews (mean of Kendall's tau)"
    )
    rows = {row[0]: dict(zip(table.columns[1:], row[1:], strict=True)) for row in table.rows}  # type: ignore[union-attr]
    for number, (a, b) in enumerate(combinations(lab.SEVEN, 2)):
        assert rows[a][b] == rows[b][a] == pytest.approx((2 * number + 21) / 200)
    assert rows["lime"]["lime"] == 1


def test_skill_of_the_best_is_one_and_evidence_can_fail(told: Any) -> None:
    model = heedful.load("zoo:one-layer")
    found = lab.skill(model, told, 0)
    assert found.max() <= 1 + 1e-9
    assert found[lab.SEVEN.index("lime")] > 0.8
    run = LabRun()
    lab.evidence(run, np.random.default_rng(0).normal(0, 0.3, (30, 7)))
    assert held(run)[0] is False
