"""Names of words: one that occurs more than once is numbered, the₁ and the₂."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

SUBSCRIPT = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


def numbered(words: Sequence[str]) -> list[str]:
    """In reading order. A word of spaces is shown as ␣."""
    names = [word.strip() or "␣" for word in words]
    often, counts = Counter(names), Counter[str]()
    labels = []
    for name in names:
        counts[name] += 1
        labels.append(f"{name}{str(counts[name]).translate(SUBSCRIPT)}" if often[name] > 1 else name)
    return labels
