"""Harvesting activations beside the bare model on the same batches.

Ours is the whole harvest: tokenize, pass, shuffle, write. The bare model is `module(ids)` in inference mode
on batches made beforehand, no hooks. A harvest's passes end at the site, which is a saving that a site at the
end would not have: so it is timed with passes to the end of the model as well.
"""

from __future__ import annotations

import tempfile
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

import heedful
from bench.timing import Ratio, compare
from heedful.features.activations.windows import Batch, TextSource, batches, cut_for, open_texts, windows
from heedful.labs.data.speeches import speeches
from heedful.models.backend import Inputs
from heedful.models.sites.access import reading

TITLE = "Harvesting activations of zoo:lm, 40,000 tokens"
SITE, TOKENS, PAIRS = "blocks.2.resid", 40_000, 7
harvesting: Any = import_module("heedful.features.activations.harvest")
AT_MOST = 1 / 0.85  # of the bare model's seconds


def whole_pass(model: Any, inputs: Inputs, names: list[str]) -> Any:
    """Like heedful.models.sites.access.read, but to the end of the model."""
    with reading(model, names) as seen:
        model.backend.forward(inputs)
    return seen


def first_batches(model: Any, corpus: list[str]) -> tuple[list[Batch], int]:
    """What a harvest of TOKENS reads, and how many tokens of it are kept."""
    cut = cut_for(model, None, None, True)
    found = windows(TextSource(open_texts(corpus, "text")), model.tokenizer, cut)
    made, tokens = [], 0
    for batch in batches(found, harvesting.BATCH_TOKENS, cut.pad):
        made.append(batch)
        tokens += int(batch.keep.sum())
        if tokens >= TOKENS:
            break
    return made, tokens


def run() -> list[Ratio]:
    model: Any = heedful.load("zoo:lm")
    corpus = list(speeches("train").values())
    made, tokens = first_batches(model, corpus)
    to_the_site = harvesting.read

    def bare() -> None:
        with torch.inference_mode():
            for batch in made:
                model.module(input_ids=batch.ids, attention_mask=batch.mask, use_cache=False)

    def harvest(read: Any) -> None:
        harvesting.read = read
        try:
            with tempfile.TemporaryDirectory() as folder:
                heedful.harvest(model, corpus, SITE, Path(folder) / "acts", rows=tokens, dtype="float16")
        finally:
            harvesting.read = to_the_site

    ways = {
        "harvest, forward passes stop at the layer that is read": to_the_site,
        "harvest, complete forward passes": whole_pass,
    }
    return [
        compare(
            what,
            "only the model, on the same batches",
            partial(harvest, read),
            bare,
            at_most=AT_MOST,
            pairs=PAIRS,
        ).told(f"{SITE}, {tokens:,} activations of {model.module.config.n_embd} numbers in half precision")
        for what, read in ways.items()
    ]
