"""Measured values with their intervals, as text for a cell of a table."""

from __future__ import annotations

import math

from heedful.core.evidence import MeasuredValue


def ranged(figure: MeasuredValue, share: bool = False) -> str:
    """0.2 (0.1 to 0.3); a `share` in percent."""
    if not math.isfinite(figure.value):
        return "–"
    form = "{:.1%}" if share else "{:.4g}"
    value = form.format(figure.value)
    if not (math.isfinite(figure.low) and math.isfinite(figure.high)):
        return value
    return f"{value} ({form.format(figure.low)} to {form.format(figure.high)})"
