"""Shading that needs no stylesheet, for notebook cells: some hosts take <style> away, and a browser paints
every <mark> the same yellow, whatever its score.

Each mark becomes a span with the colours of its level (those of report.css, on white) and the line of its
sign in a style of its own. A host that takes these away too shows plain text, never a false shade. Where the
stylesheet stands, its rules for .shade win, so dark mode is as on the page. The one-file report keeps its
marks: its policy allows no style on an element.
"""

from __future__ import annotations

import re

HUES = {"pos": (0x5B, 0x9B, 0xD9), "neg": (0xEC, 0x9A, 0x4A), "any": (0xAB, 0x9F, 0xD6)}
LINES = {
    "pos": ";text-decoration:underline solid #14528f",
    "neg": ";text-decoration:underline dotted #9a4a00",
    "any": "",
}
SHARES = (0, 12, 22, 33, 44, 55, 66, 77, 88, 100)  # % of full colour by level
MARK = re.compile(r'<mark class="(pos|neg|any) l(\d)')


def inline(content: str) -> str:
    """The same HTML; text of the user is escaped in it and holds no tag."""
    return MARK.sub(_span, content).replace("</mark>", "</span>")


def _span(found: re.Match[str]) -> str:
    kind, level = found[1], int(found[2])
    return f'<span style="{style(kind, level)}" class="shade {kind} l{level}'


def style(kind: str, level: int) -> str:
    share = SHARES[level] / 100
    mixed = "".join(f"{round(255 + share * (part - 255)):02x}" for part in HUES[kind])
    return f"background:#{mixed};color:#1c2126{LINES[kind]}" if level else "background:none"
