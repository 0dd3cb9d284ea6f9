"""Attention of many inputs, in passes of equal length: no padding, so a map is the one the input has alone.

Cost: one forward an input, about TOKENS tokens a pass; a pass that does not fit the memory is run in halves.
Needs: a model that shows its attention weights (an encoder without a prediction will do).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from heedful.core.errors import HeedfulError
from heedful.core.input import Encoded
from heedful.core.progress import Report, counting
from heedful.modalities.operators import InputRow
from heedful.models.backend import Inputs
from heedful.models.passes import run_with_oom_retry

TOKENS = 512  # a pass: the logits of a large vocabulary are what takes the memory


@dataclass(frozen=True, eq=False)
class Pass:
    """Inputs that were run together."""

    rows: tuple[int, ...]  # which of the inputs, B of them
    maps: npt.NDArray[np.float32]  # (B, L, H, T, T): self-attention, the encoder's of an encoder-decoder
    logits: Tensor | None  # (B, T, V) where they were asked for
    notes: tuple[str, ...] = ()


def row_of(x: Encoded) -> InputRow:
    return InputRow(x.ids, x.type_ids)


def passes(
    model: Any, rows: Sequence[InputRow], progress: Report | None = None, *, logits: bool = False
) -> Iterator[Pass]:
    """Every row once; shorter ones first. `logits` are those of every position, of a causal model."""
    require_maps(model)
    done = 0

    def run(part: list[int]) -> Pass:
        return _run(model, [rows[i] for i in part], part, logits)

    for part, found in run_with_oom_retry(_chunks(rows, model.backend.one_row_at_a_time), run):
        yield found
        done += len(part)
        counting(progress, "reading")(done, len(rows))


def require_maps(model: Any) -> None:
    """An encoder without a head predicts nothing, but shows its maps."""
    if not hasattr(model, "backend") or not (model.kind == "encoder" or "attentions" in model.capabilities):
        raise HeedfulError(
            f"{model.name} shows no attention weights", "its heads cannot be looked at", "Try --model zoo:lm"
        )


def require_causal(model: Any, what: str) -> None:
    require_maps(model)
    if model.kind != "causal-lm":
        kind = f"{'an' if model.kind[:1] in 'aeiou' else 'a'} {model.kind}"
        raise HeedfulError(
            f"{what} needs a causal language model", f"{model.name} is {kind}", "Try --model zoo:lm"
        )


def _require_square(model: Any, attentions: Sequence[Tensor], length: int) -> None:
    """A layer with one query for all (zoo:one-layer) has no word that looks at another."""
    if not attentions or any(layer.ndim != 4 or layer.shape[2] != length for layer in attentions):
        raise HeedfulError(
            f"the words of {model.name} do not look at each other",
            "its attention has no row for each token",
            "Try --model zoo:sentiment or zoo:lm",
        )


def _chunks(rows: Sequence[InputRow], alone: bool) -> list[list[int]]:
    """Indices of rows of the same length, as many as fit a pass."""
    lengths: dict[int, list[int]] = {}
    for index, row in enumerate(rows):
        lengths.setdefault(len(row.ids), []).append(index)
    found = []
    for length, same in sorted(lengths.items()):
        most = 1 if alone else max(1, TOKENS // length)
        found += [same[i : i + most] for i in range(0, len(same), most)]
    return found


def _run(model: Any, rows: list[InputRow], indices: list[int], logits: bool) -> Pass:
    ids = torch.tensor([row.ids for row in rows])  # (B, T)
    types = None if rows[0].type_ids is None else torch.tensor([row.type_ids for row in rows])
    answer = None
    if model.kind == "encoder-decoder":  # its decoder must read something; the encoder's maps do not feel it
        answer = torch.full((len(rows), 1), model.backend.special_id("decoder_start") or 0)
    inputs = Inputs(ids, torch.ones_like(ids), types, answer)
    count, told = len(rows), None
    with (
        model.meter.counted(forwards=count, unique=count, tokens=ids.numel()),
        torch.inference_mode(False),
        torch.no_grad(),
    ):
        out = model.backend.traced(inputs) if logits else model.backend.attention_only(inputs)
    if logits:
        told = out.logits.detach().float().cpu()
        model.refuse_nan(told, inputs)
    _require_square(model, out.attentions, ids.shape[1])
    maps = torch.stack([layer.detach().float().cpu() for layer in out.attentions], 1)  # (B, L, H, T, T)
    if bool(maps.isnan().any()):
        raise HeedfulError(f"{model.name} attends NaN", "", "Check the weights, and the dtype")
    return Pass(tuple(indices), maps.numpy(), told, out.notes)
