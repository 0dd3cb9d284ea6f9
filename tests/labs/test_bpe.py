"""Byte-pair encoding: counting by hand, and bugs that the claims must catch."""

from __future__ import annotations

import numpy as np
import pytest

from heedful.core.lab_report import Claim
from heedful.labs import bpe as lab
from heedful.labs.base.registry import LabRun
from heedful.nn import BPE


def test_the_textbook_by_hand() -> None:
    steps = lab.by_counting("low login", 20)
    assert [step.pair for step in steps[:2]] == [("l", "o"), ("g", "i")]
    assert [step.count for step in steps] == [2, 1, 1, 1, 1]
    assert steps[-1].words == [["low"], ["login"]]


@pytest.mark.parametrize(
    ("word", "want"), [("aaa", ["aa", "a"]), ("aaaa", ["aa", "aa"]), ("baab", ["b", "aa", "b"]), ("a", ["a"])]
)
def test_joining_goes_from_the_left(word: str, want: list[str]) -> None:
    assert lab.joined(list(word), ("a", "a")) == want


def test_counts_fall_until_whole_words() -> None:
    counts = [step.count for step in lab.by_counting(lab.SIMPLE, 40)]
    assert counts == sorted(counts, reverse=True)


def test_odd_strings_are_strings() -> None:
    for text in lab.odd(np.random.default_rng(0), 20):
        assert text.encode().decode() == text


def failed(run: LabRun) -> list[str]:
    return [part.sentence for part in run.parts if isinstance(part, Claim) and not part.holds]


def test_the_rarest_pair_first_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    right, run = lab.by_counting, LabRun(fast=True)

    def second_first(text: str, merges: int) -> list[lab.MergeStep]:
        first, second, *rest = right(text, merges)
        return [second, first, *rest]

    monkeypatch.setattr(lab, "by_counting", second_first)
    lab.textbook(run)
    assert len(failed(run)) == 2


def test_a_lost_character_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    right = BPE.decode
    monkeypatch.setattr(BPE, "decode", lambda self, ids, errors="replace": right(self, ids, errors)[:-1])
    run = LabRun(fast=True)
    lab.on_speeches(run)
    assert any("loses nothing" in sentence for sentence in failed(run))
