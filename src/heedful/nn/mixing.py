"""Where one row of attention a head averages its values: the place at which heedful reads and changes it.

    mixed_k = W_k sum_t alpha_{k,t} e_t        alpha (B, K, T), e (B, T, d), W (K, d_out, d) -> (B, K, d_out)

A classifier that sends its weights through `self.mix = Mixing()` and shows them by `attend` can be put on
trial: a hook on `mix` sees its weights and puts others, or other head outputs, in their place.
"""

from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn


class Mixing(nn.Module):
    """Values averaged by attention. A module, so that a hook can put other weights or head outputs in."""

    def forward(self, alpha: Tensor, e: Tensor, value: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """alpha (B, K, T) and sum_t alpha_t v_t (B, K, d_out)"""
        return alpha, torch.einsum("kod,bkd->bko", value, alpha @ e)


class OneLayerOutput(NamedTuple):
    """Logits, and the attention of the one query."""

    logits: Float[Tensor, "B classes"]
    attention: Float[Tensor, "B K T"]


@runtime_checkable
class Mixes(Protocol):
    """A classifier with one layer of attention and one query, mixed by `mix`; `config` builds another."""

    config: Any
    mix: Mixing

    def embed(self, ids: Tensor) -> Tensor: ...

    def attend(
        self,
        ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
    ) -> OneLayerOutput: ...
