"""One method's answer, drawn as a comparison of one."""

from __future__ import annotations

from heedful.comparisons.result import Comparison
from heedful.core.attribution import Attribution
from heedful.reports import comparison_page


def page(item: Attribution) -> str:
    """A self-contained HTML5 document."""
    return comparison_page.page(Comparison((item,)))


def fragment(item: Attribution) -> str:
    """The same body for a notebook cell."""
    return comparison_page.fragment(Comparison((item,)))


def body(item: Attribution, size: int) -> str:
    """`size` is the heading level of the headline."""
    return comparison_page.body(Comparison((item,)), size)
