"""Every public result does what a result does: its methods are called, not only declared."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import heedful


@pytest.fixture(scope="module")
def comparison() -> heedful.Comparison:
    return heedful.explain("zoo:one-layer", "this film was not bad", ["occlusion", "grad-l2"], evidence=True)


def test_a_comparison_is_saved_and_opened(comparison: heedful.Comparison, tmp_path: Path) -> None:
    again = heedful.Comparison.load(comparison.save(tmp_path / "run"))
    assert list(again) == list(comparison)
    np.testing.assert_array_equal(again["occlusion"].scores, comparison["occlusion"].scores)


def test_one_explanation_is_saved_and_opened(comparison: heedful.Comparison, tmp_path: Path) -> None:
    item = comparison["occlusion"]
    again = heedful.Attribution.load(item.save(tmp_path / "one"))
    assert (again.method, again.x, again.target, again.over) == (item.method, item.x, item.target, "token")
    np.testing.assert_array_equal(again.scores, item.scores)
    with pytest.raises(heedful.HeedfulError, match="holds a run of kind explanation"):
        heedful.Attribution.load(comparison.save(tmp_path / "run"))


def test_pages_and_json(comparison: heedful.Comparison, tmp_path: Path) -> None:
    for result in (comparison, comparison["occlusion"]):
        assert json.loads(result.to_json())["x"]["text"] == "this film was not bad"
        assert "<html" in result.to_html(tmp_path / "page.html").read_text(encoding="utf-8")
        assert "bad" in result._repr_html_()


def test_a_score_that_is_no_number_is_an_empty_field(comparison: heedful.Comparison) -> None:
    from dataclasses import replace

    item = comparison["occlusion"]
    lost = replace(item, scores=np.full(len(item.x), np.nan))
    assert "nan" not in lost.to_csv()
