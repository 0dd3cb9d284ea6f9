"""The masked-rows engine against the loop people write: one row per call, and one padded batch a call."""

from __future__ import annotations

import numpy as np
import torch

from bench.models import question
from bench.timing import Ratio, compare
from heedful.modalities.operators import RowRequest, delete

TITLE = "The perturbation engine"
ROWS = 128


def run() -> list[Ratio]:
    model, x, target = question()
    module, tokenizer = model.module, model.tokenizer
    groups = x.units("word")
    rng = np.random.default_rng(0)
    gone = rng.integers(1, len(groups), ROWS)  # LIME's removal counts: uniform
    keep = np.stack([rng.permutation(len(groups)) >= count for count in gone])
    texts = [
        delete(RowRequest(x, len(x), {t for d in np.flatnonzero(~row).tolist() for t in groups[d]})).ids
        for row in keep
    ]

    def ours() -> None:
        model.values(x, target, keep, "delete")

    def one_by_one() -> None:
        with torch.inference_mode():
            for ids in texts:
                module(torch.tensor([ids]))

    def padded() -> None:
        with torch.inference_mode():
            for start in range(0, ROWS, 64):
                chunk = [{"input_ids": list(ids)} for ids in texts[start : start + 64]]
                module(**tokenizer.pad(chunk, return_tensors="pt"))

    return [
        compare(
            f"{ROWS} texts with words deleted", "one text per call", ours, one_by_one, at_most=1.0, pairs=5
        ),
        compare(
            f"{ROWS} texts with words deleted",
            "batches of 64, not sorted by length",
            ours,
            padded,
            at_most=0.7,
            pairs=5,
        ),
    ]
