"""Text of the user that cannot control a terminal or a page."""

from __future__ import annotations

import unicodedata

BIDI = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def visible(text: str) -> str:
    """Control characters become pictures (␀, ␛, ␊), bidi overrides �."""
    if text.isprintable():  # no such character has a picture: the quick way for nearly every text
        return text
    return "".join(_picture(character) for character in text)


def _picture(character: str) -> str:
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "␡"
    category = unicodedata.category(character)
    return "�" if character in BIDI or category in ("Cc", "Cs", "Zl", "Zp") else character
