"""Colours of scores, the same on every surface: three hues, nine levels; and the marks of claims.

`inline_style` writes a colour into the element itself, for notebooks: some hosts take <style> away, and a
browser paints every <mark> the same yellow, whatever its score. Where the style sheet is kept, its rules win.
"""

from __future__ import annotations

import math

HUES = {"pos": (0x5B, 0x9B, 0xD9), "neg": (0xEC, 0x9A, 0x4A), "any": (0xAB, 0x9F, 0xD6)}
LINES = {
    "pos": ";text-decoration:underline solid #14528f",
    "neg": ";text-decoration:underline dotted #9a4a00",
    "any": "",
}
TERMINAL_COLOURS = {"pos": "blue", "neg": "dark_orange3", "any": "magenta"}
COLOUR_NAMES = {"pos": "blue", "neg": "orange", "any": "violet"}  # of these, in words
HOLDS, FAILED = "✓", "✗"  # marks of a claim
LEAST = 0.05  # share of the strongest score below which nothing is coloured
TOO_WEAK = f"no part of the picture reaches {LEAST:.0%} of the strongest score".replace("%", " %")
SHARES = (0, 12, 22, 33, 44, 55, 66, 77, 88, 100)  # % of full colour by level


def level(share: float) -> int:
    return min(9, math.ceil(abs(share) * 9 - 1e-9)) if math.isfinite(share) and abs(share) >= LEAST else 0


def hue(share: float, signed: bool) -> str:
    return "any" if not signed else "pos" if share >= 0 else "neg"


def inline_style(kind: str, steps: int) -> str:
    share = SHARES[steps] / 100
    mixed = "".join(f"{round(255 + share * (part - 255)):02x}" for part in HUES[kind])
    return f"background:#{mixed};color:#1c2126{LINES[kind]}" if steps else "background:none"
