"""What every zoo script does at the end: half-precision safetensors, an interval, and the versions used.

Half precision halves the files; all metrics are measured on the stored file loaded back to float32, so the
rounding is part of the number. Wilson interval: Wilson 1927, "Probable inference".
"""

from __future__ import annotations

import json
import math
import platform
from pathlib import Path
from typing import Any

import safetensors.torch
import tokenizers
import torch
import transformers

ZOO = Path(__file__).resolve().parent.parent / "src" / "heedful" / "zoo"


def save_half(state: dict[str, torch.Tensor], path: Path) -> None:
    """Store tensors as fp16 safetensors (the "pt" metadata is what transformers asks for)."""
    half = {name: t.detach().to(torch.float16).contiguous() for name, t in state.items()}
    safetensors.torch.save_file(half, path, metadata={"format": "pt"})


def save_transformers(model: transformers.PreTrainedModel, folder: Path) -> None:
    """config.json + model.safetensors in fp16; the config says float32, so loading gives float32 weights."""
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder)
    kept = safetensors.torch.load_file(folder / "model.safetensors")  # tied weights are already left out
    save_half(kept, folder / "model.safetensors")
    config = json.loads((folder / "config.json").read_text())
    config["dtype"] = "float32"
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")


def wilson(right: int, n: int, z: float = 1.959964) -> tuple[float, float]:
    """95 % interval of a proportion."""
    p = right / n
    centre = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return centre - half, centre + half


def accuracy(right: int, n: int) -> dict[str, Any]:
    """Accuracy as it stands in metrics.json."""
    low, high = wilson(right, n)
    return {"accuracy": round(right / n, 4), "interval_95": [round(low, 4), round(high, 4)], "n": n}


def versions() -> dict[str, str]:
    """Versions that the numbers depend on."""
    return {
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "transformers": transformers.__version__,
        "tokenizers": tokenizers.__version__,
    }


def write_metrics(folder: Path, metrics: dict[str, Any]) -> None:
    """metrics.json beside the weights."""
    (folder / "metrics.json").write_text(json.dumps(metrics, indent=2) + "\n")
