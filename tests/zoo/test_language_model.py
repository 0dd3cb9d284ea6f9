"""Perplexity of zoo:lm, measured again on some of the held-out speeches that come with it (CC0)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyarrow import parquet
from transformers import AutoTokenizer, GPT2LMHeadModel

import heedful
from heedful.models.zoo import resolve

train_lm = pytest.importorskip(
    "train_lm", reason="zoo/ (the training scripts) is not part of an installed wheel"
)
FOLDER = Path(heedful.__file__).parent / "zoo" / "lm"


def test_perplexity_of_the_slice() -> None:
    reported = json.loads((FOLDER / "metrics.json").read_text())["test_slice"]
    every = {row["name"]: row["text"] for row in parquet.read_table(resolve.held_out("lm")).to_pylist()}
    speeches = {name: every[name] for name in reported["speeches"]}
    model = GPT2LMHeadModel.from_pretrained(FOLDER).eval()
    documents = train_lm.encode(AutoTokenizer.from_pretrained(FOLDER), list(speeches.values()))
    parts = [train_lm.log_probabilities(model, document) for document in documents]
    assert sum(map(len, parts)) == reported["tokens"]
    # 0.1 %: float32 kernels differ between machines
    assert train_lm.perplexity(parts) == pytest.approx(reported["perplexity"], rel=1e-3)


def test_below_kneser_ney() -> None:
    found = json.loads((FOLDER / "metrics.json").read_text())["test"]
    assert found["ratio"] == pytest.approx(found["perplexity"] / found["kneser_ney_perplexity"], abs=1e-3)
    assert found["ratio"] <= 0.85
