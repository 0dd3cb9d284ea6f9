"""Phrases that several sentences share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

EXPENSIVE = "it is expensive, so it runs only when named"  # why a method is not among all


def listed(names: Sequence[str]) -> str:
    """a, b and c"""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def plural(noun: str) -> str:
    """words, patches"""
    return f"{noun}es" if noun.endswith(("ch", "sh", "s", "x")) else f"{noun}s"


def left_out(skipped: Mapping[str, str]) -> str:
    """One line for all methods that run only when named, or ""."""
    expensive = [method for method, why in skipped.items() if why == EXPENSIVE]
    return f"skipped (expensive): {', '.join(expensive)}; run with --method NAME" if expensive else ""
