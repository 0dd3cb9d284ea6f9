"""GPT-2: token + learned position embeddings, L pre-LN blocks, a final LayerNorm, tied output weights.

    h = E[ids] + P[0..T-1];   h <- block_l(h), l = 1..L;   logits = LN(h) E^T                 (T, vocab)
    loss = - 1/(T-1) sum_t log softmax(logits_t)[x_{t+1}]     categorical cross entropy (docs/errata.md, E10)

The 124M model is `GPT2Config()`: vocabulary 50,257, context 1,024, 12 layers, 12 heads, width 768.
Numbers equal transformers' GPT-2 (`from_transformers`, `to_transformers`).
Cost a token: O(L width (12 width + T) + width vocab).

Radford et al., Language Models are Unsupervised Multitask Learners, 2019.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from heedful.core.errors import HeedfulError
from heedful.nn.attention import additive_mask, causal, visible
from heedful.nn.blocks import Block
from heedful.nn.embeddings import check_length

if TYPE_CHECKING:
    from transformers import GPT2LMHeadModel


@dataclass(frozen=True)
class GPT2Config:
    """Sizes of a GPT-2 model. The defaults are the sizes of the 124M model."""

    vocab_size: int = 50257
    context: int = 1024
    layers: int = 12
    heads: int = 12
    width: int = 768
    dropout: float = 0.0
    activation: str = "gelu"  # GPT-2's tanh form; see blocks.ACTIVATIONS for solu and others


class GPT2(nn.Module):
    """The GPT-2 language model. `seed` sets the initial weights. The global random state does not change."""

    def __init__(self, config: GPT2Config, seed: int = 0) -> None:
        super().__init__()
        c = self.config = config
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.token = nn.Embedding(c.vocab_size, c.width)
            self.position = nn.Embedding(c.context, c.width)
            blocks = (Block(c.width, c.heads, c.dropout, c.activation) for _ in range(c.layers))
            self.blocks = nn.ModuleList(blocks)
            self.norm = nn.LayerNorm(c.width)
            self.drop = nn.Dropout(c.dropout)
            self._draw()

    def _draw(self) -> None:
        """N(0, .02), biases 0; what writes to the residual stream is scaled by 1/sqrt(2 L)."""
        for name, p in self.named_parameters():
            if p.dim() == 2:
                writes = name.endswith(("attn.out.weight", "mlp.down.weight"))
                nn.init.normal_(p, std=0.02 / math.sqrt(2 * self.config.layers) if writes else 0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(p)

    def forward(
        self, ids: Int[Tensor, "B T"], attention_mask: Shaped[Tensor, "B T"] | None = None
    ) -> Float[Tensor, "B T vocab"]:
        """Logits of the next token at every position. `attention_mask` is 0 on padding."""
        return F.linear(self.hidden(ids, attention_mask), self.token.weight)  # tied: logits = LN(h) E^T

    def hidden(
        self, ids: Int[Tensor, "B T"], attention_mask: Shaped[Tensor, "B T"] | None = None
    ) -> Float[Tensor, "B T width"]:
        """LN(h): what the output weights read."""
        x = self.embed(ids)
        mask = None if attention_mask is None else additive_mask(visible(attention_mask), x.dtype)
        for block in self.blocks:
            x = block(x, mask)
        out: Tensor = self.norm(x)
        return out

    def embed(self, ids: Int[Tensor, "B T"]) -> Float[Tensor, "B T width"]:
        """E[ids] + P[0..T-1]."""
        length = ids.shape[1]
        check_length(length, self.config.context)
        x: Tensor = self.drop(self.token(ids) + self.position.weight[:length])
        return x

    def loss(self, ids: Int[Tensor, "B T"]) -> Float[Tensor, ""]:
        """Mean next-token cross entropy in nats; T may be context + 1."""
        logits = self(ids[:, :-1])  # (B, T-1, vocab)
        return F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())

    def attentions(
        self, ids: Int[Tensor, "B T"], attention_mask: Shaped[Tensor, "B T"] | None = None
    ) -> list[Float[Tensor, "B H T T"]]:
        """The weights of every layer, by the explicit formula."""
        x, maps = self.embed(ids), []
        allowed = causal(ids.shape[1], ids.device) if attention_mask is None else visible(attention_mask)
        mask = additive_mask(allowed, x.dtype)
        for block in self.blocks:
            assert isinstance(block, Block)
            mixed, weights = block.attn(block.norm1(x), mask=mask)
            x = x + mixed
            x = x + block.mlp(block.norm2(x))
            maps.append(weights)
        return maps

    @torch.inference_mode()
    def next_logits(self, ids: Int[Tensor, "B T"]) -> Float[Tensor, "B vocab"]:
        """Logits after the last token, what `decode` wants; reads the last `context` tokens."""
        last = self.hidden(ids[:, -self.config.context :])[:, -1]  # (B, width)
        return F.linear(last, self.token.weight)

    @classmethod
    def from_transformers(cls, model: "GPT2LMHeadModel") -> "GPT2":
        """The same weights (copied) in this class, in eval mode; one dropout, that of the residual stream."""
        c: Any = model.config
        for field, known in EXPECTED.items():
            value = getattr(c, field)
            if value not in known and not (field == "n_inner" and value == 4 * c.n_embd):
                raise HeedfulError(
                    f"this GPT-2 has {field}={value!r}", f"nn.GPT2 computes with {known[0]!r} only"
                )
        config = GPT2Config(
            vocab_size=c.vocab_size,
            context=c.n_positions,
            layers=c.n_layer,
            heads=c.n_head,
            width=c.n_embd,
            dropout=c.resid_pdrop,
            activation=ACTIVATION[c.activation_function],
        )
        ours = cls(config).to(model.dtype)
        ours.load_state_dict(_ours_of(model.state_dict(), config.layers))
        return ours.eval()

    def to_transformers(self) -> "GPT2LMHeadModel":
        """The same weights (copied) as transformers' GPT-2, in eval mode: ready for `save_pretrained`."""
        from transformers import GPT2Config as TheirConfig
        from transformers import GPT2LMHeadModel

        c = self.config
        known = {ours: name for name, ours in reversed(ACTIVATION.items())}
        if c.activation not in known:
            raise HeedfulError(
                f"activation {c.activation!r} is not in transformers' GPT-2",
                f"only {', '.join(known)} convert",
            )
        sizes = {"vocab_size": c.vocab_size, "n_positions": c.context, "n_layer": c.layers}
        sizes |= {"n_head": c.heads, "n_embd": c.width}
        named = {"activation_function": known[c.activation], "bos_token_id": None, "eos_token_id": None}
        drops = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), c.dropout)
        with torch.random.fork_rng(devices=[]):
            theirs = GPT2LMHeadModel(TheirConfig(**sizes, **drops, **named))
        theirs.to(self.token.weight.dtype)
        theirs.load_state_dict(_theirs_of(self.state_dict(), c.layers))
        theirs.eval()
        return theirs


