"""What stands around attention: normalisation, the non-linearities, the MLP, and the pre-LN block.

    LayerNorm(x) = (x - mean x) / sqrt(var x + eps) * gamma + beta       over the last axis, biased variance
    GELU(x)      = x Phi(x),  Phi(x) = 1/sqrt(2 pi) int_{-inf}^x exp(-t^2/2) dt  (docs/errata.md, E4)
    SoLU(x)      = x * softmax(x)                                        (Elhage et al. 2022)
    block:  x <- x + Attention(LN_1 x);   x <- x + MLP(LN_2 x)           (pre-LN; docs/errata.md, E10)

The functions are the formulas; the modules call torch's fused twins of them, which the tests hold equal.

Ba et al. 2016 (LayerNorm); Hendrycks & Gimpel 2016 (GELU); Elhage et al. 2022 (SoLU); Radford et al. 2019.
"""

import math
from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from heedful.core.errors import HeedfulError
from heedful.nn.attention import MultiHeadAttention


def layer_norm(
    x: Float[Tensor, "*b d"],
    gain: Float[Tensor, " d"] | None = None,
    bias: Float[Tensor, " d"] | None = None,
    eps: float = 1e-5,
) -> Float[Tensor, "*b d"]:
    """(x - mean) / sqrt(var + eps), then gain and bias where given."""
    centred = x - x.mean(-1, keepdim=True)
    out = centred / (centred.square().mean(-1, keepdim=True) + eps).sqrt()
    out = out if gain is None else out * gain
    return out if bias is None else out + bias


def gelu(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """x Phi(x), exact: Phi(x) = (1 + erf(x / sqrt 2)) / 2."""
    return x * 0.5 * (1 + torch.erf(x / math.sqrt(2)))


def gelu_tanh(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """The approximation GPT-2 was trained with; at most 5e-4 from `gelu`."""
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x.pow(3))))


def solu(x: Float[Tensor, "*b d"]) -> Float[Tensor, "*b d"]:
    """x * softmax(x): large entries stay, and entries that are much smaller go to zero.

    (4, 1, 4, 1) -> (1.905, .024, 1.905, .024);  (1, 1, 1, 1) -> 1/4 each.
    """
    return x * x.softmax(-1)


def solu_layer_norm(
    x: Float[Tensor, "*b d"],
    gain: Float[Tensor, " d"] | None = None,
    bias: Float[Tensor, " d"] | None = None,
) -> Float[Tensor, "*b d"]:
    """LN(x * softmax(x)), the form that trains as well as GELU."""
    return layer_norm(solu(x), gain, bias)


class SoLU(nn.Module):
    """SoLU followed by a LayerNorm with its own gain and bias."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Float[Tensor, "*b d"]) -> Float[Tensor, "*b d"]:
        out: Tensor = self.norm(solu(x))
        return out


ACTIVATIONS: dict[str, Callable[[int], Callable[[Tensor], Tensor]]] = {  # name -> (hidden width -> function)
    "gelu": lambda _: partial(F.gelu, approximate="tanh"),
    "gelu-exact": lambda _: F.gelu,
    "relu": lambda _: F.relu,
    "silu": lambda _: F.silu,
    "solu": lambda _: solu,
    "solu-ln": SoLU,
}


class MLP(nn.Module):
    """W_2 act(W_1 x + b_1) + b_2. The default hidden size is 4 x width."""

    def __init__(self, width: int, hidden: int | None = None, activation: str = "gelu") -> None:
        super().__init__()
        if activation not in ACTIVATIONS:
            raise HeedfulError(f"no activation {activation!r}", fix=f"Choose one of {', '.join(ACTIVATIONS)}")
        hidden = hidden or 4 * width
        self.up = nn.Linear(width, hidden)
        self.act = ACTIVATIONS[activation](hidden)
        self.down = nn.Linear(hidden, width)

    def forward(self, x: Float[Tensor, "*b width"]) -> Float[Tensor, "*b width"]:
        out: Tensor = self.down(self.act(self.up(x)))
        return out


class Block(nn.Module):
    """One pre-LN transformer layer. With `mask=None`, attention is causal."""

    def __init__(self, width: int, heads: int, dropout: float = 0.0, activation: str = "gelu") -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attn = MultiHeadAttention(width, heads, dropout=dropout)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = MLP(width, activation=activation)
        self.drop = nn.Dropout(dropout)

    def forward(
        self, x: Float[Tensor, "B T width"], mask: Float[Tensor, "B 1 T T"] | None = None
    ) -> Float[Tensor, "B T width"]:
        x = x + self.drop(self.attn.fused(self.norm1(x), mask=mask, is_causal=mask is None))
        out: Tensor = x + self.drop(self.mlp(self.norm2(x)))
        return out
