"""Pieces that pages are made of: escaped text, sections, tables."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping

from heedful.reports.visible import visible

WIDE = 8  # columns that fit an upright sheet of paper


def esc(text: object) -> str:
    """Escaped, with controls made visible; line breaks and tabs stay."""
    parts = str(text).replace("\r\n", "\n").split("\n")
    return "\n".join("\t".join(html.escape(visible(cell)) for cell in part.split("\t")) for part in parts)


def fact_text(value: object) -> str:
    """A setting as a reader sees it; "" where there is none."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {fact_text(item)}" for key, item in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return "" if value is None else str(value)


def part(name: str, title: str, lead: str, body: str, size: int) -> str:
    """One section with its heading (h2 on the page, smaller in a notebook)."""
    note = f'<p class="lead">{lead}</p>' if lead else ""
    return f'<section class="part {name}"><h{size} class="title">{title}</h{size}>{note}{body}</section>'


def table(head: Iterable[str], rows: Iterable[str], label: str, kind: str = "") -> str:
    """A table that scrolls sideways by itself and can be reached with the keyboard; one of many columns is
    printed on a page turned sideways."""
    head = list(head)
    wide = " wide" if len(head) > WIDE else ""
    unnamed = '<span class="unseen">name</span>'
    heads = "".join(f'<th scope="col">{cell or unnamed}</th>' for cell in head)
    return (
        f'<div class="scroll{wide}" role="region" tabindex="0" aria-label="{label}"><table class="{kind}">'
        f"<thead><tr>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )
