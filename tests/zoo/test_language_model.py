"""Perplexity of zoo:lm, measured again on held-out speeches that are committed here (CC0)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from transformers import AutoTokenizer, GPT2LMHeadModel

import heedful

train_lm = pytest.importorskip(
    "train_lm", reason="zoo/ (the training scripts) is not part of an installed wheel"
)
FOLDER = Path(heedful.__file__).parent / "zoo" / "lm"
SLICE = Path(__file__).parent / "data" / "held_out_speeches.json"


def test_perplexity_of_the_slice() -> None:
    reported = json.loads((FOLDER / "metrics.json").read_text())["test_slice"]
    speeches = json.loads(SLICE.read_text())
    assert sorted(speeches) == sorted(reported["speeches"])
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
