"""Answers of a model and distances between them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from heedful.core.errors import HeedfulError
from heedful.trials.examples import prepare
from heedful.trials.rows import TrialRow

TEXTS = ["the cat sat on the mat.", "hello world", "not bad at all"]


def test_a_classifier_answers_with_probabilities(shared: Any) -> None:
    family = shared("bert")
    cases = prepare(family.model, TEXTS, ["positive", 0, None])
    assert [case.label for case in cases.cases] == [1, 0, None]
    for case, text in zip(cases.cases, TEXTS, strict=True):
        expected = family.model.logits(family.x(text)).double().softmax(-1)
        np.testing.assert_allclose(case.answer, expected.numpy(), atol=1e-12)


def test_total_variation_is_half_the_sum(shared: Any) -> None:
    cases = prepare(shared("bert").model, TEXTS)
    some, others = torch.tensor([[0.9, 0.1], [0.5, 0.5]]), torch.tensor([[0.2, 0.8], [0.5, 0.5]])
    torch.testing.assert_close(cases.apart(some, others), torch.tensor([0.7, 0.0]))


def test_labels_beside_each_other_differ_by_the_largest(shared: Any) -> None:
    cases = prepare(shared("bert-multi").model, TEXTS)
    some, others = torch.tensor([[0.9, 0.1, 0.5]]), torch.tensor([[0.2, 0.2, 0.5]])
    torch.testing.assert_close(cases.apart(some, others), torch.tensor([0.7]))
    assert cases.cases[0].answer.sum() != pytest.approx(1)


def test_a_regression_is_measured_in_its_own_spread(shared: Any) -> None:
    cases = prepare(shared("bert-regression").model, TEXTS)
    values = np.array([case.answer[0] for case in cases.cases])
    assert values.std() == pytest.approx(1)


def test_texts_that_cannot_be_read_are_told(shared: Any) -> None:
    model = shared("bert").model
    cases = prepare(model, [TEXTS[0], "", TEXTS[1]], long="skip")
    assert len(cases) == 2
    assert cases.notes[0].startswith("text 2")
    with pytest.raises(HeedfulError, match="no text"):
        prepare(model, [""])


def test_what_was_cut_or_is_of_no_use_is_told(shared: Any) -> None:
    long = prepare(shared("bert").model, ["the cat " * 100, TEXTS[0]])
    assert long.notes == ("1 of 2 texts were cut to what the model reads",)
    assert "not used" in prepare(shared("bert-regression").model, TEXTS, [0.7, 0.1, 0.2]).notes[0]
    with pytest.raises(HeedfulError, match=r"unknown label 0\.7"):
        prepare(shared("bert").model, TEXTS, [0.7, 1, 0])


def test_what_cannot_be_tried_is_refused_in_words(shared: Any) -> None:
    with pytest.raises(HeedfulError, match="one output per text"):
        prepare(shared("t5").model, TEXTS)
    with pytest.raises(HeedfulError, match="unknown label 'good'"):
        prepare(shared("bert").model, TEXTS, ["good", "bad", "bad"])
    with pytest.raises(HeedfulError, match="2 labels"):
        prepare(shared("bert").model, TEXTS, [0, 1])


def test_a_finding_is_plain_json() -> None:
    found = TrialRow("seeds", "x", float("nan"), (0.0, float("inf")), extra={"a": float("nan"), "b": 1.0})
    assert found.to_dict()["value"] is None
    assert found.to_dict()["interval"] == [0.0, "Infinity"]
    assert found.to_dict()["extra"] == {"a": None, "b": 1.0}
