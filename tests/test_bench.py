"""The benchmark's page is what its results say; timing itself is not tested."""

from __future__ import annotations

import io
from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest
from bench import WORKLOADS, errors, page, results
from bench.__main__ import show
from bench.timing import Ratio, compare, quartiles
from rich.console import Console

TABLE = {  # what is promised about speed and memory
    "all trace methods together": "trace",
    "LIME, 1,000 samples, deletion": "lime_rows",
    "LIME, 1,000 samples, masking": "lime_rows",
    "LIME to equal standard error": "lime_error",
    "KernelSHAP to equal standard error": "shap_error",
    "integrated gradients to a 1e-3 gap": "integrated",
    "saliency of 16 generated tokens": "generated",
    "everything default on one text": "everything",
    "memory": "memory",
}
SLOW = Ratio("work", "rival", 0.7, 0.6, 0.8, at_most=0.6, pairs=3, ours=0.7, theirs=1.0)


def test_the_page_is_current() -> None:
    assert page.PAGE.read_text(encoding="utf-8") == page.markdown(results.read()), "run python -m bench.page"


def test_every_work_of_the_table_is_listed() -> None:
    """With its ratios, or as not measured."""
    assert set(TABLE.values()) <= set(WORKLOADS)
    told = page.PAGE.read_text(encoding="utf-8")
    for name in WORKLOADS:
        assert find_spec(f"bench.{name}"), f"{name} has no file"
        assert f"`python -m bench {name}`" in told


def test_a_limit_that_is_missed_is_told() -> None:
    out = io.StringIO()
    show([SLOW, replace(SLOW, work="fine", ratio=0.5)], Console(file=out, width=200))
    assert out.getvalue().count("MISSED") == 1
    machine = {"cpu": "a", "cores": 2, "threads": 2, "memory": "b"}
    told = page.markdown({"trace": results.Result("Trace", "2026-01-01", 1.0, machine, {}, [SLOW])})
    assert "**MISSED**" in told
    assert "0 of 1 limits are met, 1 MISSED" in told


def test_recording_one_workload_keeps_the_others(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(results, "LATEST", tmp_path / "results" / "latest.json")
    results.record("trace", "Trace", 1.0, [SLOW])
    results.record("rows", "Rows", 1.0, [replace(SLOW, ratio=0.1)])
    results.record("rows", "Rows", 1.0, [replace(SLOW, ratio=0.2)])
    found = results.read()
    assert found["trace"].ratios == [SLOW]
    assert [r.ratio for r in found["rows"].ratios] == [0.2]


def test_pairs_are_interleaved() -> None:
    calls: list[str] = []
    found = compare("w", "r", lambda: calls.append("a"), lambda: calls.append("b"), pairs=3)
    assert calls == ["a", "b"] * 4
    assert found.pairs == 3
    assert quartiles([2.0]) == (2.0, 2.0, 2.0)


def test_equal_error_counts_the_rows_the_rival_needs() -> None:
    """Twice the standard deviation at equal speed: four times the rows beyond one per word."""
    d, rows = 50, 151
    noise = np.random.default_rng(0).standard_normal((40, d))
    ours, theirs = errors.Runs(lambda _: noise[0]), errors.Runs(lambda _: noise[0])
    ours.scores, theirs.scores = list(noise), list(2 * noise)
    ours.seconds = theirs.seconds = [1.0] * 40
    found = errors._ratio("w", "r", ours, theirs, rows, 0.4)
    assert found.ratio == pytest.approx(rows / (d + 1 + 4 * (rows - d - 1)))
    assert found.low <= found.ratio <= found.high
