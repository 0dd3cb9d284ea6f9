"""What an audit runs unless told otherwise: four methods and two metric families; full=True runs all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from bench.verdicts.models import planted

import heedful
from heedful.audits import settings as audit_settings
from heedful.audits.estimate import estimate_audit
from heedful.audits.settings import quick_methods, resolve_settings, supported_methods
from heedful.core import registry
from heedful.core.defaults import CONTROL, FULL_METRICS, QUICK_METHODS, QUICK_METRICS


def names(model: Any, *args: Any, **more: Any) -> tuple[str, ...]:
    return resolve_settings(model, *args, **more).methods


def test_defaults_exist_and_cover_both_families() -> None:
    methods, metrics = registry.explainers(), registry.metrics()
    assert all(not methods[name].expensive for name in QUICK_METHODS)
    families = {entry.family for entry in metrics.values()} - {""}
    assert sorted(metrics[name].family for name in QUICK_METRICS) == sorted(families)
    assert {metrics[name].family for name in FULL_METRICS} >= families


def test_quick_is_the_default_and_full_is_everything(shared: Any) -> None:
    model = shared("bert").model
    quick = resolve_settings(model)
    assert quick.methods == ("occlusion", "integrated-gradients", "attention-avg", "lime")
    assert (quick.metrics, quick.search) == (QUICK_METRICS, False)
    full = resolve_settings(model, full=True)
    able = {entry.name for entry in registry.explainers().values() if not model.lacks(entry.needs)}
    expensive = {name for name in able if registry.get(name).expensive}
    assert set(full.methods) == able - expensive - {CONTROL}
    assert set(full.methods) > set(quick.methods)
    assert (full.metrics, full.search) == (FULL_METRICS, True)
    assert names(model, "all") == full.methods
    assert not resolve_settings(model, full=True, until_decided=True).search


def test_named_methods_and_metrics_override(shared: Any) -> None:
    model = shared("bert").model
    chosen = resolve_settings(model, ["grad-l2"], ["aopc"])
    assert (chosen.methods, chosen.metrics, chosen.search) == (("grad-l2",), ("aopc",), False)
    chosen = resolve_settings(model, ["grad-l2"], ["aopc"], full=True)
    assert (chosen.methods, chosen.metrics, chosen.search) == (("grad-l2",), ("aopc",), True)


@pytest.mark.parametrize(
    ("lacking", "expected"),
    [
        ({"gradients"}, ("occlusion", "attention-avg", "lime", "kernel-shap")),
        ({"attentions"}, ("occlusion", "integrated-gradients", "lime", "kernel-shap")),
        ({"values"}, ("integrated-gradients", "attention-avg", "grad-x-input", "attention-rollout")),
        ({"gradients", "attentions"}, ("occlusion", "lime", "kernel-shap")),
    ],
)
def test_a_model_that_lacks_something_gets_the_next(
    lacking: set[str], expected: tuple[str, ...], shared: Any
) -> None:
    class Without:
        def lacks(self, needs: set[str]) -> str:
            return shared("bert").model.lacks(needs) or ", ".join(lacking & set(needs))

    model: Any = Without()
    assert tuple(entry.name for entry in quick_methods(model)) == expected


def test_a_model_that_only_others_support_gets_those(monkeypatch: pytest.MonkeyPatch, shared: Any) -> None:
    """Methods that no list names, such as those of plugins, fill up."""
    entries = [registry.get(name) for name in ("grad-l1", "grad-l2", CONTROL)]
    monkeypatch.setattr(audit_settings, "supported_methods", lambda model: entries)
    assert [entry.name for entry in quick_methods(shared("bert").model)] == ["grad-l1", "grad-l2"]
    assert supported_methods(shared("bert").model) != entries


def test_a_quick_audit_ends_in_a_verdict(tmp_path: Path) -> None:
    """Python's defaults on a model whose reasons are known: both families take part, a method is named."""
    model = planted(0)
    texts = model.texts(20, 1)
    audit = heedful.audit(model, texts, out=tmp_path)
    assert {cell.family for cell in audit.verdict.cells} == {"remove-top", "keep-top"}
    assert audit.verdict.compared
    assert audit.verdict.use in ("occlusion", "lime", "kernel-shap")
    assert set(audit.verdict.better) == {"occlusion", "lime", "kernel-shap"}
    full = heedful.audit(model, texts, methods=["occlusion"], metrics=QUICK_METRICS, full=True)
    quick = heedful.audit(model, texts, methods=["occlusion"], metrics=QUICK_METRICS)
    assert quick.cost["run"] < full.cost["run"]
    assert repr(quick.verdict) == repr(full.verdict), "the search for the best order takes no part in it"


def test_the_cost_is_said_in_one_line() -> None:
    model = planted(0)
    texts = model.texts(12, 1)
    given: dict[str, Any] = {"methods": None, "metrics": None, "operators": None}
    told = estimate_audit(model, texts, **given)
    rows = 12 * told.likely_rows_per_text
    assert told.line.startswith(f"3 methods × 2 metrics × 12 texts: about {rows:,} model inputs, ")
    assert "\n" not in told.line
    assert told.likely_rows_per_text <= told.rows_per_text
    asked = heedful.audit(model, texts).cost["asked"]
    assert 0.5 < rows / asked < 2
    full = estimate_audit(model, texts, full=True, **given)
    assert full.likely_rows_per_text > 2 * told.likely_rows_per_text
    one = estimate_audit(model, texts[:1], **given | {"methods": ["occlusion"], "metrics": ["aopc"]})
    assert one.line.startswith("1 method × 1 metric × 1 text: ")
