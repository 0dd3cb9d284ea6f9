"""MeanPoolClassifier: BERT → mean over real tokens → Linear → ReLU → Linear, as a transformers model.

    logits = W₂ · relu(W₁ · Σ_t m_t h_t / max(Σ_t m_t, 1e-9) + b₁) + b₂       m = attention mask, h = (T, d)

The head that many ONNX classifiers use and no stock transformers class has. Importing this module registers
it with the Auto classes under `model_type: heedful-mean-pool`, so folders load without remote code. Attention
implementation, `output_attentions` and `inputs_embeds` are those of the inner BertModel. No labels, no loss:
the model is here to be explained, not trained.
"""

from __future__ import annotations

from typing import Any, no_type_check

import torch
from torch import Tensor, nn
from transformers import (
    AutoConfig,
    AutoModelForSequenceClassification,
    BertConfig,
    BertModel,
    BertPreTrainedModel,
)
from transformers.modeling_outputs import SequenceClassifierOutput


@no_type_check  # transformers makes its own dataclass of it, which run-time checkers must not wrap
class MeanPoolConfig(BertConfig):  # type: ignore[misc]
    """BertConfig plus the width and dropout of the head's hidden layer."""

    model_type = "heedful-mean-pool"
    head_size: int = 128
    head_dropout: float = 0.1


class MeanPoolClassifier(BertPreTrainedModel):  # type: ignore[misc]
    """The classifier; parameter names are the carrier's (`classifier.0`, `classifier.3`)."""

    config_class = MeanPoolConfig

    def __init__(self, config: MeanPoolConfig) -> None:
        super().__init__(config)
        self.num_labels = config.num_labels
        self.bert = BertModel(config, add_pooling_layer=False)
        self.classifier = nn.Sequential(
            nn.Linear(config.hidden_size, config.head_size),
            nn.ReLU(),
            nn.Dropout(config.head_dropout),
            nn.Linear(config.head_size, config.num_labels),
        )
        self.post_init()

    def forward(
        self,
        input_ids: Tensor | None = None,  # (B, T)
        attention_mask: Tensor | None = None,  # (B, T), 1 for real tokens
        inputs_embeds: Tensor | None = None,  # (B, T, d) in place of input_ids
        **kwargs: Any,
    ) -> SequenceClassifierOutput | tuple[Any, ...]:
        """Logits (B, labels), with hidden states and attentions on request."""
        as_dict = kwargs.pop("return_dict", None) is not False
        inner = self.bert(
            input_ids, attention_mask=attention_mask, inputs_embeds=inputs_embeds, return_dict=True, **kwargs
        )
        hidden: Tensor = inner.last_hidden_state  # (B, T, d)
        mask = (
            torch.ones(hidden.shape[:2], device=hidden.device) if attention_mask is None else attention_mask
        )
        mask = mask.to(hidden.dtype)[..., None]  # (B, T, 1)
        pooled = (hidden * mask).sum(1) / mask.sum(1).clamp(min=1e-9)  # (B, d)
        out = SequenceClassifierOutput(
            logits=self.classifier(pooled), hidden_states=inner.hidden_states, attentions=inner.attentions
        )
        return out if as_dict else out.to_tuple()


AutoConfig.register(MeanPoolConfig.model_type, MeanPoolConfig, exist_ok=True)
AutoModelForSequenceClassification.register(MeanPoolConfig, MeanPoolClassifier, exist_ok=True)
