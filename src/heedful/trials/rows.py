"""What a test of the trial found: one number, its interval, its control, and what it shows.

    value      the number, a mean over texts (or seeds)
    interval   95 %, over the same
    control    the number if attention meant nothing or, for a distance, the scale to read it by

Every test returns its details and a list of these, so that the table of the trial is one table.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from heedful.io.json_codec import to_jsonable

INTERRUPTED = "They were interrupted."  # why tests were not held


@dataclass(frozen=True)
class TrialRow:
    """A line of the trial's table."""

    test: str  # correlation, permutation, adversary, frozen, guide, seeds, trained adversary, training
    what: str  # "attention and gradients, layer 4"
    value: float
    interval: tuple[float, float]
    control: float = math.nan
    control_name: str = ""  # what the control is, in a few words
    n: int = 0  # texts, or seeds
    unit: str = ""  # "Kendall tau-b", "TVD", "JSD, at most 0.693", "accuracy"
    extra: Mapping[str, float] = field(default_factory=dict)  # further numbers: "share significant": 0.4

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready: what is not a number is None."""
        return {key: to_jsonable(value) for key, value in asdict(self).items()}


@dataclass(frozen=True)
class Statement:
    """One test in words."""

    test: str
    title: str
    showed: str
    not_shown: str


def by_test(findings: Sequence[TrialRow]) -> dict[str, list[TrialRow]]:
    """Findings of each test, tests in the order they were held."""
    found: dict[str, list[TrialRow]] = {}
    for finding in findings:
        found.setdefault(finding.test, []).append(finding)
    return found


def of_test(findings: Sequence[TrialRow], test: str) -> list[TrialRow]:
    """Those of one test."""
    return [found for found in findings if found.test == test]
