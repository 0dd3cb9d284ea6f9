"""A textbook model whose every answer can be worked out by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import torch

import heedful
from heedful.nn.one_layer import OneLayerClassifier, OneLayerConfig
from heedful.trials.examples import Cases, prepare

Words = Mapping[str, tuple[float, float]]  # word -> (attention score, value)


class ByHand:
    """One head: weights softmax(scores), logits (m, -m) with m the weighted mean of the values."""

    def __init__(self, tokenizer: Any, words: Words, text: str) -> None:
        self.words = {"[CLS]": (0.0, 0.0), "[SEP]": (0.0, 0.0)} | dict(words)
        module = OneLayerClassifier(
            OneLayerConfig(vocab_size=220, heads=1, width=3, d_att=1, d_out=1, context=32)
        )
        with torch.no_grad():
            for tensor in (module.token.weight, module.position, module.query, module.key, module.value):
                tensor.zero_()
            module.query[0, 0, 0] = module.key[0, 0, 1] = module.value[0, 0, 2] = 1.0
            module.readout[0, :, 0] = torch.tensor([1.0, -1.0])
            for word, (score, value) in self.words.items():
                index = tokenizer.convert_tokens_to_ids(word)
                module.token.weight[index] = torch.tensor([float(word == "[CLS]"), score, value])
        model: Any = heedful.load(
            module.eval(),
            tokenizer=tokenizer,
            forward=lambda e, m: module.attend(inputs_embeds=e, attention_mask=m),
            labels=("yes", "no"),
        )
        self.cases: Cases = prepare(model, [text])
        self.tokens = self.cases.cases[0].x.tokens
        self.values = np.array([self.words[token][1] for token in self.tokens])
        scores = np.exp([self.words[token][0] for token in self.tokens])
        self.weights = scores / scores.sum()

    def answer(self, weights: Any) -> Any:
        """(..., T) -> (...): probability of "yes"."""
        return 1 / (1 + np.exp(-2 * (np.asarray(weights) @ self.values)))


@pytest.fixture(scope="session")
def by_hand(tokenizer_of: Callable[[str], Any]) -> Callable[[Words, str], ByHand]:
    return lambda words, text: ByHand(tokenizer_of("wordpiece"), words, text)


@pytest.fixture(scope="session")
def small(tokenizer_of: Callable[[str], Any]) -> Callable[..., Any]:
    """seed, heads -> a one-layer classifier that trains in a second."""

    def build(seed: int = 0, heads: int = 2) -> Any:
        config = OneLayerConfig(vocab_size=220, heads=heads, width=16, d_att=8, d_out=8, context=32)
        module = OneLayerClassifier(config, seed).eval()
        return heedful.load(
            module,
            tokenizer=tokenizer_of("wordpiece"),
            forward=lambda e, m: module.attend(inputs_embeds=e, attention_mask=m),
            labels=("no", "yes"),
        )

    return build
