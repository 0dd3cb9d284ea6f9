"""Attention of many inputs, in passes of equal length: no padding, so a map is the one the input has alone.

Cost: one forward an input, PASS_TOKENS or so a pass; a pass that does not fit the memory is run in halves.
Needs: a model that shows its attention weights (an encoder without a prediction will do).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from heedful.core.errors import HeedfulError
from heedful.core.progress import Report, counting
from heedful.modalities.operators import InputRow
from heedful.modalities.text import TextInput
from heedful.models.adapter import TokenModel
from heedful.models.passes import Pass, passes, same_length

PASS_TOKENS = 512  # a pass: the logits of a large vocabulary are what takes the memory


@dataclass(frozen=True, eq=False)
class MapsOfRows:
    """Inputs that were run together."""

    rows: tuple[int, ...]  # which of the inputs, B of them
    maps: npt.NDArray[np.float32]  # (B, L, H, T, T): self-attention, the encoder's of an encoder-decoder
    logits: Tensor | None  # (B, T, V) where they were wanted
    notes: tuple[str, ...] = ()


def row_of(x: TextInput) -> InputRow:
    return InputRow(x.ids, x.type_ids)


def batched_maps(
    model: TokenModel, rows: Sequence[InputRow], progress: Report | None = None, *, logits: bool = False
) -> Iterator[MapsOfRows]:
    """Every row once; shorter ones first. `logits` are those of every position, of a causal model."""
    require_maps(model)
    queue = same_length(rows, lambda length: model.rows_that_fit(length, PASS_TOKENS))
    want = ("attentions", "logits") if logits else ("attentions",)
    with torch.no_grad():
        for ran in passes(model, rows, queue, want=want, progress=counting(progress, "reading")):
            yield _as_arrays(model, ran, len(rows[ran.rows[0]]))


def require_maps(model: TokenModel) -> None:
    """An encoder without a head predicts nothing, but shows its maps."""
    if not (model.kind == "encoder" or "attentions" in model.capabilities):
        raise HeedfulError(
            f"{model.name} shows no attention weights", "its heads cannot be looked at", "Try --model zoo:lm"
        )


def require_causal(model: TokenModel, what: str) -> None:
    require_maps(model)
    if model.kind != "causal-lm":
        kind = f"{'an' if model.kind[:1] in 'aeiou' else 'a'} {model.kind}"
        raise HeedfulError(
            f"{what} needs a causal language model", f"{model.name} is {kind}", "Try --model zoo:lm"
        )


def _require_square(model: TokenModel, attentions: Sequence[Tensor], length: int) -> None:
    """A layer with one query for all (zoo:one-layer) has no word that looks at another."""
    if not attentions or any(layer.ndim != 4 or layer.shape[2] != length for layer in attentions):
        raise HeedfulError(
            f"the words of {model.name} do not look at each other",
            "its attention has no row for each token",
            "Try --model zoo:sentiment or zoo:lm",
        )


def _as_arrays(model: TokenModel, ran: Pass, length: int) -> MapsOfRows:
    _require_square(model, ran.attentions, length)
    maps = torch.stack([layer.detach().float().cpu() for layer in ran.attentions], 1)  # (B, L, H, T, T)
    if bool(maps.isnan().any()):
        raise HeedfulError(f"{model.name} attends NaN", "", "Check the weights, and the dtype")
    logits = None if ran.logits is None else ran.logits.detach().float().cpu()
    return MapsOfRows(ran.rows, maps.numpy(), logits, ran.notes)
