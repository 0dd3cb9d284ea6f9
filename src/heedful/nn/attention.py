"""Attention, written as the formula.

    A = softmax(scores + M)                 out = A V
    scores_st = q_s . k_t / sqrt(d)         score="dot": scaled dot product (Vaswani et al. 2017)
              = u . tanh(q_s + k_t)         score="additive" (Bahdanau et al. 2015), u learned

Q (S, d) queries, K (T, d) keys, V (T, d_v) values, M (S, T) additive mask: 0 where query s may look at key t,
-inf where it may not, so every row of A still sums to one (docs/errata.md, E5 and E6: add, never multiply;
allow t <= s, the diagonal included; divide by sqrt(d) always). Bahdanau's u . tanh(W q + V k) is the additive
score of the projected W q and V k, as the dot product, too, is taken of projected queries and keys.
Cost O(S T d); the additive score also needs that memory. Needs: nothing but torch.

Single-query, self-, masked and cross-attention are this one function with other arguments:
single-query has S = 1, self-attention takes Q, K, V from the same tokens, masked adds `causal_mask`, cross
takes K and V from another sequence; multi-head runs it H times on slices of size d = width / H.

Vaswani et al., Attention Is All You Need, NeurIPS 2017; Bahdanau et al., ICLR 2015.
"""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Shaped
from torch import Tensor, nn

from heedful.core.errors import HeedfulError

SCORES = ("dot", "additive")


class AttentionResult(NamedTuple):
    """What attention returns: the mixed values and the weights that mixed them."""

    out: Float[Tensor, "*b S d_v"]
    weights: Float[Tensor, "*bh S T"]  # multi-head: (B, H, S, T) beside out (B, S, width)


def dot_scores(query: Float[Tensor, "*b S d"], key: Float[Tensor, "*b T d"]) -> Float[Tensor, "*b S T"]:
    """q . k / sqrt(d)."""
    return query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])


def additive_scores(
    query: Float[Tensor, "*b S d"], key: Float[Tensor, "*b T d"], u: Float[Tensor, "*h d"]
) -> Float[Tensor, "*b S T"]:
    """u . tanh(q + k), for `u` (d,) or one per head (H, d)."""
    both = torch.tanh(query.unsqueeze(-2) + key.unsqueeze(-3))  # (*b, S, T, d)
    column = u[:, None] if u.dim() == 1 else u[..., None, :, None]  # (d, 1), or one per head (H, 1, d, 1)
    return (both @ column).squeeze(-1)


def attention(
    query: Float[Tensor, "*b S d"],
    key: Float[Tensor, "*b T d"],
    value: Float[Tensor, "*b T d_v"],
    mask: Float[Tensor, "..."] | None = None,
    score: str = "dot",
    u: Float[Tensor, "*h d"] | None = None,
) -> AttentionResult:
    """Compute softmax(scores + mask) V, and the weights. `mask` broadcasts to (*b, S, T). The score
    "additive" needs `u`."""
    check_score(score)
    if (u is None) == (score == "additive"):
        raise HeedfulError(
            "the additive score, and no other, has a vector u", fix='Use score="additive", u=...'
        )
    scores = dot_scores(query, key) if u is None else additive_scores(query, key, u)  # (*b, S, T)
    if mask is not None:
        scores = scores + mask
    weights = scores.softmax(dim=-1)  # (*b, S, T), rows sum to one
    return AttentionResult(weights @ value, weights)  # (*b, S, d_v)


def single_query(
    query: Float[Tensor, "*b d"],
    key: Float[Tensor, "*b T d"],
    value: Float[Tensor, "*b T d_v"],
    mask: Float[Tensor, "..."] | None = None,
    score: str = "dot",
    u: Float[Tensor, "*h d"] | None = None,
) -> tuple[Float[Tensor, "*b d_v"], Float[Tensor, "*b T"]]:
    """Attention of one query: (sum_t alpha_t v_t, alpha) with alpha = softmax_t(scores_t). `mask` is (*b,
    T)."""
    rows = None if mask is None else mask.unsqueeze(-2)
    out, weights = attention(query.unsqueeze(-2), key, value, rows, score, u)
    return out.squeeze(-2), weights.squeeze(-2)


def check_score(score: str) -> None:
    """An error if there is no such score."""
    if score not in SCORES:
        raise HeedfulError(f"no score {score!r}", fix=f"Choose {' or '.join(SCORES)}")


