"""What attention "says" about a text: how much of it each token gets.

    layer l      mean over heads of the rows the answer is read from: sum_q readout_q mean_h A^l[h, q, t]
    all layers   mean of these over layers
    rollout      attention multiplied through all layers, residual stream included

The read-out is [CLS], the last token, or all positions by their share of the answer; a one-layer model has
one row. Encoder-decoders show their cross-attention. Cost: one forward and backward a text.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from heedful.core.arrays import Floats
from heedful.explainers.attention_rollout import roll
from heedful.explainers.raw_attention import answer_rows
from heedful.trials.examples import Cases, Example
from heedful.trials.forward import predicted

ALL, ROLLOUT = "all layers", "rollout"


@dataclass(frozen=True, eq=False)
class AttendedText:
    """One text."""

    layers: Floats  # (L, T) rows sum to one
    rollout: Floats  # (T,)
    readout: Floats  # (Q,) share of the answer read at each query
    words: npt.NDArray[np.bool_]  # (T,) False for special tokens
    stack: str  # "self", "cross" for encoder-decoders: where weights are changed

    def views(self) -> dict[str, Floats]:
        """Name -> (T,). A single layer is its own mean, and its rollout adds nothing: it stands alone."""
        views = {layer_name(number): row for number, row in enumerate(self.layers)}
        if len(self.layers) > 1:
            views |= {ALL: self.layers.mean(0), ROLLOUT: self.rollout}
        return views


def layer_name(layer: int) -> str:
    return f"layer {layer}"


def shown(cases: Cases, case: Example) -> AttendedText:
    """One trace of the text, for what the model predicts."""
    trace = cases.model.trace(case.x, predicted(cases, case))
    count = len(trace.cross or trace.attentions)
    layers = torch.stack([answer_rows(trace, layer).mean(0) for layer in range(count)])  # (L, T)
    return AttendedText(
        layers.numpy(),
        roll(trace).double().cpu().numpy(),
        np.array(trace.readout),
        ~np.array(case.x.special, dtype=bool),
        "cross" if trace.cross else "self",
    )
