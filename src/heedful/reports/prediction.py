"""What a model predicts, as it is read."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from heedful.core.numbers import probability
from heedful.metrics.sensitivity_warning import LOGIT_KINDS


def predictions(model: Mapping[str, Any]) -> list[tuple[str, str, float]]:
    """(label, value as shown, share of a bar from 0 to 1 or NaN), highest first, of a model's facts."""
    rows = [
        (str(label).strip() or "␣", float("nan") if value is None else float(value))
        for label, value in model.get("prediction") or ()
    ]
    values = [value for _, value in rows]
    chances = all(0 <= value <= 1 for value in values) and (
        model.get("kind") in LOGIT_KINDS or abs(sum(values) - 1) < 1e-3
    )
    if chances:
        return [(label, probability(value), value) for label, value in rows]
    return [(label, f"{value:.4g}", math.nan) for label, value in rows]
