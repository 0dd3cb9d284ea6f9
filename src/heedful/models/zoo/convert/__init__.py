"""Converters: the few files taken out of a carrier become a folder that plain transformers loads.

One file per model, each with `convert(source, out)`: it reads the extracted members in `source` and writes
config.json, model.safetensors and a tokenizer or an image processor into `out`. They need numpy and
safetensors (mobilenet: torch, too); weights are copied or dequantised, never trained, rounded or unpickled.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import cast

FORMAT = 1  # raise it when a converter's output changes: older folders are then rebuilt by the next pull


def convert(name: str, source: Path, out: Path) -> None:
    """Run the converter of the zoo model `name`."""
    module = import_module(f"{__name__}.{name.replace('-', '_')}")
    cast(Callable[[Path, Path], None], module.convert)(source, out)
