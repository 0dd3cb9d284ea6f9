"""Names of labels from a stranger's config: short enough to be shown, and no two the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from tests.attack import hostile_models as hostile

import heedful
from heedful.models.hf_config import MAX_LABEL, labels_of


def labels(*names: str) -> tuple[str, ...]:
    return labels_of(SimpleNamespace(id2label=dict(enumerate(names)), num_labels=len(names)))


def test_long_labels_are_cut() -> None:
    (label,) = labels("x" * 3_000_000)
    assert label == "x" * (MAX_LABEL - 1) + "…"
    assert labels("y" * MAX_LABEL) == ("y" * MAX_LABEL,)


def test_no_two_labels_are_the_same() -> None:
    assert labels("same", "same", "other", "same") == ("same", "same (2)", "other", "same (3)")
    assert labels("a", "a", "a (2)", "a") == ("a", "a (3)", "a (2)", "a (4)")
    cut = labels("x" * 500 + "1", "x" * 500 + "2")
    assert len(set(cut)) == 2
    many = labels(*["b"] * 100_000)  # in seconds
    assert len(set(many)) == len(many)


def test_a_folder_with_such_labels_is_explained(tmp_path: Path, shared: Callable[[str], Any]) -> None:
    folder = hostile.sound(tmp_path / "bert", shared("bert"))
    count = len(shared("bert").model.labels)
    hostile.edit("config.json", id2label={str(n): "x" * 100_000 for n in range(count)}, label2id=None)(folder)
    model = heedful.load(str(folder))
    assert len(set(model.labels)) == count
    assert max(map(len, model.labels)) < MAX_LABEL + 10
    result = heedful.explain(model, "the cat sat", ["grad-l2"], evidence=False)
    assert len(str(result)) < 10_000


def test_labels_of_pictures_too() -> None:
    module = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, 3))
    module.config = SimpleNamespace(id2label={0: "x" * 5000, 1: "same", 2: "same"})
    model = heedful.load(module, processor=heedful.ImageReader((2, 2)))
    assert model.labels == ("x" * (MAX_LABEL - 1) + "…", "same", "same (2)")
