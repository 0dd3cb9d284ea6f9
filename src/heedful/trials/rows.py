"""What a test of the trial measured: one number, its interval, its control, and what it shows.

    value      the number, a mean over texts (or seeds)
    interval   95 %, over the same
    control    the number if attention meant nothing or, for a distance, the scale to read it by
    key        which of the test's numbers it is; sentences and charts choose rows by it
    variant    of which layer, score or term

Every test returns its details and a list of these, so that the table of the trial is one table.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from heedful.io.json_codec import to_jsonable

INTERRUPTED = "They were interrupted."  # why tests were not held
# keys of rows whose value is a change of the answer, by what their control deletes: any test may use them
BESIDE_ALL_WORDS, BESIDE_ONE_WORD = "change beside all words", "change beside one word"


@dataclass(frozen=True)
class TrialRow:
    """A line of the trial's table."""

    test: str  # its registered name
    what: str  # "attention and gradients, layer 4": for people
    value: float
    interval: tuple[float, float]
    control: float = math.nan
    control_name: str = ""  # what the control is, in a few words
    n: int = 0  # texts, or seeds
    unit: str = ""  # "Kendall tau-b", "TVD", "JSD, at most 0.693", "accuracy"
    extra: Mapping[str, float] = field(default_factory=dict)  # further numbers: "share significant": 0.4
    key: str = ""
    variant: str = ""

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready: what is not a number is None."""
        return {key: to_jsonable(value) for key, value in asdict(self).items()}


@dataclass(frozen=True)
class TrialStatement:
    """One test in words."""

    test: str
    title: str
    showed: str  # the answer to the question in the title, with its control
    not_shown: str
    more: str = ""  # further numbers as sentences
    axes: Mapping[str, str] = field(default_factory=dict)  # unit -> what a high value means


def by_test(rows: Sequence[TrialRow]) -> dict[str, list[TrialRow]]:
    """Rows of each test, tests in the order they were held."""
    grouped: dict[str, list[TrialRow]] = {}
    for row in rows:
        grouped.setdefault(row.test, []).append(row)
    return grouped


def of_key(rows: Sequence[TrialRow], key: str, test: str = "") -> list[TrialRow]:
    """Those with one key, of any test or of one."""
    return [row for row in rows if row.key == key and (not test or row.test == test)]
