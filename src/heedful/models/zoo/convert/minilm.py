"""all-MiniLM-L6-v2: safetensors already; drop one stored buffer, keep every weight bit for bit."""

from __future__ import annotations

from pathlib import Path

from heedful.models.zoo.convert.folder import (
    BERT_INPUTS,
    BERT_SPECIAL,
    MINILM,
    copy_tokenizer,
    write_json,
    write_tokenizer_config,
    write_weights,
)

TENSORS = 5 + 6 * 16 + 2
WINDOW = 256  # what the authors' own library truncates to; the weights hold 512 positions


def convert(source: Path, out: Path) -> None:
    """BertModel (6 layers, 12 heads, d 384) with its tokenizer."""
    from safetensors.numpy import load_file

    tensors = load_file(source / "model.safetensors")
    tensors.pop("embeddings.position_ids", None)  # 0, 1, 2, …: transformers makes it by itself
    write_weights(out, tensors, expected=TENSORS)
    write_json(out / "config.json", {"architectures": ["BertModel"], "model_type": "bert", **MINILM})
    copy_tokenizer(source, out)
    write_tokenizer_config(out, window=WINDOW, special=BERT_SPECIAL, inputs=BERT_INPUTS, do_lower_case=True)
