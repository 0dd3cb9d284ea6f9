"""Accuracy on the held-out IMDB reviews, measured again from the shipped files (`real`: needs a carrier)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from transformers import AutoTokenizer, BertForSequenceClassification, PreTrainedTokenizerFast

import heedful
from heedful.nn.one_layer import OneLayerClassifier

ZOO = Path(heedful.__file__).parent / "zoo"
pytestmark = pytest.mark.real

data = pytest.importorskip("data", reason="zoo/ (the training scripts) is not part of an installed wheel")


def test_splits_do_not_touch() -> None:
    split = data.imdb()
    texts = [{text for text, _ in split[part]} for part in ("train", "validation", "test")]
    assert [len(t) for t in texts] == [40_000, 2_500, 7_078]
    assert len(set.union(*texts)) == 40_000 + 2_500 + 7_078


def test_one_layer_accuracy() -> None:
    script = pytest.importorskip("train_one_layer")
    reported = json.loads((ZOO / "one-layer" / "metrics.json").read_text())["imdb_test"]
    tokenizer = PreTrainedTokenizerFast.from_pretrained(ZOO / "one-layer")
    rows = script.rows_of(script.encode(tokenizer, data.imdb()["test"]), None)
    right = script.count_right(OneLayerClassifier.load(ZOO / "one-layer"), rows)
    assert right / len(rows[1]) == pytest.approx(reported["accuracy"], abs=5e-4)  # ties in float32


def test_sentiment_accuracy() -> None:
    script = pytest.importorskip("train_sentiment")
    reported = json.loads((ZOO / "sentiment" / "metrics.json").read_text())["imdb_test"]
    rows = script.encode(AutoTokenizer.from_pretrained(ZOO / "sentiment"), data.imdb()["test"])
    right = script.count_right(BertForSequenceClassification.from_pretrained(ZOO / "sentiment"), rows)
    assert right / len(rows) == pytest.approx(reported["accuracy"], abs=5e-4)  # ties in float32
