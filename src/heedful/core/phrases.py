"""Phrases that several sentences share, and nouns in the plural."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

EXPENSIVE = "it is expensive, so it runs only when named"  # why a method is not among all
SIBILANTS = ("s", "x", "ch", "sh")  # a noun that ends so takes -es

# a note of methods that keep only what speaks for the target
EMPTY_MAP = "no part speaks for the target: the map is empty"


def listed(names: Sequence[str]) -> str:
    """a, b and c"""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def left_out(skipped: Mapping[str, str]) -> str:
    """One line for all methods that run only when named, or ""."""
    expensive = [method for method, why in skipped.items() if why == EXPENSIVE]
    return f"skipped (expensive): {', '.join(expensive)}; run with --method NAME" if expensive else ""


def plural(noun: str) -> str:
    """words, patches"""
    return f"{noun}{'es' if noun.endswith(SIBILANTS) else 's'}"


def counted(count: int, noun: str) -> str:
    """1 text, 1,000 texts"""
    return f"{count:,} {noun if count == 1 else plural(noun)}"


@dataclass(frozen=True)
class InputWords:
    """What sentences call the inputs and the parts that are removed from them."""

    noun: str = "text"
    parts: str = "words"

    @property
    def many(self) -> str:
        """texts"""
        return plural(self.noun)

    def counted(self, count: int) -> str:
        """1 text, 20 texts"""
        return counted(count, self.noun)
