"""A language model that labs let write: zoo:lm behind heedful's door and in heedful.nn; prompts for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from heedful.labs.data.speeches import speeches
from heedful.modalities.text_spans import split_words
from heedful.nn import GPT2

if TYPE_CHECKING:
    from heedful.models.adapter import TokenModel


@dataclass(frozen=True)
class Writer:
    """A language model twice: behind heedful's door, where transformers writes, and as heedful.nn has it."""

    model: TokenModel
    ours: GPT2

    def prompt(self, text: str) -> Tensor:
        return torch.tensor(self.model.encode(text).ids)

    def logits(self, text: str) -> Tensor:
        return self.ours.next_logits(self.prompt(text)[None])[0]

    def text(self, ids: Any) -> str:
        return self.model.decode(list(map(int, ids)))


def prompts(count: int, rng: np.random.Generator) -> list[str]:
    """The first eight words of sentences from speeches that the model never saw."""
    sentences = [s.strip() for text in speeches("held").values() for s in text.split(". ")]
    long = [sentence for sentence in sentences if len(split_words(sentence)) > 15 and "\n" not in sentence]
    chosen = rng.choice(len(long), count, replace=False).tolist()
    return [long[i][: split_words(long[i])[7][1]] for i in chosen]
