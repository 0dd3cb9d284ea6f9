"""Models to time: sizes matter, weights do not, so they are random and nothing is downloaded."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch

import heedful
from heedful.models import zoo


@cache
def minilm_size() -> tuple[Any, Any]:
    """(model, tokenizer): a BERT classifier with MiniLM-L6's shape and the zoo's tokenizer."""
    from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification

    tokenizer = AutoTokenizer.from_pretrained(zoo.path("sentiment"))
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=384,
        num_hidden_layers=6,
        num_attention_heads=12,
        intermediate_size=1536,
    )
    return BertForSequenceClassification(config).eval(), tokenizer


@cache
def text_of(tokens: int) -> str:
    """A text of exactly that many tokens, special ones included."""
    tokenizer = minilm_size()[1]
    words = ("the film was long but the cast is good and the end made me cry " * 40).split()
    count = next(
        n for n in range(1, len(words)) if len(tokenizer(" ".join(words[:n]))["input_ids"]) >= tokens
    )
    return " ".join(words[:count])


def loaded() -> Any:
    return heedful.load(minilm_size())
