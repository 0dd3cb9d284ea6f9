"""A small network of ReLUs for film reviews, for labs on methods that are defined for such networks alone.

    e_t = E[x_t]   h = ReLU(conv(e))   h' = ReLU(conv(h))   p = mean over t   logits = W ReLU(V p)

Convolutions look at a word and its two neighbours. Trained in seconds (heedful.nn.train).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

import heedful
from heedful.core.model import Model
from heedful.labs.data.reviews import Review
from heedful.models.adapter import TokenModel
from heedful.nn.train import TrainConfig
from heedful.nn.train import fit as minimise


class ReluNet(nn.Module):
    """The network; its layers in the order in which they are passed."""

    def __init__(self, words: int, width: int = 32) -> None:
        super().__init__()
        self.token = nn.Embedding(words, width)
        self.first, self.second = (nn.Conv1d(width, width, 3, padding=1) for _ in range(2))
        self.hidden, self.top = nn.Linear(width, width), nn.Linear(width, 2)
        self.relu_first, self.relu_second, self.relu_hidden = nn.ReLU(), nn.ReLU(), nn.ReLU()

    def embed(self, ids: Tensor) -> Tensor:
        """(B, T) -> (B, T, width)"""
        tensor: Tensor = self.token(ids)
        return tensor

    def forward(self, inputs_embeds: Tensor, attention_mask: Tensor) -> Tensor:
        """(B, 2)"""
        mask = attention_mask[:, None, :].to(inputs_embeds.dtype)  # (B, 1, T)
        h = inputs_embeds.transpose(1, 2) * mask  # (B, width, T)
        h = self.relu_first(self.first(h)) * mask
        h = self.relu_second(self.second(h)) * mask
        pooled = h.sum(2) / mask.sum(2)
        out: Tensor = self.top(self.relu_hidden(self.hidden(pooled)))
        return out


def relu_net(sentences: Sequence[Review], words: TokenModel, steps: int, seed: int) -> Model:
    """Trained on these sentences, with the tokenizer of `words`."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = ReluNet(words.token_count)
    rng = torch.Generator().manual_seed(seed)
    encoded = words.padded_texts([s.text for s in sentences])
    ids, mask = encoded.ids, encoded.mask
    labels = torch.tensor([s.label for s in sentences])

    def loss(step: int) -> Tensor:
        rows = torch.randint(len(ids), (32,), generator=rng)
        longest = int(mask[rows].sum(1).max())
        logits = net(net.embed(ids[rows, :longest]), mask[rows, :longest])
        return nn.functional.cross_entropy(logits, labels[rows])

    settings = TrainConfig(steps=steps, lr=5e-3, warmup=20, weight_decay=0.01, seed=seed, progress=False)
    minimise(net, loss, settings)
    return heedful.load(net.eval(), tokenizer=words)
