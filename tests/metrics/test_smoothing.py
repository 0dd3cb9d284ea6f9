"""The smoothed-scores control of ROAD in an audit: the numbers, the sentence, and that they can be wrong."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import heedful
from heedful.core.defaults import CONTROL
from heedful.engine.session import Session
from heedful.metrics.road import SHARES, filled_values, kept
from heedful.metrics.score import Score
from heedful.metrics.smoothing import smoothed_controls, smoothing_sentences, without_smoothed
from heedful.modalities.neighbours import SMOOTHED, smoothed

TEXTS = ["The food was great but slow", "A bad film with a good start", "not good, not bad at all"]


def score(method: str, value: float, metric: str = "road-morf") -> Score:
    return Score(metric, "", method, value, 1.0, 0.0, 2.0, 3.0)


def texts(gains: list[float], metric: str = "road-morf") -> list[list[Score]]:
    return [
        [
            score("lime", 2.0 + 0.1 * n, metric),
            score(f"lime{SMOOTHED}", 2.0 + 0.1 * n + gain, metric),
            score(f"{CONTROL}{SMOOTHED}", 1.0 - gain, metric),
        ]
        for n, gain in enumerate(gains)
    ]


def test_the_gain_is_paired_and_has_the_sign_of_the_metric() -> None:
    lime, control = smoothed_controls(texts([0.5, 0.5, 0.5, 0.5]))
    assert (lime.method, control.method) == ("lime", CONTROL)
    assert lime.gain == pytest.approx(0.5)
    assert lime.interval == pytest.approx((0.5, 0.5)), "values differ by text, gains do not"
    assert lime.improved
    assert control.gain == pytest.approx(-0.5), "beside the control of the text, 1"
    assert not control.improved
    lime, control = smoothed_controls(texts([0.5, 0.5, 0.5, 0.5], "road-lerf"))
    assert (lime.improved, control.improved) == (False, True), "low is good"
    (one, _) = smoothed_controls(texts([0.5]))
    assert math.isnan(one.interval[0])
    assert not one.improved, "one text shows nothing"


def test_the_sentence_follows_the_interval() -> None:
    said = smoothing_sentences(smoothed_controls(texts([0.4, 0.5, 0.6, 0.5])))
    assert said[0].startswith("Smoothing alone improves road-morf of lime, although")
    said = smoothing_sentences(smoothed_controls(texts([0.4, -0.5, 0.6, -0.5])))
    assert said == ["Smoothing alone is not shown to improve road-morf of a method or of random scores."]
    assert smoothing_sentences([]) == []


def test_other_methods_keep_their_names() -> None:
    scores = [score(f"mine{SMOOTHED}", 1.0, "comprehensiveness"), score(f"lime{SMOOTHED}", 1.0)]
    assert without_smoothed(scores) == scores[:1]


@pytest.fixture(scope="module")
def audit() -> heedful.Audit:
    metrics = ["comprehensiveness", "road-morf", "road-lerf"]
    return heedful.audit("zoo:sentiment", TEXTS, methods=["occlusion", "grad-l2"], metrics=metrics, draws=3)


def by_hand(method: str, order: str) -> tuple[float, float]:
    """(value, value of the smoothed scores), means over the texts."""
    session, found = Session(heedful.load("zoo:sentiment")), []
    for text in TEXTS:
        item = heedful.explain(session.model, text, [method], evidence=False)[method]
        own = item.unit_scores("word")
        for scores in (own, smoothed(item.x, own)):
            keep = kept(scores, order, SHARES, np.random.default_rng(0))
            whole = np.ones((1, len(scores)), dtype=bool)
            values = filled_values(session, item.x, item.target, np.concatenate([whole, keep]))
            found.append(float(values[0] - values[1:].mean()))
    return float(np.mean(found[::2])), float(np.mean(found[1::2]))


@pytest.mark.parametrize("order", ["morf", "lerf"])
def test_an_audit_measures_what_the_formula_says(audit: heedful.Audit, order: str) -> None:
    there = {(one.metric, one.method): one for one in audit.smoothed}
    one = there[f"road-{order}", "occlusion"]
    assert (one.value, one.smoothed) == pytest.approx(by_hand("occlusion", order), abs=1e-3)
    assert one.n == len(TEXTS)
    assert one.interval[0] <= one.gain <= one.interval[1]
    assert {method for _, method in there} == {"occlusion", "grad-l2", CONTROL}
    value = next(e.value for e in audit.table if (e.metric, e.method) == (f"road-{order}", "occlusion"))
    assert one.value == pytest.approx(value)


def test_report_and_terminal_show_it_and_the_other_tables_do_not(audit: heedful.Audit) -> None:
    assert not any(SMOOTHED in e.method for e in audit.table)
    assert SMOOTHED not in audit.to_csv()
    for told in (str(audit), audit.page()):
        plain = " ".join(told.split())
        assert "Smoothed scores" in plain
        assert "random scores" in plain
        assert "Smoothing alone " in plain
    options = {"methods": ["occlusion"], "metrics": ["comprehensiveness"], "draws": 3}
    quiet = heedful.audit("zoo:sentiment", TEXTS, **options)
    assert not quiet.smoothed
    assert "moothing alone" not in str(quiet)


def test_it_is_stored(audit: heedful.Audit, tmp_path: Any) -> None:
    audit.save(tmp_path / "run")
    assert heedful.Audit.load(tmp_path / "run").smoothed == audit.smoothed
