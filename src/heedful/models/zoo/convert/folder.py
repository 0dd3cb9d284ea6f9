"""What every converted folder has in common: weights, a config, a tokenizer that neither cuts nor pads."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heedful.core.errors import HeedfulError

Tensors = dict[str, NDArray[Any]]


def write_json(path: Path, data: Mapping[str, Any]) -> None:
    """One readable JSON file."""
    path.write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def write_weights(out: Path, tensors: Tensors, expected: int) -> None:
    """model.safetensors with exactly `expected` tensors: a lost weight must not become a random one later."""
    from safetensors.numpy import save_file

    if len(tensors) != expected:
        raise HeedfulError(f"the conversion found {len(tensors)} weights instead of {expected}")
    whole = {name: np.asarray(value, order="C") for name, value in tensors.items()}
    save_file(whole, out / "model.safetensors", metadata={"format": "pt"})


def copy_tokenizer(source: Path, out: Path) -> None:
    """tokenizer.json without its stored truncation and padding, which would silently cut a long text."""
    tokenizer = json.loads((source / "tokenizer.json").read_text(encoding="utf-8"))
    tokenizer.update(truncation=None, padding=None)
    (out / "tokenizer.json").write_text(json.dumps(tokenizer, ensure_ascii=False), encoding="utf-8")


def write_tokenizer_config(
    out: Path, *, window: int, special: Mapping[str, str], inputs: Sequence[str], **more: Any
) -> None:
    """tokenizer_config.json that makes AutoTokenizer take tokenizer.json as it is, not rebuild it."""
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": window,
        "model_input_names": list(inputs),
        "clean_up_tokenization_spaces": False,
        **special,
        **more,
    }
    write_json(out / "tokenizer_config.json", config)


BERT_INPUTS = ("input_ids", "token_type_ids", "attention_mask")
BERT_SPECIAL = {
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "mask_token": "[MASK]",
}
MINILM = {  # the encoder of all-MiniLM-L6-v2
    "attention_probs_dropout_prob": 0.1,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "hidden_size": 384,
    "initializer_range": 0.02,
    "intermediate_size": 1536,
    "layer_norm_eps": 1e-12,
    "max_position_embeddings": 512,
    "num_attention_heads": 12,
    "num_hidden_layers": 6,
    "pad_token_id": 0,
    "type_vocab_size": 2,
    "vocab_size": 30522,
    "dtype": "float32",
}
