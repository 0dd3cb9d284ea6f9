"""One HTML file for results that are facts and tables: heads, pruning, stored activations, an SAE."""

from __future__ import annotations

from typing import Any

from heedful.reports import notebook_fields
from heedful.reports.comparison_page import document


def page(result: Any) -> str:
    """A self-contained HTML5 document."""
    return document(result.run_title(), body(result, 1))


def body(result: Any, size: int) -> str:
    """Facts and tables of its fields; `size` is the heading level of the title."""
    return notebook_fields.body(result, size, result.run_title())
