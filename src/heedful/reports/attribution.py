"""One method's answer, shown as a comparison of one."""

from __future__ import annotations

from heedful.comparisons.result import Comparison
from heedful.core.attribution import Attribution
from heedful.core.document import Document
from heedful.reports import comparison


def document(item: Attribution) -> Document:
    return comparison.document(Comparison((item,)))
