"""The set-up that both labs on attention as explanation share: film sentences, and models that read them.

    one-layer   zoo:one-layer, as it is: six heads over words, learnt from other reviews
    lstm        a BiLSTM with additive attention (heedful.labs.models.bilstm), trained here
    average     the same attention over words alone, trained here alike

The sentences are those of heedful.labs.data.reviews, drawn anew for every seed; no model learnt from those of
`test`. Word vectors of the last two are those of zoo:one-layer, and stay as they are: the papers' models,
too, were given vectors.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from heedful.labs.data.reviews import Review, reviews
from heedful.labs.models.bilstm import BiLSTMConfig, new, trained
from heedful.models.adapter import TokenModel
from heedful.models.load import load_token_model
from heedful.nn.train import TrainConfig
from heedful.trials.batches import PaddedTexts, rows

LENGTH = 24  # tokens of a sentence that is trained on; longer ones lose their end
HIDDEN = 16  # of each direction


@dataclass(frozen=True, eq=False)
class AttentionSetup:
    """Texts and a budget of training."""

    one: TokenModel  # zoo:one-layer
    train: PaddedTexts
    test: PaddedTexts
    shown: tuple[Review, ...]  # the sentences of `test`
    budget: TrainConfig

    @property
    def vectors(self) -> torch.Tensor:
        """(words, 128) of zoo:one-layer"""
        assert self.one.token_table is not None
        tensor: torch.Tensor = next(self.one.token_table.parameters()).detach()
        return tensor

    def model(self, encoder: str, seed: int) -> TokenModel:
        """A classifier that is trained here."""
        return trained(self._config(encoder), self.one, self.train, seed, self.budget)

    def untrained(self, encoder: str, seed: int) -> TokenModel:
        """The same before it is trained."""
        return new(self._config(encoder), self.one, seed)

    def _config(self, encoder: str) -> BiLSTMConfig:
        words, width = self.vectors.shape
        return BiLSTMConfig(words, encoder, width, HIDDEN, vectors=self.vectors)


def stage(seed: int, train: int, test: int, steps: int) -> AttentionSetup:
    """So many sentences to train and to test on, drawn by `seed`."""
    one, rng = load_token_model("zoo:one-layer"), np.random.default_rng(seed)
    some, kept = (_drawn(part, count, rng) for part, count in (("train", train), ("held", test)))
    budget = TrainConfig(steps=steps, batch=32, lr=8e-3, warmup=10, weight_decay=0.05, progress=False)
    return AttentionSetup(one, _rows(one, some), _rows(one, kept), kept, budget)


def _drawn(part: str, count: int, rng: np.random.Generator) -> tuple[Review, ...]:
    all_of_it = reviews(part)
    return tuple(all_of_it[i] for i in rng.permutation(len(all_of_it))[:count])


def _rows(model: TokenModel, some: tuple[Review, ...]) -> PaddedTexts:
    return rows(model, [each.text for each in some], [each.label for each in some], LENGTH)
