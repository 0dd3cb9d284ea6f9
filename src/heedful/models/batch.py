"""Rows of different lengths as one padded batch, and the logits a target reads from what comes back."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from heedful.models.base import Inputs
from heedful.rows import Row
from heedful.types import Target


def batch(
    chunk: Sequence[Row], target: Target, kind: str, pad: int, decoder_start: int | None
) -> tuple[Inputs, Tensor | None]:
    """(inputs padded on the right, positions (n, L) of the logits a causal model is asked for).

    A causal model also reads what the target says was written; an encoder-decoder gets it, from
    `decoder_start` on, on its decoder side. Of a target with two sides, all rows come with the first,
    then all with the second.
    """
    tails = [side.written for side in target.sides for _ in chunk]
    chunk = [*chunk] * len(target.sides)
    causal = kind == "causal-lm"
    rows = [(*row.ids, *(tail if causal else ())) for row, tail in zip(chunk, tails, strict=True)]
    width = max(map(len, rows))
    ids = torch.tensor([[*row, *[pad] * (width - len(row))] for row in rows])
    mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows])
    for i, row in enumerate(chunk):
        mask[i, list(row.hidden)] = 0
    types = None
    if chunk[0].type_ids is not None:
        types = torch.tensor([[*(row.type_ids or ()), *[0] * (width - len(row))] for row in chunk])
    places = None
    longest = max(map(len, tails))
    if causal:
        steps = torch.arange(0 if target.kind == "sequence" else longest, longest + 1)
        places = torch.tensor([len(row) - 1 for row in chunk])[:, None] + steps  # (n, L)
    answer = None
    if decoder_start is not None:
        answer = torch.tensor([[decoder_start, *tail, *[pad] * (longest - len(tail))] for tail in tails])
    inputs = Inputs(
        ids,
        mask,
        types,
        answer=answer,
        blank=tuple((i, t) for i, row in enumerate(chunk) for t in row.blank),
        keep_positions=None if places is None else tuple(sorted(set(places.flatten().tolist()))),
    )
    return inputs, places


def pick(logits: Tensor, places: Tensor | None, kept: tuple[int, ...] | None, target: Target) -> Tensor:
    """(n, C) as they are; (n, P, V) at the positions `kept` -> (n, L, V) of a sequence, (n, V) of a token."""
    if places is None:
        return logits
    where = torch.searchsorted(torch.tensor(kept), places).to(logits.device)  # position -> column of `kept`
    picked = logits.gather(1, where[..., None].expand(-1, -1, logits.shape[-1]))
    return picked if target.kind == "sequence" else picked[:, 0]