# our name -> theirs. Their Conv1D keeps weights (in, out), ours (out, in).
OUTER = {
    "token.weight": "transformer.wte.weight",
    "position.weight": "transformer.wpe.weight",
    "norm.weight": "transformer.ln_f.weight",
    "norm.bias": "transformer.ln_f.bias",
}
INNER = {
    "norm1": "ln_1",
    "attn.out": "attn.c_proj",
    "norm2": "ln_2",
    "mlp.up": "mlp.c_fc",
    "mlp.down": "mlp.c_proj",
}
QKV = ("query", "key", "value")
# their activation -> ours
ACTIVATION = {"gelu_new": "gelu", "gelu_pytorch_tanh": "gelu", "gelu": "gelu-exact", "relu": "relu"}
EXPECTED = {  # settings of transformers' GPT-2 that this file computes with
    "n_inner": (None,),
    "activation_function": tuple(ACTIVATION),
    "scale_attn_weights": (True,),
    "scale_attn_by_inverse_layer_idx": (False,),
    "layer_norm_epsilon": (1e-5,),
    "add_cross_attention": (False,),
    "tie_word_embeddings": (True,),
}


def _ours_of(theirs: dict[str, Tensor], layers: int) -> dict[str, Tensor]:
    ours = {mine: theirs[name] for mine, name in OUTER.items()}
    for layer in range(layers):
        a, b = f"blocks.{layer}.", f"transformer.h.{layer}."
        for kind in ("weight", "bias"):
            for mine, name in INNER.items():
                ours[f"{a}{mine}.{kind}"] = theirs[f"{b}{name}.{kind}"].t()  # .t() of a vector is the vector
            parts = theirs[f"{b}attn.c_attn.{kind}"].chunk(3, dim=-1)  # 3 x (width, width)
            ours |= {f"{a}attn.{part}.{kind}": p.t() for part, p in zip(QKV, parts, strict=True)}
    return ours


def _theirs_of(ours: dict[str, Tensor], layers: int) -> dict[str, Tensor]:
    theirs = {name: ours[mine] for mine, name in OUTER.items()} | {"lm_head.weight": ours["token.weight"]}
    for layer in range(layers):
        a, b = f"blocks.{layer}.", f"transformer.h.{layer}."
        for kind in ("weight", "bias"):
            for mine, name in INNER.items():
                theirs[f"{b}{name}.{kind}"] = ours[f"{a}{mine}.{kind}"].t()
            parts = [ours[f"{a}attn.{part}.{kind}"].t() for part in QKV]
            theirs[f"{b}attn.c_attn.{kind}"] = torch.cat(parts, dim=-1)
    return theirs
