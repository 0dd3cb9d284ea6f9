"""Files that are no UTF-8, and texts with half of a surrogate pair: such rows are skipped and recorded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import heedful
from heedful import HeedfulError
from heedful.cli.commands.heads_ablation import read
from heedful.features.activations.eval_windows import corpus
from heedful.features.activations.windows import TextSource, open_texts

TOLD = "a row is not valid UTF-8"
FILES = {
    "a.csv": b"text,label\ncaf\xe9 good,a\nthe cat sat,b\nhello world,a\n",
    "a.tsv": b"text\tlabel\ncaf\xe9 good\ta\nthe cat sat\tb\nhello world\ta\n",
    "a.jsonl": b'{"text": "\\ud800 x", "label": "a"}\n{"text": "the cat sat", "label": "b"}\n'
    b'{"text": "hello world", "label": "a"}\n',
    "a.txt": b"caf\xe9 good\nthe cat sat\nhello world\n",
}


@pytest.fixture(params=FILES)
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / str(request.param)
    path.write_bytes(FILES[path.name])
    return path


def test_a_row_that_is_no_text_is_skipped_and_recorded(file: Path) -> None:
    texts = TextSource(open_texts(file, "text"))
    assert [text.strip() for text in texts.each()] == ["the cat sat", "hello world"]
    assert texts.skipped == {TOLD: 1}


def test_harvests_and_measures_record_it(file: Path, shared: Callable[[str], Any], tmp_path: Path) -> None:
    model = shared("gpt2").model
    store = heedful.harvest(model, file, "blocks.0.resid", tmp_path / "store")
    assert store.facts.skipped == {TOLD: 1}
    assert corpus(model, file).notes == (f"skipped: {TOLD} (1 times)",)
    if file.suffix != ".txt":
        labelled = corpus(model, file, label_column="label")
        assert labelled.labels is not None
        assert sorted(labelled.labels) == ["a", "b"]
        assert f"skipped: {TOLD} (1 times)" in labelled.notes
        assert read(file, "text", "label", None).left == ("row 0 was skipped: the text is not valid UTF-8",)


def test_a_file_without_any_text_says_why(shared: Callable[[str], Any], tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"text\ncaf\xe9 good\n")
    model = shared("gpt2").model
    with pytest.raises(HeedfulError, match=f"there are no texts: {TOLD}"):
        heedful.harvest(model, path, "blocks.0.resid", tmp_path / "store")
    with pytest.raises(HeedfulError, match=f"no text to measure on: skipped: {TOLD}"):
        corpus(model, path)


def test_the_api_takes_such_texts_in_the_same_way(shared: Callable[[str], Any], tmp_path: Path) -> None:
    given = ["\ud800 half", "the cat sat"]
    store = heedful.harvest(shared("gpt2").model, given, "blocks.0.resid", tmp_path / "store")
    assert store.facts.skipped == {TOLD: 1}
