"""What a trained autoencoder is and was trained for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from heedful._version import __version__
from heedful.io.json_codec import to_jsonable

FORMAT = 1


@dataclass(frozen=True)
class Config:
    """What the weights mean, and where they came from."""

    kind: str
    d: int
    width: int
    k: int | None = None  # topk, batchtopk, matryoshka: active latents a row, in training
    prefixes: tuple[int, ...] = ()  # matryoshka
    scale: float = 1.0  # training saw scale * x
    source: Mapping[str, Any] = field(default_factory=dict)  # model, site, settings, figures of training
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return {"format": FORMAT, "heedful": __version__, **to_jsonable(self)}
