"""ConseModel: pictures and texts as vectors without joint training, as a transformers model.

    v(picture) = Σ_c p(c | picture) · u(c)      u(c) = v("a photo of a c") / |v("a photo of a c")|   (C, d)
    v(text)    = Σ_t m_t h_t / Σ_t m_t          m = attention mask, h = hidden states of a text encoder (T, d)

p are the probabilities of a classifier with classes c. The cosine of both vectors is differentiable down to
the pixels and to the words. It knows of a picture what the classifier's classes tell, and nothing else: no
places, no colours, no counts. Importing this module registers it under `model_type: heedful-conse`. Norouzi
et al. 2014, "Zero-shot learning by convex combination of semantic embeddings".
"""

from __future__ import annotations

from typing import Any, no_type_check

import torch
from torch import Tensor
from transformers import (
    AutoConfig,
    AutoModel,
    BertConfig,
    BertModel,
    MobileNetV2Config,
    MobileNetV2ForImageClassification,
    PretrainedConfig,
    PreTrainedModel,
)
from transformers.modeling_outputs import BaseModelOutputWithPooling


@no_type_check  # transformers makes its own dataclass of it, which run-time checkers must not wrap
class ConseConfig(PretrainedConfig):  # type: ignore[misc]
    """The configs of the classifier and of the text encoder."""

    model_type = "heedful-conse"
    sub_configs = {"vision_config": MobileNetV2Config, "text_config": BertConfig}  # noqa: RUF012
    vision_config: Any = None
    text_config: Any = None

    def __post_init__(self, **kwargs: Any) -> None:
        for name, kind in self.sub_configs.items():
            given = getattr(self, name)
            setattr(self, name, given if isinstance(given, kind) else kind(**(given or {})))
        super().__post_init__(**kwargs)


class ConseModel(PreTrainedModel):  # type: ignore[misc]
    """A dual encoder: `get_image_features` and `get_text_features`, as CLIPModel has them."""

    config_class = ConseConfig
    class_vectors: Tensor  # (C, d), of length one

    def __init__(self, config: ConseConfig) -> None:
        super().__init__(config)
        self.vision = MobileNetV2ForImageClassification(config.vision_config)
        self.text = BertModel(config.text_config)
        width = config.text_config.hidden_size
        self.register_buffer("class_vectors", torch.zeros(config.vision_config.num_labels, width))
        self.post_init()

    def get_image_features(self, pixel_values: Tensor) -> Tensor:
        """(B, 3, H, W) -> (B, d)"""
        shares: Tensor = self.vision(pixel_values=pixel_values).logits.softmax(-1)  # (B, C)
        return shares @ self.class_vectors

    def get_text_features(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, **flags: Any
    ) -> BaseModelOutputWithPooling:
        """(B, T) -> (B, d) as `pooler_output`, with attentions and hidden states on request."""
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        out = self.text(input_ids, attention_mask=mask, return_dict=True, **flags)
        weight = mask.to(out.last_hidden_state.dtype)[..., None]  # (B, T, 1)
        out.pooler_output = (out.last_hidden_state * weight).sum(1) / weight.sum(1).clamp(min=1e-9)
        return out

    def forward(
        self, input_ids: Tensor, pixel_values: Tensor, attention_mask: Tensor | None = None
    ) -> Tensor:
        """Cosines (pictures, texts)."""
        pictures = self.get_image_features(pixel_values)
        texts = self.get_text_features(input_ids, attention_mask).pooler_output
        return torch.nn.functional.normalize(pictures) @ torch.nn.functional.normalize(texts).T


AutoConfig.register(ConseConfig.model_type, ConseConfig, exist_ok=True)
AutoModel.register(ConseConfig, ConseModel, exist_ok=True)