def causal(length: int, device: torch.device | None = None) -> Bool[Tensor, "T T"]:
    """True where query s (row) may look at key t (column): t <= s."""
    return torch.ones(length, length, dtype=torch.bool, device=device).tril()


def additive_mask(
    allowed: Bool[Tensor, "*shape"], dtype: torch.dtype = torch.float32
) -> Float[Tensor, "*shape"]:
    """0 where allowed, -inf elsewhere: the M of the formula. A row with nothing allowed would give NaN."""
    return torch.zeros(allowed.shape, dtype=dtype, device=allowed.device).masked_fill(~allowed, -math.inf)


def causal_mask(length: int, dtype: torch.dtype = torch.float32) -> Float[Tensor, "T T"]:
    """The causal mask: M_{s,t} = 0 if t <= s, otherwise -inf."""
    return additive_mask(causal(length), dtype)


def visible(attention_mask: Shaped[Tensor, "B T"]) -> Bool[Tensor, "B 1 T T"]:
    """Causal, and no looking at padding (0 in `attention_mask`).

    A padded position may still look at itself: its row is never empty, so no NaN is born there and, as nobody
    else looks at it, what it computes reaches no real token.
    """
    length = attention_mask.shape[-1]
    itself = torch.eye(length, dtype=torch.bool, device=attention_mask.device)  # (T, T)
    real = attention_mask.bool()[:, None, None, :]  # (B, 1, 1, T)
    return causal(length, attention_mask.device) & (real | itself)


class MultiHeadAttention(nn.Module):
    """head_h = attention(x W_q^h, c W_k^h, c W_v^h);  out = [head_1 ... head_H] W_o.

    `context` c is x itself (self-attention) or another sequence (cross-attention). `forward` is the formula
    and returns the weights; `fused` is the same numbers by torch's fast kernel, for training. With
    score="additive" each head has a vector u of its own, and there is no fast kernel.
    """

    def __init__(
        self, width: int, heads: int, bias: bool = True, dropout: float = 0.0, score: str = "dot"
    ) -> None:
        super().__init__()
        check_score(score)
        if width % heads:
            raise HeedfulError(f"{heads} heads do not divide width {width}", fix="Choose a multiple of heads")
        self.heads, self.dropout, self.score = heads, dropout, score
        self.query = nn.Linear(width, width, bias)
        self.key = nn.Linear(width, width, bias)
        self.value = nn.Linear(width, width, bias)
        self.out = nn.Linear(width, width, bias)
        d = width // heads
        self.u = nn.Parameter(torch.randn(heads, d) / math.sqrt(d)) if score == "additive" else None  # (H, d)

    def forward(
        self,
        x: Float[Tensor, "B S width"],
        context: Float[Tensor, "B T width"] | None = None,
        mask: Float[Tensor, "..."] | None = None,
    ) -> AttentionResult:
        """out (B, S, width) and weights (B, H, S, T), which carry gradients; no dropout."""
        q, k, v = self._project(x, x if context is None else context)
        mixed, weights = attention(q, k, v, mask, self.score, self.u)
        return AttentionResult(self._merge(mixed), weights)

    def fused(
        self,
        x: Float[Tensor, "B S width"],
        context: Float[Tensor, "B T width"] | None = None,
        mask: Float[Tensor, "..."] | None = None,
        is_causal: bool = False,
    ) -> Float[Tensor, "B S width"]:
        """The same output without weights; drops attention weights while training."""
        q, k, v = self._project(x, x if context is None else context)
        drop = self.dropout if self.training else 0.0
        if self.score != "dot":
            mask = causal_mask(x.shape[1], x.dtype).to(x.device) if is_causal else mask
            weights = attention(q, k, v, mask, self.score, self.u).weights
            return self._merge(F.dropout(weights, drop) @ v)
        return self._merge(F.scaled_dot_product_attention(q, k, v, mask, drop, is_causal))

    def _project(self, x: Tensor, context: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self._split(self.query(x)), self._split(self.key(context)), self._split(self.value(context))

    def _split(self, x: Float[Tensor, "B T width"]) -> Float[Tensor, "B H T d"]:
        return x.view(*x.shape[:-1], self.heads, -1).transpose(1, 2)

    def _merge(self, x: Float[Tensor, "B H T d"]) -> Float[Tensor, "B T width"]:
        out: Tensor = self.out(x.transpose(1, 2).flatten(-2))
        return out
