"""ConSE: MobileNetV2 and MiniLM side by side, and the vectors of the 1,000 class names.

Both networks are converted as for themselves. The vectors of the names are computed here, once, by MiniLM.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

from heedful.models.zoo.convert import minilm, mobilenet
from heedful.models.zoo.convert.folder import Tensors, write_json, write_weights

BATCH = 100
PROMPT = "a photo of a {}"


def convert(source: Path, out: Path) -> None:
    """ConseModel with the tokenizer of MiniLM and the image processor of MobileNetV2."""
    from safetensors.numpy import load_file

    tensors: Tensors = {}
    configs: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(dir=out.parent) as work:
        for name, part in (("vision", mobilenet), ("text", minilm)):
            folder = Path(work) / name
            folder.mkdir()
            part.convert(source, folder)
            stored = load_file(folder / "model.safetensors")
            tensors |= {f"{name}.{key}": value for key, value in stored.items()}
            configs[f"{name}_config"] = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        tensors["class_vectors"] = name_vectors(Path(work) / "text")
        for file in ("text/tokenizer.json", "text/tokenizer_config.json", "vision/preprocessor_config.json"):
            shutil.copy(Path(work) / file, out)
    write_weights(out, tensors, expected=mobilenet.TENSORS + minilm.TENSORS + 1)
    architecture = {"architectures": ["ConseModel"], "model_type": "heedful-conse", "dtype": "float32"}
    write_json(out / "config.json", architecture | configs)


def name_vectors(folder: Path) -> Any:
    """(1000, 384), of length one: the mean over the tokens of "a photo of a tench" and so on."""
    import torch
    from transformers import AutoTokenizer, BertModel

    tokenizer, model = AutoTokenizer.from_pretrained(folder), BertModel.from_pretrained(folder).eval()
    captions = [PROMPT.format(name) for name in mobilenet.class_names()]
    vectors = []
    with torch.inference_mode():
        for start in range(0, len(captions), BATCH):
            batch = tokenizer(captions[start : start + BATCH], padding=True, return_tensors="pt")
            mask = batch["attention_mask"][..., None].float()
            vectors.append((model(**batch).last_hidden_state * mask).sum(1) / mask.sum(1))
    return torch.nn.functional.normalize(torch.cat(vectors)).numpy()
