"""What a trained autoencoder is and was trained for: its run folder without the weights. No torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from heedful.core.errors import HeedfulError
from heedful.core.result import Summary
from heedful.core.result_kinds import result_kind
from heedful.features.sae.settings import KINDS
from heedful.io.json_codec import from_jsonable
from heedful.io.run_folder import OpenRun


@result_kind("sae", version=1)
@dataclass(frozen=True)
class Config(Summary):
    """What the weights mean, and where they came from."""

    kind: str
    d: int
    width: int
    k: int | None = None  # topk, batchtopk, matryoshka: active latents a row, in training
    prefixes: tuple[int, ...] = ()  # matryoshka
    scale: float = 1.0  # training saw scale * x
    source: Mapping[str, Any] = field(default_factory=dict)  # model, site, settings, figures of training
    notes: tuple[str, ...] = ()

    def save(self, folder: str | Path) -> Path:
        raise HeedfulError("a configuration has no weights", fix="Save the SAE itself: sae.save(folder)")

    def run_title(self) -> str:
        where = f" at {self.source['site']}" if self.source.get("site") else ""
        return f"{self.kind} SAE of {self.width:,} features{where}"

    @classmethod
    def from_stored(cls, data: dict[str, Any], run: OpenRun) -> Config:
        config = from_jsonable(cls, data)
        if config.kind not in KINDS or min(config.d, config.width) < 1:
            raise ValueError(f"no autoencoder of kind {config.kind} maps {config.d} to {config.width}")
        return config
