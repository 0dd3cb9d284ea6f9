"""Plausibility against scikit-learn, by hand, and against ERASER's definition written out again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, f1_score

from heedful import checks
from heedful.core.attribution import Attribution
from heedful.core.errors import HeedfulError
from heedful.core.registry import get_metric
from heedful.metrics import plausibility as p
from heedful.metrics.metric_input import MetricInput
from heedful.metrics.score import ScoreInputs, score_explanations

NAMES = ("plausibility", "plausibility-f1", "plausibility-iou")
PAIRS = st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1, max_size=15).filter(
    lambda rows: any(mark for _, mark in rows)
)
MARKS = st.lists(st.booleans(), min_size=1, max_size=12)
RNG = np.random.default_rng(0)


@given(PAIRS)
def test_average_precision_is_scikit_learns(rows: list[tuple[int, bool]]) -> None:
    scores, marks = np.array([float(s) for s, _ in rows]), np.array([m for _, m in rows])
    assert p.average_precision(scores, marks) == pytest.approx(average_precision_score(marks, scores))


def test_average_precision_by_hand() -> None:
    marks = np.array([True, False, True, False])
    assert p.average_precision(np.array([4.0, 3.0, 2.0, 1.0]), marks) == pytest.approx((1 + 2 / 3) / 2)
    assert p.average_precision(np.zeros(4), marks) == pytest.approx(0.5), "no order: the share of marks"


def test_spans_by_hand() -> None:
    marks = np.array([1, 1, 1, 1, 0, 0, 1, 1], dtype=bool)
    assert p.runs(marks) == [(0, 4), (6, 8)]
    half = np.array([1, 1, 0, 0, 0, 0, 0, 0], dtype=bool)
    assert p.span_counts(half, marks) == (1, 1, 2), "2 of 4: just enough"
    less = np.array([1, 0, 0, 0, 0, 1, 1, 0], dtype=bool)
    assert p.span_counts(less, marks) == (0, 2, 2), "1 of 4, and 1 of 3"
    assert p.f1(1, 1, 2) == pytest.approx(2 / 3)
    assert p.iou((0, 4), (2, 8)) == pytest.approx(2 / 8)


def eraser_spans(truth: list[set[range]], pred: list[set[range]], threshold: float) -> tuple[float, float]:
    """Micro and macro F1 from the definition: sets of tokens, the best overlap of each predicted span."""
    found, claimed, real = [], [], []
    for own, other in zip(pred, truth, strict=True):
        best = [max((len({*a} & {*b}) / len({*a} | {*b}) for b in other), default=0) for a in own]
        found.append(sum(value >= threshold for value in best))
        claimed.append(len(own))
        real.append(len(other))
    f = lambda a, b: 0 if a == 0 or b == 0 else 2 * a * b / (a + b)  # noqa: E731
    ratio = lambda a, b: a / b if b else 0  # noqa: E731
    micro = f(ratio(sum(found), sum(claimed)), ratio(sum(found), sum(real)))
    precision = np.mean([ratio(a, b) for a, b in zip(found, claimed, strict=True)])
    recall = np.mean([ratio(a, b) for a, b in zip(found, real, strict=True)])
    return micro, f(precision, recall)


def spans_in(marks: list[bool]) -> set[range]:
    """Stretches of True, letter by letter."""
    text = "".join("x" if mark else " " for mark in marks)
    out, at = set(), 0
    for piece in text.split(" "):
        if piece:
            out.add(range(at, at + len(piece)))
        at += len(piece) + 1
    return out


@given(st.lists(st.tuples(MARKS, st.randoms()), min_size=1, max_size=6))
def test_spans_are_erasers(texts: list[tuple[list[bool], Any]]) -> None:
    pairs = [(truth, [draw.random() < 0.5 for _ in truth]) for truth, draw in texts]
    counts = [p.span_counts(np.array(pred), np.array(truth)) for truth, pred in pairs]
    wanted = eraser_spans([spans_in(t) for t, _ in pairs], [spans_in(q) for _, q in pairs], 0.5)
    assert (p.micro(counts), p.macro(counts)) == pytest.approx(wanted)


def test_agreement_of_a_set_by_hand() -> None:
    marks = [np.array([1, 1, 0, 0, 0, 0], dtype=bool), np.array([0, 0, 1, 1, 1, 1], dtype=bool)]
    scores = [np.array([6.0, 5, 4, 3, 2, 1])] * 2
    found = p.agreement(scores, marks)
    assert found.share == pytest.approx(0.5)
    # three of each text: 2 of 3 right and both found; 1 of 3 right, 1 of 4 found
    assert found.f1_micro == pytest.approx(2 * 3 / (6 + 6))
    assert found.f1_macro == pytest.approx((0.8 + 2 / 7) / 2)
    # one span in each: [0, 3) covers [0, 2) by 2 of 3; [2, 6) by 1 of 6
    assert found.iou_micro == found.iou_macro == pytest.approx(0.5)
    assert found.auprc == pytest.approx(
        np.mean([average_precision_score(m, s) for m, s in zip(marks, scores, strict=True)])
    )
    assert p.agreement(scores, marks, share=1 / 3).f1_micro == pytest.approx(2 * 2 / (4 + 6))


@given(st.lists(PAIRS, min_size=1, max_size=5))
def test_units_are_scikit_learns(texts: list[list[tuple[int, bool]]]) -> None:
    marks = [np.array([m for _, m in rows]) for rows in texts]
    chosen = [p.top(np.array([float(s) for s, _ in rows]), 3, np.random.default_rng(0)) for rows in texts]
    counts = [p.unit_counts(a, b) for a, b in zip(chosen, marks, strict=True)]
    assert p.micro(counts) == pytest.approx(f1_score(np.concatenate(marks), np.concatenate(chosen)))


TEXT = "the cat sat on the mat the sat on mat"


def subject(scores: list[float], marks: tuple[bool, ...] | None) -> MetricInput:
    model: Any = checks.linear_model()
    x = model.encode(TEXT)
    item = Attribution(x, model.target(x), np.array(scores), method="m")
    return MetricInput(model, item, lambda *_: item, "word", marks)


GIVEN = (False, True, True, False, False, True, False, False, False, False)
PERFECT, WORST = [float(mark) for mark in GIVEN], [-float(mark) for mark in GIVEN]


@pytest.mark.parametrize("name", NAMES)
def test_what_people_marked_is_best_and_its_reverse_worst(name: str) -> None:
    run = get_metric(name).run
    assert run(subject(PERFECT, GIVEN), RNG) == 1.0
    assert run(subject(WORST, GIVEN), RNG) < 0.4


@pytest.mark.parametrize("name", NAMES)
def test_no_marks_no_value(name: str) -> None:
    run = get_metric(name).run
    for marks in (None, (False,) * 10, (True,) * 10):
        assert np.isnan(run(subject(PERFECT, marks), RNG))
    with pytest.raises(HeedfulError, match="about 3 units, the text has 10 words"):
        run(subject(PERFECT, GIVEN[:3]), RNG)


def test_as_many_units_as_are_marked() -> None:
    """Three are marked; the top three hold two of them, side by side with one other."""
    some = subject([0.0, 9, 8, 7, 0, 1, 0, 0, 0, 0], GIVEN)
    assert get_metric("plausibility-f1").run(some, RNG) == pytest.approx(2 / 3)
    # one span of three covers (cat, sat) by 2 of 3: 1 of 1 predicted, 1 of 2 marked
    assert get_metric("plausibility-iou").run(some, RNG) == pytest.approx(2 / 3)


@pytest.mark.parametrize("name", NAMES)
def test_equal_scores_get_no_gift_from_reading_order(name: str) -> None:
    first = tuple(i < 3 for i in range(10))
    flat = subject([1.0] * 10, first)
    values = [get_metric(name).run(flat, np.random.default_rng(seed)) for seed in range(200)]
    assert np.mean(values) < 0.45


def test_random_scores_stand_beside() -> None:
    made = subject(PERFECT, GIVEN)
    items = [made.item, replace(made.item, scores=np.array(WORST), method="worst")]
    found = {
        (s.metric, s.method): s
        for s in score_explanations(made.model, items, NAMES, known=ScoreInputs(rationale=GIVEN))
    }
    for name in NAMES:
        assert found[name, "m"].skill == pytest.approx(1.0)
        assert found[name, "worst"].skill < 0.3
    assert score_explanations(made.model, items, NAMES) == []
