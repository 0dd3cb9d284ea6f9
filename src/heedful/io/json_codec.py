"""Results as JSON: one rule for numbers JSON does not have."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from heedful.core.arrays import Floats
from heedful.core.errors import HeedfulError


def json_number(value: float) -> float | str | None:
    if math.isfinite(value):
        return float(value)
    return None if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")


def to_jsonable(value: Any) -> Any:
    """Any setting as JSON can hold it: tuples become lists, numpy numbers plain ones, the rest its text."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return json_number(value)
    if isinstance(value, Mapping):
        return {str(key): to_jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_jsonable(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted((to_jsonable(item) for item in value), key=str)
    if isinstance(value, np.ndarray | np.generic):
        return to_jsonable(value.tolist())
    return str(value)


def floats_from_json(values: list[float | str | None]) -> Floats:
    return np.array([float("nan") if value is None else float(value) for value in values], dtype=np.float64)


def json_bytes(data: Mapping[str, Any]) -> bytes:
    return (json.dumps(data, allow_nan=False, indent=1) + "\n").encode("ascii")


def parse(content: bytes, path: Path) -> dict[str, Any]:
    try:
        data = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise HeedfulError(f"{path} is damaged", f"not JSON: {error}", "Make the run again") from error
    if not isinstance(data, dict):
        raise HeedfulError(f"{path} is damaged", "it should hold a JSON object", "Make the run again")
    return data
