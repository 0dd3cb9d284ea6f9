"""Where a token is: positional codes, fixed or learned, added to the token's embedding.

    sinusoid: P[t, 2i] = sin(t / 10000^(2i/d)),  P[t, 2i+1] = cos(t / 10000^(2i/d))     (T, d), no parameters
    learned:  P is a table like the token table                                        (T, d), trained

Vaswani et al. 2017 (sinusoids); Radford et al. 2019 (learned).
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from heedful.core.errors import HeedfulError


def sinusoids(length: int, width: int, halves: bool = False) -> Float[Tensor, "T d"]:
    """Position codes with base 10000: sine on even coordinates, cosine on odd coordinates. With `halves`, all
    sines come first, then all cosines (the order of Marian, XLM and others)."""
    position = torch.arange(length, dtype=torch.float64)[:, None]  # (T, 1)
    even = torch.arange(0, width, 2, dtype=torch.float64)  # 2i
    rate = 10000.0 ** (-even / width)  # (ceil(d / 2),)
    codes = torch.zeros(length, width, dtype=torch.float64)
    codes[:, 0::2] = torch.sin(position * rate)
    codes[:, 1::2] = torch.cos(position * rate[: width // 2])
    if halves:
        codes = torch.cat([codes[:, 0::2], codes[:, 1::2]], dim=1)
    return codes.float()


def check_length(length: int, limit: int) -> None:
    """An error if a row of `length` tokens does not fit."""
    if length > limit:
        raise HeedfulError(f"{length} tokens, but the model reads at most {limit}", fix="Shorten the text")


class Embeddings(nn.Module):
    """E[ids] + P[0..T-1]. `positions` is "learned", "sinusoidal" or "none"."""

    def __init__(self, vocab_size: int, width: int, context: int, positions: str = "learned") -> None:
        super().__init__()
        self.token = nn.Embedding(vocab_size, width)
        if positions == "learned":
            self.position = nn.Parameter(torch.randn(context, width) * 0.02)
        elif positions in ("sinusoidal", "none"):
            table = sinusoids(context, width) if positions == "sinusoidal" else torch.zeros(context, width)
            self.register_buffer("position", table, persistent=False)
        else:
            raise HeedfulError(f"no positions {positions!r}", fix="Choose learned, sinusoidal or none")

    def forward(self, ids: Int[Tensor, "B T"]) -> Float[Tensor, "B T width"]:
        length = ids.shape[1]
        check_length(length, self.position.shape[0])
        out: Tensor = self.token(ids) + self.position[:length]
        return out
