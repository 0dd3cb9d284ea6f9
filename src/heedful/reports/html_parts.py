"""Escaping for HTML, and settings as text."""

from __future__ import annotations

import html
from collections.abc import Mapping

from heedful.reports.visible import visible


def esc(text: object) -> str:
    """Escaped, with controls made visible; line breaks and tabs stay."""
    whole = str(text)
    if whole.isprintable():  # as nearly every text of a page is
        return html.escape(whole)
    parts = whole.replace("\r\n", "\n").split("\n")
    return "\n".join("\t".join(html.escape(visible(cell)) for cell in part.split("\t")) for part in parts)


def fact_text(value: object) -> str:
    """A setting as a reader sees it; "" where there is none."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {fact_text(item)}" for key, item in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return "" if value is None else str(value)
