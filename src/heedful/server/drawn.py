"""A stored result as the page and `heedful report` show it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Drawn:
    """A run: what stands in the page, the same as one file, its numbers, and what the page needs to go on."""

    html: Callable[[], str]
    whole: Callable[[], str]
    document: Callable[[], dict[str, Any]]
    ask: dict[str, Any] | None = None
    data: dict[str, Any] | None = None
