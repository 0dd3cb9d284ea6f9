"""What a run saw on the way is what the model does when asked again, and costs nothing."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heedful
from heedful.comparisons.result import Comparison
from heedful.engine.session import Session
from heedful.reports import terminal
from heedful.reports.charts.sparkline import sparkline
from heedful.reports.tested_methods import ordered

TEXT = "the cat sat on the mat. hello world!"


@pytest.fixture(scope="module")
def model(shared: Callable[[str], Any]) -> Any:
    return shared("bert").model


@pytest.fixture(scope="module")
def seen(model: Any) -> Comparison:
    methods = ["occlusion", "grad-x-input", "attention-avg"]
    return heedful.explain(model, TEXT, methods, evidence=True)


def test_what_words_did_alone_is_what_the_model_does(model: Any, seen: Comparison) -> None:
    """Asked again, row by row, without any memory."""
    x, target = seen.x, seen.target
    d = len(x.units("word"))
    whole, one_out = np.ones((1, d), bool), ~np.eye(d, dtype=bool)
    found = {removal.operator: removal for removal in seen.internals.removals}
    assert {"delete", seen["occlusion"].params["operator"]} <= set(found)
    for operator, removal in found.items():
        truth = model.values(x, target, whole, operator) - model.values(x, target, one_out, operator)
        known = np.isfinite(removal.leave_one_out)
        assert known.any()
        assert np.asarray(removal.leave_one_out)[known] == pytest.approx(truth[known], abs=1e-5)
    mask = found[seen["occlusion"].params["operator"]]
    assert np.isfinite(mask.leave_one_out).all(), "occlusion has removed every word"
    assert list(mask.leave_one_out) == pytest.approx(
        [word.score for word in seen["occlusion"].words()], abs=1e-9
    )


def test_curves_are_deletions_in_the_method_s_own_order(model: Any, seen: Comparison) -> None:
    removal = next(r for r in seen.internals.removals if r.curves)
    assert removal.operator == "delete"
    assert set(removal.curves) == {"occlusion", "grad-x-input", "attention-avg"}
    d = len(seen.x.units("word"))
    for method, points in removal.curves.items():
        order = np.argsort([-word.score for word in seen[method].words()], kind="stable")
        for share, value in points:
            keep = np.ones((1, d), bool)
            keep[0, order[: round(share * d)]] = False
            assert value == pytest.approx(model.values(seen.x, seen.target, keep, "delete")[0], abs=1e-5)
    shares = [share for share, _, _ in removal.band]
    assert (shares[0], shares[-1]) == (0.0, 1.0)
    assert all(low <= high for _, low, high in removal.band)


def test_nothing_is_run_for_it(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    spent = []
    for blind in (True, False):
        run = Session(model)
        with monkeypatch.context() as patch:
            if blind:
                patch.setattr(
                    "heedful.comparisons.execute.internals_of", lambda *_: heedful.core.internals.Internals()
                )
            before = model.spent.unique
            heedful.explain(run, TEXT, ["occlusion", "attention-avg"], evidence=True)
            spent.append(model.spent.unique - before)
    assert spent[0] == spent[1]


def test_a_word_that_was_never_removed_is_not_guessed(model: Any) -> None:
    """Of a text of more than twenty words, the twenty that the methods name first are removed alone."""
    found = heedful.explain(model, " ".join([TEXT] * 3), ["grad-x-input"], evidence=True)
    (removal,) = found.internals.removals
    unknown = [not math.isfinite(value) for value in removal.leave_one_out]
    assert len(unknown) - sum(unknown) >= 20
    assert any(unknown)
    cells = re.findall(r'<td class="strong[^"]*"[^>]*><bdi>([^<]*)</bdi></td>', found.page())
    assert [cell == "–" for cell in cells] == unknown
    assert heedful.explain(model, TEXT, ["grad-x-input"], evidence=False).internals.removals == ()


def test_where_it_looked_is_the_attention_of_that_layer(model: Any, seen: Comparison) -> None:
    attention = seen.internals.attention
    assert attention is not None
    last = [word.score for word in seen["attention-avg"].words()]
    assert list(attention.weights[-1]) == pytest.approx(last, abs=1e-6)
    assert [
        sum(layer) + special for layer, special in zip(attention.weights, attention.special, strict=True)
    ] == [pytest.approx(1.0, abs=1e-5)] * len(attention.weights)


def test_it_comes_back_from_disk(seen: Comparison, tmp_path: Path) -> None:
    again = Comparison.load(seen.save(tmp_path / "run"))
    assert repr(again.internals) == repr(seen.internals)
    old = seen.to_dict()
    del old["internals"]  # a run of before
    from heedful.comparisons.explanation_codec import comparison_from_dict

    assert comparison_from_dict(old).internals.removals == ()


def test_claims_stand_beside_facts_with_their_rank_agreement(seen: Comparison) -> None:
    from scipy import stats

    source = seen.page()
    table = re.search(r'<table class="sortable">(.*?)</table>', source, re.DOTALL)
    assert table is not None
    last = re.findall(r"<td>(?:<bdi>)?([^<]*)", table[1].split('class="gap last"')[1])
    fullest = max(seen.internals.removals, key=lambda r: sum(map(math.isfinite, r.leave_one_out)))
    assert last.count("τ") == 1
    shown = [cell for cell in last if re.match("[−\\d]", cell)]
    truth = []
    for method in ordered(seen):
        claims = np.array([word.score for word in seen[method].words()])
        facts = np.array(fullest.leave_one_out)
        if not seen[method].signed:
            claims, facts = np.abs(claims), np.abs(facts)
        truth.append(stats.kendalltau(claims, facts).statistic)
    assert [float(cell.replace("−", "-")) for cell in shown] == pytest.approx(truth, abs=0.0051)


def test_features_of_a_dictionary_stand_on_the_page(model: Any, seen: Comparison) -> None:
    import torch

    from heedful.comparisons.internals import with_features
    from heedful.features.reading.explain_features import explain_features
    from heedful.features.sae.autoencoder import SAE
    from heedful.features.sae.config import Config

    torch.manual_seed(0)
    weights = (torch.randn(32, 40), torch.zeros(40), torch.randn(40, 32), torch.zeros(32))
    sae = SAE(Config("relu", 32, 40, source={"site": "blocks.1.resid"}), *weights)
    found = with_features(seen, model, sae)
    truth = explain_features(model, sae, seen.x, seen.target, 8)
    assert found.internals.features is not None
    assert [f.feature for f in found.internals.features.features] == [f.index for f in truth.features]
    assert [f.effect for f in found.internals.features.features] == [f.effect for f in truth.features]
    assert f"<bdi>{truth.features[0].index}</bdi></th>" in found.page().split("Which features were active")[1]
    whole = heedful.explain(model, TEXT, ["occlusion"], features=sae)
    assert whole.internals.features == found.internals.features


def test_sparklines_of_the_terminal(seen: Comparison) -> None:
    assert sparkline([0.0, 0.5, 1.0, math.nan], 0.0, 1.0) == "▁▅█ "
    assert sparkline([2.0, 2.0], 2.0, 2.0) == "▁▁"
    from io import StringIO

    from rich.console import Console

    out = StringIO()
    terminal.show(seen.document(), Console(file=out, width=120), verbose=True)
    drawn = re.findall(
        "[▁▂▃▄▅▆▇█]{4,}", out.getvalue().split("── Evidence ──")[1].split("lower is better")[0]
    )
    removal = next(r for r in seen.internals.removals if r.curves)
    assert len(drawn) == len(removal.curves) + 1
    assert {len(line) for line in drawn} == {len(removal.band)}
    assert not any(
        "▁" <= sign <= "█"
        for sign in str(replace(seen, internals=heedful.core.internals.Internals()).verdict)
    )


def test_time_left() -> None:
    from heedful.cli.console import time_left

    assert time_left(50, 200, 20.0) == ", about 60 s left"
    assert time_left(0, 200, 20.0) == time_left(200, 200, 20.0) == time_left(1, 9, 0.1) == ""
