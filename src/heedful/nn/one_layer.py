"""The one-layer attention classifier whose explanations have closed forms.

    e_t = E[x_t] + sinusoid(t)                                                            (T, d_e)
    head i:  q = W_q e_0,  k_t = W_k e_t,  v_t = W_v e_t,  alpha_t = softmax_u(q . k_u / sqrt(d_att))_t
    logits = 1/K sum_i  W_l^i sum_t alpha_t^i v_t^i                                       (classes,)

The query is the CLS token at position 0. No biases, LayerNorm, residual or MLP; head logits are averaged.

Nothing but alpha is non-linear, so the sums may be taken in a cheaper order with the same value:
q . k_t = (W_k^T q) . e_t and sum_t alpha_t W_v e_t = W_v (sum_t alpha_t e_t).
Cost O(K T d_e) a text instead of O(K T d_e (d_att + d_out)): keys and values are never formed.

Lopardo, Precioso & Garreau, Attention Meets Post-hoc Interpretability, ICML 2024.
"""

import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from jaxtyping import Float, Int, Shaped
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from heedful.core.errors import HeedfulError
from heedful.nn.attention import additive_mask
from heedful.nn.embeddings import check_length, sinusoids
from heedful.nn.mixing import Mixing, OneLayerOutput


@dataclass(frozen=True)
class OneLayerConfig:
    """Sizes of the classifier. The defaults are those of the paper, except `pad_attends`: the paper pads with
    UNK and attends to it."""

    vocab_size: int
    heads: int = 6
    width: int = 128  # d_e
    d_att: int = 64
    d_out: int = 64
    context: int = 256
    classes: int = 2
    pad_attends: bool = False  # True: padding is attended to like any word unless an attention_mask says no
    pad_id: int | None = 0  # hidden from attention when no attention_mask is given; None: nothing is hidden


class OneLayerClassifier(nn.Module):
    """K attention heads with a single query, each with its own linear read-out. `seed` sets the initial
    weights."""

    position: Tensor

    def __init__(self, config: OneLayerConfig, seed: int = 0) -> None:
        super().__init__()
        c = self.config = config
        rng = torch.Generator().manual_seed(seed)
        table = torch.randn(c.vocab_size, c.width, generator=rng)  # N(0, 1)
        self.token = nn.Embedding(c.vocab_size, c.width, _weight=table)
        self.register_buffer("position", sinusoids(c.context, c.width), persistent=False)
        self.query = _uniform(rng, c.heads, c.d_att, c.width)  # W_q (K, d_att, d_e)
        self.key = _uniform(rng, c.heads, c.d_att, c.width)  # W_k (K, d_att, d_e)
        self.value = _uniform(rng, c.heads, c.d_out, c.width)  # W_v (K, d_out, d_e)
        self.readout = _uniform(rng, c.heads, c.classes, c.d_out)  # W_l (K, classes, d_out)
        self.mix = Mixing()

    def embed(self, ids: Int[Tensor, "B T"]) -> Float[Tensor, "B T d_e"]:
        """E[ids] + sinusoids: what `inputs_embeds` expects."""
        length = ids.shape[1]
        check_length(length, self.config.context)
        out: Tensor = self.token(ids) + self.position[:length]
        return out

    def forward(
        self,
        ids: Int[Tensor, "B T"] | None = None,
        attention_mask: Shaped[Tensor, "B T"] | None = None,
        inputs_embeds: Float[Tensor, "B T d_e"] | None = None,
        return_attention: bool = False,
    ) -> Float[Tensor, "B classes"] | OneLayerOutput:
        """Logits; with `return_attention` the pair (logits, alpha), as from `attend`."""
        out = self.attend(ids, attention_mask, inputs_embeds)
        return out if return_attention else out.logits

    def attend(
        self,
        ids: Int[Tensor, "B T"] | None = None,
        attention_mask: Shaped[Tensor, "B T"] | None = None,
        inputs_embeds: Float[Tensor, "B T d_e"] | None = None,
    ) -> OneLayerOutput:
        """Logits (B, classes) and alpha (B, K, T), from ids or from embeddings (positions already added)."""
        if (ids is None) == (inputs_embeds is None):
            raise HeedfulError("give ids or inputs_embeds, one of the two")
        if ids is not None:
            inputs_embeds = self.embed(ids)
            if attention_mask is None and not self.config.pad_attends and self.config.pad_id is not None:
                attention_mask = ids != self.config.pad_id
        assert inputs_embeds is not None
        e = inputs_embeds  # (B, T, d_e)
        query = torch.einsum("kad,bd->bka", self.query, e[:, 0])  # q of CLS (B, K, d_att)
        towards = torch.einsum("kad,bka->bkd", self.key, query)  # W_k^T q (B, K, d_e)
        scores = towards @ e.transpose(1, 2) / math.sqrt(self.config.d_att)  # (B, K, T)
        if attention_mask is not None:
            scores = scores + additive_mask(attention_mask.bool(), scores.dtype)[:, None, :]
        alpha = scores.softmax(-1)  # (B, K, T), sums to one over T
        alpha, mixed = self.mix(alpha, e, self.value, attention_mask)
        logits = torch.einsum("kco,bko->bkc", self.readout, mixed).mean(1)  # heads averaged (B, classes)
        return OneLayerOutput(logits, alpha)

    def save(self, folder: str | Path) -> None:
        """Writes config.json and model.safetensors."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        fields = {"model_type": "one-layer", **asdict(self.config)}
        (folder / "config.json").write_text(json.dumps(fields, indent=2) + "\n")
        save_file({k: v.contiguous() for k, v in self.state_dict().items()}, folder / "model.safetensors")

    @classmethod
    def load(cls, folder: str | Path) -> "OneLayerClassifier":
        """Reads what `save` wrote (half-precision weights come back as float32), in eval mode."""
        folder = Path(folder)
        fields = json.loads((folder / "config.json").read_text())
        known = OneLayerConfig.__dataclass_fields__
        model = cls(OneLayerConfig(**{k: v for k, v in fields.items() if k in known}))
        model.load_state_dict(load_file(folder / "model.safetensors"))  # copies into float32 parameters
        return model.eval()


def _uniform(rng: torch.Generator, *shape: int) -> nn.Parameter:
    """U(-0.1, 0.1)."""
    return nn.Parameter(torch.rand(*shape, generator=rng) * 0.2 - 0.1)
