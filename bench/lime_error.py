"""LIME to equal standard error: our default sampling against the lime package and captum.

All estimate the limit of the published LIME on the same logit, each word's coefficient free: the lime package
keeps its ridge and gets all words as features; captum gets LIME's sampling law and kernel and least squares
in place of its own coin tosses and Lasso, which answer another question.
"""

from __future__ import annotations

import numpy as np

from bench.errors import Explain, equal_error
from bench.models import classifier, question, word_scores
from bench.rivals import captum_rows, lime_text
from bench.timing import Ratio
from heedful.core import registry
from heedful.engine.question import run_explainer

TITLE = "LIME to equal standard error, 128 tokens"
ROWS, SEEDS = 640, 5


def run() -> list[Ratio]:
    model, x, target = question()
    function = lime_text.Counted(model.module, model.tokenizer, logits=True)
    forward = captum_rows.MaskedWords(model, x, target)
    d = len(x.units("word"))

    def lime(seed: int) -> np.ndarray:
        return lime_text.explain(function, x.text, target.index, ROWS, d, seed)

    def captum(seed: int) -> np.ndarray:
        return captum_rows.lime(forward, ROWS, seed, published=True)

    rivals = {
        "lime, batches of 64 (deletion)": (_ours("delete"), lime),
        "captum Lime, batches of 64 (masking)": (_ours("mask"), captum),
    }
    found = equal_error("LIME", rivals, rows=ROWS, seeds=SEEDS, at_most=0.4)
    return [r.told(f"{r.note}; on {classifier()[1]}", r.rows) for r in found]


def _ours(operator: str) -> Explain:
    model, x, target = question()

    def explain(seed: int) -> np.ndarray:
        lime = registry.get("lime")
        found = run_explainer(lime, model, x, target, samples=ROWS, precision=0, operator=operator, seed=seed)
        return word_scores(x, found.scores)

    return explain
