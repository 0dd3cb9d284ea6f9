"""The lab on removing and retraining: naive Bayes by hand, known words, and claims that fail."""

from __future__ import annotations

import numpy as np
import pytest

from heedful.core.lab_report import Claim
from heedful.labs import roar as lab
from heedful.labs.base.registry import LabRun
from heedful.labs.base.retraining_parts import share_span
from heedful.labs.data.reviews import reviews


def held(run: LabRun) -> list[bool]:
    return [part.holds for part in run.parts if isinstance(part, Claim)]


def test_features_tell_words_and_places_of_holes() -> None:
    owner, number = lab.features([[3, lab.HOLE, 9, lab.HOLE], [1]], size=5, longest=3)
    assert owner.tolist() == [0, 0, 1]
    assert number.tolist() == [3, 5 + 1, 1]


def test_naive_bayes_reads_words_and_holes() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(2, size=200).tolist()
    by_word = [[1, 2 + label, 1] for label in labels]
    by_hole = [[1, lab.HOLE, 1] if label else [1, 1, lab.HOLE] for label in labels]
    for texts in (by_word, by_hole):
        assert (lab.naive_bayes(texts, labels, 0)(texts) == np.array(labels)).all()
    same = [[1, 1, 1] for _ in labels]
    assert len(set(lab.naive_bayes(same, labels, 0)(same).tolist())) == 1


def test_marks_are_where_the_words_that_tell_stand() -> None:
    split, marks = lab.drawn_texts(50, np.random.default_rng(0))
    for text, label, mark in zip(split.tokens, split.labels, marks, strict=True):
        telling = {1 + lab.NEUTRAL + lab.MARKERS * label + k for k in range(lab.MARKERS)}
        assert [word in telling for word in text] == mark.astype(bool).tolist()
        assert mark.sum() == 2


def test_joined_texts_are_of_one_label() -> None:
    sentences = reviews("held")[::50]
    labels = {review.text: review.label for review in sentences}
    for text, label in lab.joined(sentences, 6, np.random.default_rng(0)):
        parts = [own for sentence, own in labels.items() if sentence in text]
        assert len(parts) >= 1
        assert set(parts) == {label}


def test_known_words_fall_and_the_leak_is_flagged() -> None:
    run = LabRun(fast=True)
    lab.synthetic(run, 160, 3)
    assert held(run) == [True] * 5


def test_marks_of_other_words_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    right = lab.drawn_texts

    def wrong(count: int, rng: np.random.Generator) -> object:
        split, marks = right(count, rng)
        return split, [np.roll(mark, 1) * (1 - mark) for mark in marks]

    monkeypatch.setattr(lab, "drawn_texts", wrong)
    run = LabRun(fast=True)
    lab.synthetic(run, 160, 3)
    assert held(run)[0] is False
    assert held(run)[2] is False


def test_a_leak_that_does_not_leak_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab, "leaking", lambda split, marks: marks)
    run = LabRun(fast=True)
    lab.synthetic(run, 160, 3)
    assert held(run)[3:] == [False, False]


def test_the_interval_of_an_accuracy_is_that_of_texts_at_least() -> None:
    low, high = share_span(1.0, (1.0, 1.0), 40)
    assert low == pytest.approx(0.025 ** (1 / 40))  # all forty right: Clopper and Pearson
    assert high == 1.0
    assert share_span(0.5, (0.1, 1.2), 40) == (0.1, 1.0)


def test_a_flag_on_an_honest_method_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were every method flagged, the claim that no others are would notice."""
    from heedful.retraining import roar_stats

    monkeypatch.setattr(roar_stats, "leaking", lambda told, usual: np.ones(len(told), dtype=bool))
    run = LabRun(fast=True)
    lab.synthetic(run, 160, 3)
    assert held(run)[4] is False
    assert held(run)[:4] == [True] * 4
