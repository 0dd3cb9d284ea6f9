"""Prompt-injection classifier: ONNX float32 → BertModel, mean pool, two Linear layers, weights unchanged.

No stock transformers class has this head; `heedful.models.mean_pool.MeanPoolClassifier` does, and once that
module is imported `AutoModelForSequenceClassification.from_pretrained(folder)` finds it.
"""

from __future__ import annotations

from pathlib import Path

from heedful.models.zoo.convert import onnx_weights
from heedful.models.zoo.convert.folder import (
    BERT_INPUTS,
    BERT_SPECIAL,
    MINILM,
    copy_tokenizer,
    write_json,
    write_tokenizer_config,
    write_weights,
)

WINDOW = 256  # the carrier classifies windows of 256 tokens; the weights hold 512 positions


def convert(source: Path, out: Path) -> None:
    """MeanPoolClassifier: MiniLM-L6 → mean over real tokens → Linear 128 → ReLU → Linear 2."""
    tensors = onnx_weights.read(source / "mini_semantic.onnx")
    tensors = onnx_weights.rename(tensors, {"encoder.": "bert.", "classifier.": "classifier."})
    write_weights(out, tensors, expected=5 + 6 * 16 + 4)
    config = {
        "architectures": ["MeanPoolClassifier"],
        "model_type": "heedful-mean-pool",
        **MINILM,
        "head_size": 128,
        "head_dropout": 0.1,
        "id2label": {"0": "benign", "1": "injection"},
        "label2id": {"benign": 0, "injection": 1},
        "problem_type": "single_label_classification",
    }
    write_json(out / "config.json", config)
    copy_tokenizer(source, out)
    write_tokenizer_config(out, window=WINDOW, special=BERT_SPECIAL, inputs=BERT_INPUTS, do_lower_case=True)
