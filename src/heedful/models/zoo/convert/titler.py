"""Flan-T5-small fine-tuned to title steps: int8 ONNX encoder + decoder → one T5ForConditionalGeneration.

Weights are dequantised, w = (q − z)·s, which is exactly the matrix onnxruntime multiplies by; what cannot be
kept is its dynamic rounding of the *activations* to 8 bits, so outputs agree loosely, not to the last digit.
The export quantised the output layer apart from the embedding, so `lm_head` is stored on its own (untied).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from heedful.core.errors import HeedfulError
from heedful.models.zoo.convert import onnx_weights
from heedful.models.zoo.convert.folder import (
    copy_tokenizer,
    write_json,
    write_tokenizer_config,
    write_weights,
)

LAYERS = 8
CONFIG = {
    "architectures": ["T5ForConditionalGeneration"],
    "model_type": "t5",
    "d_ff": 1024,
    "d_kv": 64,
    "d_model": 512,
    "decoder_start_token_id": 0,
    "dropout_rate": 0.1,
    "eos_token_id": 1,
    "feed_forward_proj": "gated-gelu",
    "is_encoder_decoder": True,
    "layer_norm_epsilon": 1e-06,
    "num_decoder_layers": LAYERS,
    "num_heads": 6,
    "num_layers": LAYERS,
    "pad_token_id": 0,
    "relative_attention_max_distance": 128,
    "relative_attention_num_buckets": 32,
    "tie_word_embeddings": False,  # transformers reads it as: do not scale the decoder's output
    "use_cache": True,
    "vocab_size": 32128,
    "dtype": "float32",
}


def convert(source: Path, out: Path) -> None:
    """Encoder and decoder in one folder, with the start, end and padding ids that generation needs."""
    encoder = onnx_weights.read(source / "encoder.onnx")
    decoder = onnx_weights.read(source / "decoder.onnx")
    tensors = onnx_weights.rename(encoder, {"enc.": "encoder."})
    tensors |= onnx_weights.rename(decoder, {"m.": ""})
    if not np.array_equal(tensors.pop("encoder.embed_tokens.weight"), tensors["shared.weight"]):
        raise HeedfulError("the titler's encoder and decoder do not share their embedding")
    write_weights(out, tensors, expected=LAYERS * (9 + 14) + 2 + 2 + 2)
    write_json(out / "config.json", CONFIG)
    generation = {"decoder_start_token_id": 0, "eos_token_id": 1, "pad_token_id": 0, "max_new_tokens": 32}
    write_json(out / "generation_config.json", generation)
    copy_tokenizer(source, out)
    special = {"eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
    write_tokenizer_config(out, window=512, special=special, inputs=("input_ids", "attention_mask"))
