"""The parts of an explanation below its first screen, each a function from a `Comparison` to nodes."""

from heedful.reports.comparison_parts.agreement import agreement
from heedful.reports.comparison_parts.evidence import evidence
from heedful.reports.comparison_parts.inside import attention, features
from heedful.reports.comparison_parts.made import again, cost, made, remarks
from heedful.reports.comparison_parts.words import claims, methods, words, written

__all__ = [
    "again",
    "agreement",
    "attention",
    "claims",
    "cost",
    "evidence",
    "features",
    "made",
    "methods",
    "remarks",
    "words",
    "written",
]
