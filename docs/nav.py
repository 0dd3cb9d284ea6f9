"""Puts every method, metric and lab into the navigation, below the page that lists them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
LISTS = {"methods.md": "methods", "metrics.md": "metrics", "labs/index.md": "labs"}


def on_config(config: Any) -> Any:
    config.nav = [_with_pages(item) for item in config.nav]
    return config


def _with_pages(item: Any) -> Any:
    """A list of pages becomes a section: the list first, then the pages by name."""
    if not isinstance(item, dict):
        return item
    ((title, value),) = item.items()
    if isinstance(value, list):
        return {title: [_with_pages(one) for one in value]}
    if value not in LISTS:
        return item
    pages = sorted((HERE / LISTS[value]).glob("*.md"))
    named = [{page.stem: f"{LISTS[value]}/{page.name}"} for page in pages if page.stem != "index"]
    return {title: [{"All of them": value}, *named]}
