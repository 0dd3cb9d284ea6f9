"""A plain function list[str] -> scores: only text goes in, so the texts must be exactly right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import heedful
from heedful.core.errors import HeedfulError
from heedful.models.load import load


def seen_texts(text: str, gone: list[int], operator: str, unit: str = "word") -> str:
    """The one text the function was asked about."""
    asked: list[str] = []

    def function(texts: list[str]) -> list[float]:
        asked.extend(texts)
        return [0.0] * len(texts)

    model = load(function, labels=("score",))
    x = model.encode(text)
    target = model.target(x)
    asked.clear()
    keep = np.ones((1, len(x.units(unit))), dtype=bool)
    keep[0, gone] = False
    model.values(x, target, keep, operator, unit)
    assert len(asked) == 1
    return asked[0]


@pytest.mark.parametrize(
    ("text", "gone", "deleted", "masked"),
    [
        ("the cat sat", [], "the cat sat", "the cat sat"),
        ("the cat sat", [0], "cat sat", "[MASK] cat sat"),
        ("the cat sat", [1], "the sat", "the [MASK] sat"),
        ("the cat sat", [2], "the cat", "the cat [MASK]"),
        ("the cat sat", [0, 1, 2], "", "[MASK] [MASK] [MASK]"),
        ("Hello, world!", [1], "Hello world!", "Hello[MASK] world!"),
        ("Hello, world!", [2], "Hello,!", "Hello, [MASK]!"),
        ("Hello, world!", [0, 1], "world!", "[MASK][MASK] world!"),
        ("a\n\nb  c", [1], "a  c", "a\n\n[MASK]  c"),
        ("  a b ", [0], "b ", "  [MASK] b "),
        ("  a b ", [1], "  a ", "  a [MASK] "),
        ("x👨‍👩‍👧y", [1], "xy", "x[MASK]y"),
        ("don't go", [0], "go", "[MASK] go"),
    ],
)
def test_texts_with_words_removed(text: str, gone: list[int], deleted: str, masked: str) -> None:
    assert seen_texts(text, gone, "delete") == deleted
    assert seen_texts(text, gone, "mask") == masked


def test_sentences_can_be_removed() -> None:
    assert seen_texts("One two. Three four!", [0], "delete", "sentence") == "Three four!"


def test_one_column_or_several() -> None:
    one = load(lambda texts: [float(len(t)) for t in texts])
    x = one.encode("the cat")
    assert one.labels == ("score 0",)
    assert one.predict(x) == [("score 0", 7.0)]
    many = load(lambda texts: np.array([[t.count("a"), t.count("t")] for t in texts]), labels=("a", "t"))
    assert many.predict(many.encode("the cat")) == [("t", 2.0), ("a", 1.0)]
    assert many.target(x).label == "t"
    contrast = many.target(x, {"label": "t", "contrast": "a"})
    assert many.values(x, contrast, np.ones((1, 2), dtype=bool)).tolist() == [1.0]


def test_occlusion_by_hand() -> None:
    cmp = heedful.explain(lambda texts: [2.0 * t.count("cat") - t.count("dog") for t in texts], "cat and dog")
    assert cmp["occlusion"].scores.tolist() == [2.0, 0.0, -1.0]
    assert cmp["occlusion"].output == 1.0
    assert set(cmp) == {"occlusion", "random"} | (set(cmp) - {"grad-l2", "attention-avg"})
    assert "gradients" in cmp.skipped["grad-l2"]


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        (lambda texts: 1.0, r"shape \(\) for 1 texts"),
        (lambda texts: [[[1.0]]] * len(texts), r"shape \(1, 1, 1\)"),
        (lambda texts: [1.0] * (len(texts) + 1), r"shape \(2,\) for 1 texts"),
        (lambda texts: [float("nan")] * len(texts), "NaN or infinity"),
        (lambda texts: [float("inf")] * len(texts), "NaN or infinity"),
        (lambda texts: ["good"] * len(texts), "no numbers"),
        (lambda texts: None, "shape"),
        (lambda texts: [[1.0, 2.0], [1.0]], "no numbers"),
    ],
)
def test_nonsense_is_told_so(scores: Any, message: str) -> None:
    with pytest.raises(HeedfulError, match=message):
        heedful.explain(load(scores, labels=("a",)), "the cat")


def test_a_wrong_number_of_labels_is_refused() -> None:
    with pytest.raises(HeedfulError, match=r"2 labels.*1"):
        heedful.explain(load(lambda texts: [0.0] * len(texts), labels=("a", "b")), "the cat")


@pytest.mark.parametrize("wrong", ["", " \n", 3, ("a", "b")])
def test_wrong_texts_are_refused(wrong: Any) -> None:
    with pytest.raises(HeedfulError):
        load(lambda texts: [0.0] * len(texts)).encode(wrong)


def test_operators_masks_and_traces_are_refused() -> None:
    model = load(lambda texts: [0.0] * len(texts))
    x = model.encode("a b")
    target = model.target(x)
    with pytest.raises(HeedfulError, match="cannot be removed by 'pad': this model does not offer it"):
        model.values(x, target, np.ones((1, 2), dtype=bool), "pad")
    with pytest.raises(HeedfulError, match=r"shape \(1, 3\)"):
        model.values(x, target, np.ones((1, 3), dtype=bool))
    with pytest.raises(HeedfulError, match="that needs gradients with respect to its input"):
        model.trace(x, target)


def test_duplicates_are_asked_once() -> None:
    sizes: list[int] = []

    def function(texts: list[str]) -> list[float]:
        sizes.append(len(texts))
        return [float(len(t)) for t in texts]

    model = load(function, labels=("n",))
    text = " ".join(f"{i}" for i in range(100))
    x = model.encode(text)
    keep = np.concatenate([~np.eye(100, dtype=bool)] * 2)
    values = model.values(x, model.target(x), keep)
    assert max(sizes) <= 64
    assert sum(sizes) == 1 + 100  # the target, then each text once
    assert values.tolist() == [float(len(text) - len(w) - 1) for w in text.split()] * 2
    assert (model.spent.forwards, model.spent.unique) == (200, 100)
