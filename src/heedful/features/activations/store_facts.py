"""What a harvested store is, as its run folder says it: no torch, and no activation is read.

acts/manifest.json              how it was harvested, every shard with rows, size and SHA-256
acts/result.json                rows, mean, E‖x‖² and how the texts were read
acts/shards/000000.safetensors  (n, d) float32 or float16, under the name "activations"
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from heedful.core.errors import HeedfulError
from heedful.core.result import Summary
from heedful.core.result_kinds import result_kind
from heedful.io.json_codec import from_jsonable
from heedful.io.run_folder import OpenRun
from heedful.io.sharded_run import shards_of

KIND = "activations"
DTYPES = ("float32", "float16")


@dataclass(frozen=True)
class StoreShard:
    """One file of activations."""

    name: str  # below the folder
    rows: int
    bytes: int
    sha256: str


@result_kind("activations", version=1)
@dataclass(frozen=True)
class StoreFacts(Summary):
    """A harvested store without its activations."""

    name: str  # of the model
    site: str
    width: int
    dtype: str
    rows: int
    mean: tuple[float, ...] = ()  # (d,) over all rows
    mean_square_norm: float = float("nan")  # E‖x‖² over all rows
    model: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    texts: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, Any] = field(default_factory=dict)
    batches: int = 0
    padding: float = 0.0  # share of the model's input that was padding
    skipped: Mapping[str, int] = field(default_factory=dict)  # why texts were left out -> how many
    read: str = ""  # digest of what the model read
    shards: tuple[StoreShard, ...] = ()

    def save(self, folder: str | Path) -> Path:
        raise HeedfulError("the facts of a store have no activations", fix="Write it with: heedful.harvest")

    def run_title(self) -> str:
        return f"{self.rows:,} activations of {self.site}, {self.name}"

    def stored(self) -> dict[str, Any]:
        data = super().stored()
        del data["shards"]  # the manifest has them
        return data

    @classmethod
    def from_stored(cls, data: dict[str, Any], run: OpenRun) -> StoreFacts:
        facts = from_jsonable(cls, {**data, "shards": shards_of(run)})
        if facts.dtype not in DTYPES or sum(shard.rows for shard in facts.shards) != facts.rows:
            raise ValueError("its shards do not have the rows that it names")
        if facts.width < 1 or len(facts.mean) not in (0, facts.width):
            raise ValueError(f"a mean of {len(facts.mean)} numbers for activations of width {facts.width}")
        return facts
