"""Numbers as people read them: a real minus sign, and a dash for what is no number.

short, signed   3 significant digits: scores, activations
fixed           2 decimals: correlations, accuracies and other numbers around 1
by_size         fewer decimals for larger numbers: perplexities, lengths
percent         of shares; `probability` never rounds to certainty
"""

from __future__ import annotations

import math
from collections.abc import Callable

MISSING = "–"


def short(value: float, digits: int = 3) -> str:
    return _minus(f"{value:.{digits}g}") if math.isfinite(value) else MISSING


def signed(value: float) -> str:
    return _minus(f"{value:+.3g}") if math.isfinite(value) else MISSING


def fixed(value: float, decimals: int = 2) -> str:
    """Without the sign of a zero."""
    if not math.isfinite(value):
        return MISSING
    text = f"{value:.{decimals}f}"
    return _minus(text.lstrip("-") if float(text) == 0 else text)


def fixed_signed(value: float, decimals: int = 3) -> str:
    return _minus(f"{value:+.{decimals}f}") if math.isfinite(value) else MISSING


def by_size(value: float) -> str:
    """1,234 and 12.3 and 1.23"""
    if not math.isfinite(value):
        return MISSING
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return _minus(f"{value:,.{digits}f}")


def at_most(value: float) -> str:
    """Two decimals, never below the value."""
    return f"{math.ceil(100 * value - 1e-9) / 100:.2f}"


def percent(share: float | None, decimals: int = 0) -> str:
    """86 %"""
    return MISSING if share is None or not math.isfinite(share) else _minus(f"{100 * share:.{decimals}f} %")


def probability(value: float) -> str:
    """Never rounds a probability to a certainty."""
    if 0.9995 <= value < 1:
        return "> 99.9 %"
    return "< 0.1 %" if 0 < value < 0.0005 else f"{100 * value:.1f} %"


def p_value(p: float) -> str:
    """Three decimals, but no p is zero."""
    return "< 0.001" if p < 0.0005 else fixed(p, 3)


def span(low: float, high: float, show: Callable[[float], str] = short) -> str:
    """0.1 to 0.3"""
    return f"{show(low)} to {show(high)}" if math.isfinite(low) and math.isfinite(high) else MISSING


def with_interval(value: float, low: float, high: float, show: Callable[[float], str] = fixed) -> str:
    """0.2 (0.1 to 0.3), and 0.2 where there is no interval."""
    ends = span(low, high, show)
    return show(value) if ends == MISSING else f"{show(value)} ({ends})"


def duration(seconds: float) -> str:
    """40 s, 5 min, 2.5 h"""
    if seconds < 100:
        return f"{seconds:.2g} s" if seconds >= 0.1 else f"{1000 * seconds:.2g} ms"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def _minus(text: str) -> str:
    return text.replace("-", "−")
