"""The original transformer: an encoder reads the source, a decoder writes the target and looks at it.

    x = sqrt(d) E[source] + P          y = sqrt(d) E[target] + P         E shared, P sinusoids; dropout
    encoder layer   x <- LN(x + SelfAttention(x));  x <- LN(x + MLP(x))
    decoder layer   y <- LN(y + CausalSelfAttention(y));  y <- LN(y + CrossAttention(y, x));
                    y <- LN(y + MLP(y))
    logits_t = y_t E^T + b             what follows target_0 .. target_t  (S, vocab)

Cross-attention takes its queries from y and its keys and values from x, the end of the encoder: its weights
(target x source) are the alignment map of the textbooks. LN stands after the sum (post-norm), as in the
paper; `pre_norm` puts it before each part, y + Part(LN(y)), and once more after each stack.

Numbers equal torch.nn.Transformer (which adds an LN after each stack even with post-norm) and, by
`from_transformers`, Marian translation models. Cost per token: O(layers d (12 d + T)) and O(d vocab).

Vaswani et al., Attention Is All You Need, NeurIPS 2017.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from heedful.core.errors import HeedfulError
from heedful.nn.attention import AttentionResult, MultiHeadAttention, additive_mask, causal, visible
from heedful.nn.blocks import MLP
from heedful.nn.embeddings import check_length, sinusoids

if TYPE_CHECKING:
    from transformers import MarianMTModel


@dataclass(frozen=True)
class TransformerConfig:
    """Sizes of the transformer. The defaults are those of the paper's base model. Source and target share one
    vocabulary."""

    vocab_size: int
    context: int = 512
    layers: int = 6  # of the encoder, and of the decoder
    heads: int = 8
    width: int = 512
    hidden: int = 2048  # of the MLP
    dropout: float = 0.1
    activation: str = "relu"
    pre_norm: bool = False
    halves: bool = False  # sinusoids with all sines first, as Marian has them


class AttentionMaps(NamedTuple):
    """Attention weights, one entry per layer. They carry gradients."""

    encoder: list[Float[Tensor, "B H T T"]]
    decoder: list[Float[Tensor, "B H S S"]]
    cross: list[Float[Tensor, "B H S T"]]


class Layer(nn.Module):
    """What both kinds of layer share: how a part is added to the residual stream."""

    def __init__(self, c: TransformerConfig) -> None:
        super().__init__()
        self.attn = MultiHeadAttention(c.width, c.heads, dropout=c.dropout)
        self.norm1 = nn.LayerNorm(c.width)
        self.mlp = MLP(c.width, c.hidden, c.activation)
        self.norm2 = nn.LayerNorm(c.width)
        self.drop, self.pre_norm = nn.Dropout(c.dropout), c.pre_norm

    def add(self, x: Tensor, norm: nn.Module, part: Callable[[Tensor], Tensor]) -> Tensor:
        """LN(x + part(x)), or x + part(LN(x)) with pre-norm."""
        out: Tensor = x + self.drop(part(norm(x))) if self.pre_norm else norm(x + self.drop(part(x)))
        return out


def look(
    attn: MultiHeadAttention, x: Tensor, context: Tensor, mask: Tensor, maps: list[Tensor] | None
) -> Tensor:
    """Attention by the fast kernel; or by the formula, which leaves its weights in `maps`."""
    if maps is None:
        return attn.fused(x, context, mask)
    attention_only: AttentionResult = attn(x, context, mask)
    maps.append(attention_only.weights)
    return attention_only.out


class EncoderLayer(Layer):
    """Self-attention, then the MLP."""

    def forward(
        self, x: Float[Tensor, "B T d"], mask: Float[Tensor, "B 1 #T T"], maps: AttentionMaps | None = None
    ) -> Float[Tensor, "B T d"]:
        own = None if maps is None else maps.encoder
        x = self.add(x, self.norm1, lambda h: look(self.attn, h, h, mask, own))
        return self.add(x, self.norm2, self.mlp)


class DecoderLayer(Layer):
    """Self-attention over what is written, cross-attention to what was read, then the MLP."""

    def __init__(self, c: TransformerConfig) -> None:
        super().__init__(c)
        self.cross = MultiHeadAttention(c.width, c.heads, dropout=c.dropout)
        self.norm_cross = nn.LayerNorm(c.width)

    def forward(
        self,
        y: Float[Tensor, "B S d"],
        memory: Float[Tensor, "B T d"],
        masks: tuple[Float[Tensor, "#B 1 S S"], Float[Tensor, "B 1 1 T"]],
        maps: AttentionMaps | None = None,
    ) -> Float[Tensor, "B S d"]:
        """`masks`: of the target (causal), and of the source."""
        own, cross = (None, None) if maps is None else (maps.decoder, maps.cross)
        y = self.add(y, self.norm1, lambda h: look(self.attn, h, h, masks[0], own))
        y = self.add(y, self.norm_cross, lambda h: look(self.cross, h, memory, masks[1], cross))
        return self.add(y, self.norm2, self.mlp)


class Transformer(nn.Module):
    """The encoder-decoder transformer. `seed` sets the initial weights. The global random state does not
    change.

    `source` and `target` are ids (B, T) and (B, S), their masks 1 on tokens and 0 on padding (None: no
    padding). `target` starts with a start token; position t of the output is about target token t + 1.
    """

    position: Tensor

    def __init__(self, config: TransformerConfig, seed: int = 0) -> None:
        super().__init__()
        c = self.config = config
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.token = nn.Embedding(c.vocab_size, c.width)
            self.bias = nn.Parameter(torch.zeros(c.vocab_size))
            self.encoder = nn.ModuleList(EncoderLayer(c) for _ in range(c.layers))
            self.decoder = nn.ModuleList(DecoderLayer(c) for _ in range(c.layers))
            ends = [nn.LayerNorm(c.width) if c.pre_norm else nn.Identity() for _ in range(2)]
            self.encoder_end, self.decoder_end = ends
            self._draw()
        self.register_buffer("position", sinusoids(c.context, c.width, c.halves), persistent=False)
        self.drop = nn.Dropout(c.dropout)

    def _draw(self) -> None:
        """Glorot for matrices; N(0, 1/d) for the embeddings, so that sqrt(d) E has entries of size 1."""
        for p in self.parameters():
            if p.dim() == 2:
                nn.init.xavier_uniform_(p)
        nn.init.normal_(self.token.weight, std=self.config.width**-0.5)

    def embed(self, ids: Int[Tensor, "B T"]) -> Float[Tensor, "B T d"]:
        """sqrt(d) E[ids] + P."""
        check_length(ids.shape[1], self.config.context)
        scaled = math.sqrt(self.config.width) * self.token(ids)
        x: Tensor = self.drop(scaled + self.position[: ids.shape[1]])
        return x

    def encode(
        self, source: Int[Tensor, "B T"], mask: Float[Tensor, "B 1 1 T"], maps: AttentionMaps | None = None
    ) -> Float[Tensor, "B T d"]:
        """What the decoder looks at; `mask` from `source_mask`."""
        x = self.embed(source)
        for layer in self.encoder:
            x = layer(x, mask, maps)
        out: Tensor = self.encoder_end(x)
        return out

    def decode(
        self,
        target: Int[Tensor, "B S"],
        memory: Float[Tensor, "B T d"],
        masks: tuple[Float[Tensor, "#B 1 S S"], Float[Tensor, "B 1 1 T"]],
        maps: AttentionMaps | None = None,
    ) -> Float[Tensor, "B S vocab"]:
        """Logits of the next target token at every position."""
        y = self.embed(target)
        for layer in self.decoder:
            y = layer(y, memory, masks, maps)
        return F.linear(self.decoder_end(y), self.token.weight, self.bias)

    def forward(
        self,
        source: Int[Tensor, "B T"],
        target: Int[Tensor, "B S"],
        source_mask: Shaped[Tensor, "B T"] | None = None,
        target_mask: Shaped[Tensor, "B S"] | None = None,
        maps: AttentionMaps | None = None,
    ) -> Float[Tensor, "B S vocab"]:
        """Logits; empty `maps` are filled with the attention weights on the way."""
        reads = self._reads(source, source_mask)
        allowed = (
            causal(target.shape[1], target.device)[None, None]
            if target_mask is None
            else visible(target_mask)
        )
        writes = additive_mask(allowed, self.token.weight.dtype)  # (B or 1, 1, S, S)
        return self.decode(target, self.encode(source, reads, maps), (writes, reads), maps)

    def _reads(self, source: Tensor, source_mask: Tensor | None) -> Tensor:
        """(B, 1, 1, T): 0 for tokens, -inf for padding."""
        real = torch.ones_like(source) if source_mask is None else source_mask
        return additive_mask(real.bool(), self.token.weight.dtype)[:, None, None]

    def attentions(
        self,
        source: Int[Tensor, "B T"],
        target: Int[Tensor, "B S"],
        source_mask: Shaped[Tensor, "B T"] | None = None,
        target_mask: Shaped[Tensor, "B S"] | None = None,
    ) -> AttentionMaps:
        """The weights of every layer, by the explicit formula."""
        maps = AttentionMaps([], [], [])
        self(source, target, source_mask, target_mask, maps)
        return maps

    def loss(self, source: Int[Tensor, "B T"], target: Int[Tensor, "B S"], pad: int = 0) -> Float[Tensor, ""]:
        """Mean cross entropy of target tokens 1, 2, ... in nats; rows are padded on the right with `pad`."""
        logits = self(source, target[:, :-1], source != pad)  # causal: no real token sees padding after it
        return F.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten(), ignore_index=pad)

    def next_logits(self, source: Int[Tensor, " T"]) -> Callable[[Tensor], Tensor]:
        """What `decode.generate` and `decode.beam_search` want: target ids (B, S) -> logits (B, vocab)."""
        reads = self._reads(source[None], None)
        with torch.no_grad():
            memory = self.encode(source[None], reads)

        @torch.no_grad()
        def after(target: Tensor) -> Tensor:
            rows = len(target)
            writes = additive_mask(causal(target.shape[1], target.device), memory.dtype)[None, None]
            read = memory.expand(rows, -1, -1), (writes, reads.expand(rows, -1, -1, -1))
            return self.decode(target, *read)[:, -1]

        return after

    @classmethod
    def from_transformers(cls, model: "MarianMTModel") -> "Transformer":
        """The same weights (copied) as a Marian translation model, in eval mode."""
        c: Any = model.config
        for field, known in EXPECTED.items():
            if (value := getattr(c, field)) not in known:
                raise HeedfulError(f"this Marian has {field}={value!r}", _has(known), OTHER)
        for side in ("layers", "attention_heads", "ffn_dim"):
            if getattr(c, f"encoder_{side}") != getattr(c, f"decoder_{side}"):
                raise HeedfulError(
                    f"this Marian has other {side} in its decoder", "nn.Transformer has the same", OTHER
                )
        config = TransformerConfig(
            vocab_size=c.vocab_size,
            context=c.max_position_embeddings,
            layers=c.encoder_layers,
            heads=c.encoder_attention_heads,
            width=c.d_model,
            hidden=c.encoder_ffn_dim,
            dropout=c.dropout,
            activation=ACTIVATION[c.activation_function],
            halves=True,
        )
        ours = cls(config)
        ours.to(model.dtype).load_state_dict(_ours_of(model.state_dict()))
        return ours.eval()


def _has(known: tuple[Any, ...]) -> str:
    return f"nn.Transformer has {' or '.join(map(str, known))}"


# Marian's name -> ours, within a layer
PARTS = {
    "self_attn.": "attn.",
    "encoder_attn.": "cross.",
    "q_proj": "query",
    "k_proj": "key",
    "v_proj": "value",
    "out_proj": "out",
    "self_attn_layer_norm": "norm1",
    "encoder_attn_layer_norm": "norm_cross",
    "final_layer_norm": "norm2",
    "fc1": "mlp.up",
    "fc2": "mlp.down",
}
ACTIVATION = {"relu": "relu", "gelu": "gelu-exact", "swish": "silu", "silu": "silu"}
OTHER = "Give a Marian with such settings, or explain this one as it is: heedful.load takes its folder"
EXPECTED = {  # settings of Marian that this file computes with
    "activation_function": tuple(ACTIVATION),
    "scale_embedding": (True,),
    "share_encoder_decoder_embeddings": (True,),
    "tie_word_embeddings": (True,),
}


def _ours_of(theirs: dict[str, Tensor]) -> dict[str, Tensor]:
    ours = {"token.weight": theirs["model.shared.weight"], "bias": theirs["final_logits_bias"][0]}
    for side in ("encoder", "decoder"):
        start = f"model.{side}.layers."
        for name in (name for name in theirs if name.startswith(start)):
            new = name.removeprefix("model.").replace(".layers.", ".")
            for old, part in PARTS.items():
                new = new.replace(f".{old}", f".{part}")
            ours[new] = theirs[name]
    return ours
