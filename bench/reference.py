"""The reference transformer against transformers' GPT-2 on the same weights: a textbook need not be slow."""

from __future__ import annotations

import torch

from bench.timing import Ratio, compare
from heedful.nn import GPT2, GPT2Config

TITLE = "The reference transformer"


def run() -> list[Ratio]:
    ours = GPT2(GPT2Config(vocab_size=4096, context=256, layers=4, heads=6, width=192, dropout=0.0))
    theirs = ours.to_transformers()
    ids = torch.randint(4096, (8, 128), generator=torch.Generator().manual_seed(0))

    def step_ours() -> None:
        ours.loss(ids).backward()

    def step_theirs() -> None:
        theirs(ids, labels=ids).loss.backward()

    return [compare("GPT-2 loss + backward, 8 x 128", "transformers", step_ours, step_theirs, at_most=1.1)]
