"""Whole numbers from outside: short enough to compute with, and seeds that every generator takes."""

from __future__ import annotations

from typing import Any

from heedful.core.errors import HeedfulError

MAX_DIGITS = 18  # below 2^63; Python itself refuses to read 5,000 digits
MAX_SEED = 2**63 - 1
MAX_COUNT = 10**6  # of what is drawn, repeated or kept in memory at once


def whole_number(text: str) -> int | None:
    """The number that ASCII digits spell; None for any other text and for more digits than MAX_DIGITS.

    >>> whole_number(" 12 "), whole_number("-1"), whole_number("9" * 5000)
    (12, None, None)
    """
    digits = text.strip()
    plain = digits.isascii() and digits.isdigit() and len(digits) <= MAX_DIGITS
    return int(digits) if plain else None


def check_seed(seed: Any) -> None:
    """Refuse what numpy or torch would not take."""
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed <= MAX_SEED:
        raise HeedfulError(f"seed cannot be {seed!r:.60}", "it is a whole number, 0 or more, below 2^63")
