"""A stored result as the page and `heedful report` show it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class RunView:
    """A run: its HTML inside the page, the same as a file of its own, its numbers, and what the page needs to
    open it again."""

    html: Callable[[], str]
    page: Callable[[], str]
    document: Callable[[], dict[str, Any]]
    ask: dict[str, Any] | None = None
    data: dict[str, Any] | None = None
