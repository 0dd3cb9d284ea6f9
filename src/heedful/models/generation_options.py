"""Decoding strategies by name, as options of generate; the textbook versions are in heedful.nn.decode.

They are complete: nothing comes from the model's own generation settings, so greedy is the argmax.
"""

from __future__ import annotations

import math
from typing import Any

from heedful.core.errors import HeedfulError

# strategy -> the options of transformers' generate that define it; None means "as the caller says"
STRATEGIES: dict[str, dict[str, Any]] = {
    "greedy": {"do_sample": False, "num_beams": 1},
    "sample": {"do_sample": True, "temperature": 1.0, "top_k": 0, "top_p": 1.0},
    "temperature": {"do_sample": True, "temperature": None, "top_k": 0, "top_p": 1.0},
    "top-k": {"do_sample": True, "temperature": None, "top_k": None, "top_p": 1.0},
    "top-p": {"do_sample": True, "temperature": None, "top_k": 0, "top_p": None},
    "beam": {"do_sample": False, "num_beams": None, "length_penalty": 1.0, "early_stopping": False},
}


def generation_settings(strategy: str, **options: Any) -> dict[str, Any]:
    """The options of one decoding strategy for transformers' generate, with only what it uses."""
    if strategy not in STRATEGIES:
        raise HeedfulError(f"unknown strategy {strategy!r}", fix=f"Use one of: {', '.join(STRATEGIES)}")
    defaults = {"max_new_tokens": 40, "temperature": 0.7, "top_k": 50, "top_p": 0.9, "beams": 4}
    if unknown := set(options) - set(defaults):
        raise HeedfulError(f"unknown generation options: {', '.join(sorted(unknown))}")
    chosen = defaults | {key: value for key, value in options.items() if value is not None}
    if strategy in ("top-k", "top-p") and options.get("temperature") is None:
        chosen["temperature"] = 1.0
    for key, low in (
        ("max_new_tokens", 1),
        ("temperature", 1e-6),
        ("top_k", 1),
        ("top_p", 1e-6),
        ("beams", 1),
    ):
        if not low <= chosen[key] < math.inf:  # NaN is neither
            raise HeedfulError(f"{key} must be at least {low:g}, not {chosen[key]}")
    names = {"num_beams": "beams"}
    filled = {k: chosen[names.get(k, k)] if v is None else v for k, v in STRATEGIES[strategy].items()}
    return filled | {"max_new_tokens": chosen["max_new_tokens"]}


def is_id(value: Any) -> bool:
    """Whether something from a config can be the number of a token."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
