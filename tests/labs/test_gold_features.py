"""The lab on gold words: greedy removal by hand, texts, and methods that find nothing."""

from __future__ import annotations

import numpy as np
import pytest

from heedful.core.lab_report import Claim
from heedful.labs import gold_features as lab
from heedful.labs.base.registry import LabRun
from heedful.retraining.glassbox_models import Logistic, Tree


def test_greedy_by_hand() -> None:
    box = Logistic(("good", "great", "bad"), np.array([2.0, 1.0, -3.0]), -0.5)
    assert lab.greedy(box, ["good", "great", "film"]) == {"good", "great"}  # 0.5 is left after "good"
    assert lab.greedy(box, ["good", "film"]) == {"good"}  # the answer changes at once
    assert lab.greedy(box, ["film", "bad"]) == {"bad", "film"}  # it never does, and words run out


def test_greedy_stops_at_the_first_change_of_a_tree() -> None:
    tree = Tree(0.6, "fine", Tree(0.3), Tree(0.8, "but", Tree(0.9), Tree(0.7)))
    assert lab.greedy(tree, ["fine", "but", "film"]) == {"fine"}


def test_texts_are_of_one_label_and_words_come_once() -> None:
    texts, labels = lab.documents("held", np.random.default_rng(0))
    assert len(texts) == len(labels) > 200
    assert 0.3 < labels.mean() < 0.7
    assert all(len(text) == len(set(text)) for text in texts)
    again, _ = lab.documents("held", np.random.default_rng(0))
    assert again == texts


@pytest.mark.parametrize("broken", [False, True])
def test_an_explainer_that_finds_nothing_fails(broken: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sentence whose first gold word changes the answer, so that greedy removal misses the other."""
    box = Logistic(("good", "great"), np.array([2.0, 2.0]), -3.0)
    texts = [["good", "great", *(f"w{i}{k}" for k in range(30))] for i in range(24)]
    if broken:
        blind = np.zeros((24, 4))
        monkeypatch.setattr(lab, "recalls", lambda *a: blind)
    run = LabRun(fast=True)
    lab.recall_of(run, "tree", box, texts, 300)
    claims = [part for part in run.parts if isinstance(part, Claim)]
    assert [claim.holds for claim in claims] == [not broken] * 2
    assert claims[1].against == 0.5
