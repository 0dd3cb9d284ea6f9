"""Small change of sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

DEAR = "it takes many passes, so it runs when named"  # why a method is left out of all


def listed(names: Sequence[str]) -> str:
    """a, b and c"""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def left_out(refused: Mapping[str, str]) -> str:
    """One line for all methods that run only when named, or ""."""
    dear = [method for method, why in refused.items() if why == DEAR]
    them = "it" if len(dear) == 1 else "them"
    return f"left out as dear: {', '.join(dear)}; name {them} to run {them}" if dear else ""
