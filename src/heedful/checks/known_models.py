"""Small models whose right answers are known, for checks of what methods promise. All in float64.

    linear_model     f = sum of one weight a word
    reader_model     softmax attention without positions, deaf to one of them: it looks there (the weight is
                     not zero), but what stands there never reaches the output
    stack_model      a two-layer BERT whose position embeddings are zero: equal words are interchangeable
    textbook_model   heedful.nn.OneLayerClassifier, positions zero but for one that the softmax never picks

Equal words of TEXT are interchangeable to all of them, and its word DEAF is unread by the second and fourth.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from tokenizers import Tokenizer, pre_tokenizers, processors
from tokenizers import models as tokenizer_models
from torch import Tensor, nn

from heedful.core.model import Model
from heedful.models.load import load
from heedful.nn.one_layer import OneLayerClassifier, OneLayerConfig

TEXT = "the cat sat on the mat"
WEIGHTS = {"the": 0.0, "cat": 2.0, "sat": -1.0, "on": 0.5, "mat": 3.0}
TWIN, DEAF = "the", TEXT.split().index("on")
GLANCE = 0.3  # of the reader's attention goes to the position it is deaf to


def _tokenizer(special: Sequence[str], framed: bool) -> Any:
    """One token a word; `framed` puts [CLS] in front and [SEP] behind."""
    from transformers import PreTrainedTokenizerFast

    ids = {word: i for i, word in enumerate([*special, *WEIGHTS])}
    raw = Tokenizer(tokenizer_models.WordLevel(ids, unk_token="[UNK]"))
    raw.pre_tokenizer = pre_tokenizers.Whitespace()
    if framed:
        ends = [("[CLS]", ids["[CLS]"]), ("[SEP]", ids["[SEP]"])]
        raw.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    names = {f"{token.strip('[]').lower()}_token": token for token in special}
    return PreTrainedTokenizerFast(tokenizer_object=raw, model_max_length=64, **names)


FRAME = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
LABELS = ("up", "down")


class SumOfWords(nn.Module):
    """f(text) = sum of the first coordinate of its embeddings: (f, -f) as two logits."""

    def __init__(self, weights: list[float]) -> None:
        super().__init__()
        self.table = nn.Embedding(len(weights), 2)
        with torch.no_grad():
            self.table.weight.copy_(torch.tensor([[weight, 0.0] for weight in weights]))

    def embed(self, ids: Tensor) -> Tensor:
        vectors: Tensor = self.table(ids)
        return vectors

    def forward(self, inputs_embeds: Tensor, attention_mask: Tensor) -> Tensor:
        total = (inputs_embeds[..., 0] * attention_mask).sum(-1)
        return torch.stack([total, -total], -1)


def linear_model() -> Model:
    """The bag of weighted words as a heedful model; unknown words weigh nothing."""
    tokenizer = _tokenizer(FRAME[:2], framed=False)
    return load(SumOfWords([0.0, 0.0, *WEIGHTS.values()]).double(), tokenizer=tokenizer, labels=LABELS)


class TwoHeadReader(nn.Module):
    """Two heads over the positions it hears, then tanh. Attention (B, H, T) is shown, DEAF's share too."""

    def __init__(self, words: int) -> None:
        super().__init__()
        self.table = nn.Embedding(words, 4)
        self.key = nn.Linear(4, 2)
        self.value = nn.Sequential(nn.Linear(4, 3), nn.ReLU())
        self.out = nn.Linear(6, 2)

    def embed(self, ids: Tensor) -> Tensor:
        vectors: Tensor = self.table(ids)
        return vectors

    def forward(self, inputs_embeds: Tensor, attention_mask: Tensor) -> tuple[Tensor, Tensor]:
        deaf = (torch.arange(inputs_embeds.shape[1]) == DEAF) & attention_mask.bool()  # (B, T)
        heard = attention_mask.bool() & ~deaf
        scores = self.key(inputs_embeds).transpose(1, 2)  # (B, H, T)
        weights = scores.masked_fill(~heard[:, None], -1e9).softmax(-1) * (1 - GLANCE)
        weights = torch.where(deaf[:, None], GLANCE, weights)
        values = self.value(inputs_embeds) * heard[..., None]  # (B, T, 3)
        return self.out((weights @ values).flatten(1).tanh()), weights


@cache
def reader_model() -> Model:
    """The reader that is deaf to one position."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        module = TwoHeadReader(2 + 1 + len(WEIGHTS)).double()
    tokenizer = _tokenizer(("[PAD]", "[UNK]", "[MASK]"), framed=False)
    return load(module, tokenizer=tokenizer, labels=LABELS)


@cache
def stack_model() -> Model:
    """Two layers of BERT with ReLU, and no positions."""
    from transformers import BertConfig, BertForSequenceClassification

    sizes = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 12}
    config = BertConfig(
        vocab_size=len(FRAME) + len(WEIGHTS),
        max_position_embeddings=64,
        initializer_range=0.5,  # so that words matter
        hidden_act="relu",
        **sizes,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        module = BertForSequenceClassification(config).double().eval()
    with torch.no_grad():
        module.bert.embeddings.position_embeddings.weight.zero_()
    return load((module, _tokenizer(FRAME, framed=True)))


@cache
def textbook_model() -> Model:
    """One layer of attention; what stands at DEAF (behind [CLS]: one later) gets a weight of exactly 0."""
    config = OneLayerConfig(len(FRAME) + len(WEIGHTS), heads=2, width=6, d_att=3, d_out=3, context=64)
    module = OneLayerClassifier(config, seed=7).double()
    with torch.no_grad():
        for weight in (module.query, module.key, module.value, module.readout):
            weight.mul_(5)  # so that words matter
        module.position.zero_()
        query = module.query @ module.token.weight[FRAME.index("[CLS]")]  # (K, d_att)
        towards = torch.einsum("kad,ka->kd", module.key, query)  # W_k^T q (K, d_e)
        never = torch.full((len(towards),), -1e4, dtype=torch.float64)  # exp(-1e4) is 0 in float64
        module.position[DEAF + 1] = torch.linalg.pinv(towards) @ never
    tokenizer = _tokenizer(FRAME, framed=True)
    return load(
        module,
        tokenizer=tokenizer,
        labels=LABELS,
        forward=lambda embeds, mask: module.attend(inputs_embeds=embeds, attention_mask=mask),
    )
