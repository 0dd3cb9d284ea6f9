"""The lime package on a transformer, as its documentation says: a function of texts, in batches of 64."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

BATCH = 64


class Counted:
    """The function of texts, with what it ran; logits or probabilities, which cost the same."""

    def __init__(self, module: Any, tokenizer: Any, logits: bool = False) -> None:
        self.module, self.tokenizer, self.logits = module, tokenizer, logits
        self.rows = self.tokens = self.padding = 0

    def __call__(self, texts: list[str]) -> np.ndarray:
        parts = [self._batch(texts[i : i + BATCH]) for i in range(0, len(texts), BATCH)]
        return torch.cat(parts).numpy()

    def _batch(self, texts: list[str]) -> torch.Tensor:
        inputs = self.tokenizer(texts, padding=True, return_tensors="pt")
        mask = inputs["attention_mask"]
        self.rows += len(texts)
        self.tokens += mask.numel()
        self.padding += mask.numel() - int(mask.sum())
        with torch.inference_mode():
            logits = self.module(input_ids=inputs["input_ids"], attention_mask=mask).logits
        return logits if self.logits else logits.softmax(-1)


def explain(function: Counted, text: str, label: int, samples: int, features: int, seed: int) -> np.ndarray:
    """(d,): a coefficient a word, in the order of the text (whose words are all different)."""
    from lime.lime_text import LimeTextExplainer

    explainer = LimeTextExplainer(random_state=seed)
    found = explainer.explain_instance(
        text, function, labels=(label,), num_samples=samples, num_features=features
    )
    scores = np.zeros(len(text.split()))
    for word, score in found.as_map()[label]:
        scores[word] = score
    return scores
