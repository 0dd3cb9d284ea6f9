"""Small dual encoders: random CLIP and SigLIP models in float64, and a linear pair with a closed form."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from torch import Tensor, nn
from transformers import (
    CLIPConfig,
    CLIPImageProcessorPil,
    CLIPModel,
    PreTrainedTokenizerFast,
    SiglipConfig,
    SiglipModel,
)

WORDS = [
    "<pad>",
    "<unk>",
    "<bos>",
    "a",
    "red",
    "blue",
    "green",
    "circle",
    "star",
    "square",
    "photo",
    "of",
    "the",
    "b",
    "left",
    "right",
    "and",
    "<eos>",
]
SIDE, PATCH, LENGTH = 32, 8, 12
SIZES = {"hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 32}


def tokenizer() -> PreTrainedTokenizerFast:
    inner = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    ends = [("<bos>", 2), ("<eos>", len(WORDS) - 1)]
    inner.post_processor = processors.TemplateProcessing(single="<bos> $A <eos>", special_tokens=ends)
    return PreTrainedTokenizerFast(
        tokenizer_object=inner,
        pad_token="<pad>",
        unk_token="<unk>",
        bos_token="<bos>",
        eos_token="<eos>",
        model_max_length=LENGTH,
    )


def processor() -> Any:
    size = {"height": SIDE, "width": SIDE}
    return SimpleNamespace(
        image_processor=CLIPImageProcessorPil(size=size, crop_size=size), tokenizer=tokenizer()
    )


def module(name: str, seed: int = 0) -> Any:
    """ "clip" or "siglip", with weights large enough that words and patches matter."""
    torch.manual_seed(seed)
    ends = {"eos_token_id": len(WORDS) - 1, "bos_token_id": 2, "pad_token_id": 0}
    text = {**SIZES, **ends, "vocab_size": len(WORDS), "max_position_embeddings": LENGTH}
    vision = {**SIZES, "image_size": SIDE, "patch_size": PATCH}
    if name == "clip":
        made: Any = CLIPModel(CLIPConfig(text_config=text, vision_config=vision, projection_dim=8))
    else:
        made = SiglipModel(SiglipConfig(text_config=text, vision_config=vision))
    with torch.no_grad():
        for parameter in made.parameters():
            if parameter.ndim > 1:
                parameter.mul_(4)
    return made.double().eval()


def picture(seed: int = 0) -> Any:
    return np.random.default_rng(seed).integers(0, 256, (SIDE, SIDE, 3)).astype(np.uint8)


class LinearPair(nn.Module):
    """u = (mean of the left half, mean of the right half, 1) and v = sum of the rows of the tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(len(WORDS), 3)
        with torch.no_grad():
            self.table.weight.zero_()
            self.table.weight[WORDS.index("left")] = torch.tensor([1.0, 0.0, 0.0])
            self.table.weight[WORDS.index("right")] = torch.tensor([0.0, 1.0, 0.0])
            self.table.weight[WORDS.index("<bos>")] = torch.tensor([0.0, 0.0, 1.0])
        self.double()

    def get_image_features(self, pixel_values: Tensor) -> Tensor:
        grey = pixel_values.mean(1)  # (B, H, W)
        half = grey.shape[-1] // 2
        left, right = grey[..., :half].mean((1, 2)), grey[..., half:].mean((1, 2))
        return torch.stack([left, right, torch.ones_like(left)], 1)

    def get_text_features(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        return (self.table(input_ids) * mask[..., None]).sum(1)
