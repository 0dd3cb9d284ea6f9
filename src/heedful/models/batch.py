"""Rows of different lengths as one padded batch, and the logits a target reads from what comes back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from heedful.core.target import Target
from heedful.modalities.operators import InputRow
from heedful.models.backend import Inputs


def tail_of(row: InputRow, side: Target) -> tuple[int, ...]:
    """What is read after a row: what the target says was written, or what the row left of it."""
    return side.written if row.written is None else row.written.ids


def batch(
    chunk: Sequence[InputRow], target: Target, kind: str, pad: int, decoder_start: int | None
) -> tuple[Inputs, Tensor | None]:
    """(inputs padded on the right, positions (n, L) of the logits that are asked for; None: all there are).

    A causal model also reads what the target says was written; an encoder-decoder gets it, from
    `decoder_start` on, on its decoder side. Of a target with two sides, all rows come with the first,
    then all with the second.
    """
    tails = [tail_of(row, side) for side in target.sides for row in chunk]
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
    blank = tuple((i, t) for i, row in enumerate(chunk) for t in row.blank)
    inputs = Inputs(ids, mask, types, blank=blank)
    if causal:
        begins = [len(row) for row in chunk]  # where what was written begins
        places = _places(begins, tails, target)
        hidden, blank = _gone(chunk, begins)
        mask[_indices(hidden)] = 0
        kept = tuple(sorted(set(places.flatten().tolist())))
        return replace(inputs, blank=(*inputs.blank, *blank), keep_positions=kept), places
    if decoder_start is None:
        return inputs, None
    longest = max(map(len, tails))
    answer = torch.tensor([[decoder_start, *tail, *[pad] * (longest - len(tail))] for tail in tails])
    begins = [1] * len(chunk)
    hidden, blank = _gone(chunk, begins)
    values = torch.ones_like(answer)
    values[_indices(hidden)] = 0
    inputs = replace(inputs, answer=answer, answer_mask=values if hidden else None, answer_blank=blank)
    return inputs, None if target.kind == "sequence" else _places(begins, tails, target)


Places = tuple[tuple[int, int], ...]  # (row, position)


def _places(begins: Sequence[int], tails: Sequence[Sequence[int]], target: Target) -> Tensor:
    """(n, L) positions whose logits are asked for: the one before each token that was written, and the last;
    of a single token the last alone."""
    if target.kind == "sequence":
        return torch.tensor(begins)[:, None] - 1 + torch.arange(max(map(len, tails)) + 1)
    return torch.tensor([begin - 1 + len(tail) for begin, tail in zip(begins, tails, strict=True)])[:, None]


def _gone(chunk: Sequence[InputRow], begins: Sequence[int]) -> tuple[Places, Places]:
    """What is hidden, and what is blank, of what was written after each row."""
    parts = [(i, begins[i], row.written) for i, row in enumerate(chunk) if row.written is not None]
    hidden = tuple((i, begin + t) for i, begin, part in parts for t in part.hidden)
    return hidden, tuple((i, begin + t) for i, begin, part in parts for t in part.blank)


def _indices(places: Places) -> tuple[list[int], list[int]]:
    return [i for i, _ in places], [t for _, t in places]


def pick(logits: Tensor, places: Tensor | None, kept: tuple[int, ...] | None, target: Target) -> Tensor:
    """(n, C) as they are; (n, P, V) at the positions `kept` (None: at all) -> (n, L, V) of a sequence, (n, V)
    of a token."""
    if places is None:
        return logits
    # position -> column of `kept`
    where = (places if kept is None else torch.searchsorted(torch.tensor(kept), places)).to(logits.device)
    picked = logits.gather(1, where[..., None].expand(-1, -1, logits.shape[-1]))
    return picked if target.kind == "sequence" else picked[:, 0]
