"""Numbers as people read them: three digits, a real minus sign, a dash for what is no number."""

from __future__ import annotations

import math


def short(value: float) -> str:
    return f"{value:.3g}".replace("-", "−") if math.isfinite(value) else "–"


def signed(value: float) -> str:
    return f"{value:+.3g}".replace("-", "−") if math.isfinite(value) else "–"
