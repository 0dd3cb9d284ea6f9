"""The classifier both papers argue about: an encoder, one row of additive attention, a linear read-out.

    h_t    = BiLSTM(e)_t                     "lstm": every state has read the whole text          (T, d)
           = tanh(A e_t + a)                 "average": every state is one token's, as in the paper's average
    alpha  = softmax_t(u . tanh(W h_t + b))  additive attention                                   (T,)
    logits = V sum_t alpha_t h_t + c                                                              (classes,)

The weights go through heedful.nn.Mixing, so the tests of `heedful.trial` can read and change them. As in the
papers, word vectors e_t may be given (`vectors`, which then stay as they are); all else is drawn and trained
here. Padding stands on the right and is neither read nor attended to.

Bahdanau, Cho & Bengio, ICLR 2015; the sizes of Jain & Wallace, NAACL 2019, divided for a small machine.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from heedful.core.errors import HeedfulError
from heedful.models.adapter import TokenModel
from heedful.models.load import load_token_model
from heedful.nn.attention import additive_scores
from heedful.nn.mixing import Mixing, OneLayerOutput
from heedful.nn.train import TrainConfig
from heedful.trials.batches import PaddedTexts
from heedful.trials.training import fit

LABELS = ("negative", "positive")
ENCODERS = ("lstm", "average")
DROPOUT = 0.3  # of the embeddings and of the text's vector, while it trains
EMBEDDING_SCALE = 0.3  # of a table drawn N(0, 1)
BUDGET = TrainConfig(steps=500, batch=32, lr=4e-3, warmup=30, weight_decay=0.05, progress=False)


@dataclass(frozen=True, eq=False)
class BiLSTMConfig:
    """Sizes; both encoders give states of 2 `hidden`."""

    vocab_size: int
    encoder: str = "lstm"
    width: int = 64  # of the embeddings
    hidden: int = 32  # of each direction
    classes: int = 2
    vectors: Tensor | None = None  # (vocab_size, width), where they are given


class BiLSTM(nn.Module):
    """Attention over the states of a text. Weights are drawn from torch's global state: see `new`."""

    unit: Tensor

    def __init__(self, config: BiLSTMConfig) -> None:
        super().__init__()
        if config.encoder not in ENCODERS:
            raise HeedfulError(f"there is no encoder {config.encoder!r}", fix=f"Use {' or '.join(ENCODERS)}")
        self.config, states = config, 2 * config.hidden
        self.token = nn.Embedding(config.vocab_size, config.width)
        with torch.no_grad():
            self.token.weight.mul_(EMBEDDING_SCALE)
            if config.vectors is not None:
                self.token.weight.copy_(config.vectors)
        self.lstm = nn.LSTM(config.width, config.hidden, bidirectional=True, batch_first=True)
        self.alone = nn.Linear(config.width, states)
        self.keys = nn.Linear(states, states)
        self.query = nn.Linear(states, 1, bias=False)
        self.out = nn.Linear(states, config.classes)
        self.drop = nn.Dropout(DROPOUT)
        self.mix = Mixing()
        self.register_buffer("unit", torch.eye(states)[None], persistent=False)  # values are the states

    def embed(self, ids: Tensor) -> Tensor:
        """(B, T) -> (B, T, width)"""
        tensor: Tensor = self.token(ids)
        return tensor if self.config.vectors is None else tensor.detach()

    def states(self, e: Tensor, mask: Tensor) -> Tensor:
        """(B, T, 2 hidden)"""
        if self.config.encoder == "average":
            alone: Tensor = self.alone(e)
            return alone.tanh()
        last = (mask.long() * torch.arange(1, e.shape[1] + 1, device=e.device)).amax(1).clamp_min(1).cpu()
        packed = nn.utils.rnn.pack_padded_sequence(e, last, batch_first=True, enforce_sorted=False)
        tensor: Tensor = nn.utils.rnn.pad_packed_sequence(
            self.lstm(packed)[0], batch_first=True, total_length=e.shape[1]
        )[0]
        return tensor

    def attend(
        self,
        ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
    ) -> OneLayerOutput:
        """Logits (B, classes) and alpha (B, 1, T), from ids or from embeddings."""
        if inputs_embeds is None:
            assert ids is not None
            inputs_embeds = self.embed(ids)
        if attention_mask is None:
            attention_mask = torch.ones(inputs_embeds.shape[:2])
        h = self.states(self.drop(inputs_embeds), attention_mask)
        keys = self.keys(h)  # (B, T, d); the query of every text is zero
        scores = additive_scores(torch.zeros_like(keys[:, :1]), keys, self.query.weight[0])[:, 0]  # (B, T)
        alpha = scores.masked_fill(attention_mask == 0, -torch.inf).softmax(-1)[:, None]  # (B, 1, T)
        alpha, mixed = self.mix(alpha, h, self.unit, attention_mask)
        return OneLayerOutput(self.out(self.drop(mixed[:, 0])), alpha)

    def forward(
        self,
        ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
    ) -> OneLayerOutput:
        return self.attend(ids, attention_mask, inputs_embeds)


def new(config: BiLSTMConfig, words: TokenModel, seed: int) -> TokenModel:
    """An untrained classifier of film reviews behind heedful's door."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = BiLSTM(config).eval()
    return load_token_model(module, tokenizer=words, labels=LABELS)


def trained(
    config: BiLSTMConfig, words: TokenModel, data: PaddedTexts, seed: int, budget: TrainConfig = BUDGET
) -> TokenModel:
    """The same, fitted to texts with labels."""
    model = new(config, words, seed)
    fit(model, data, budget, seed)
    model.module.eval()
    return model
