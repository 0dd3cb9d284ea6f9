"""What a trial measured: one table, the details of each test, and a paragraph that claims no more.

Needs neither torch, nor the model, nor the tests: a saved trial opens anywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

from heedful.core.result import StoredResult, TextResult
from heedful.core.result_kinds import result_kind
from heedful.io.csv_text import csv_text
from heedful.io.json_codec import json_text, to_jsonable
from heedful.trials.rows import INTERRUPTED, Statement, TrialChart, TrialRow

COLUMNS = ("test", "what", "value", "low", "high", "control", "control_name", "n", "unit", "extra")


@result_kind("trial", version=1)
@dataclass(frozen=True, repr=False, eq=False)
class Trial(TextResult, StoredResult):
    """The result of `heedful.trial`."""

    kind: ClassVar[str] = "trial"

    findings: tuple[TrialRow, ...]
    texts: int
    model: Mapping[str, Any] = field(default_factory=dict)  # name, kind, fingerprint
    settings: Mapping[str, Any] = field(default_factory=dict)  # seed, options, versions
    details: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # test -> numbers, text by text
    skipped: Mapping[str, str] = field(default_factory=dict)  # test -> why it was not held
    notes: tuple[str, ...] = ()
    statements: tuple[Statement, ...] = ()  # what each test did and did not show
    conclusion: str = ""  # what the tests come to
    charts: Mapping[str, TrialChart] = field(default_factory=dict)  # test -> its plot

    @property
    def table(self) -> list[dict[str, Any]]:
        """One dictionary per line, JSON-ready."""
        return [row.to_dict() for row in self.findings]

    def of(self, test: str) -> list[TrialRow]:
        """The rows of one test."""
        return [row for row in self.findings if row.test == test]

    @property
    def verdict(self) -> str:
        """What each test showed and did not, then what that comes to: one paragraph."""
        each = (f"{test.showed} Not shown: {test.not_shown}" for test in self.statements)
        return " ".join([*each, self.conclusion])

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended it before all tests were held."""
        return INTERRUPTED in self.skipped.values()

    def __repr__(self) -> str:
        tests = ", ".join(dict.fromkeys(row.test for row in self.findings))
        return f"<heedful.Trial of {self.model.get('name', 'a model')} on {self.texts} texts: {tests}>"

    def to_csv(self) -> str:
        """One line per finding."""
        rows = [
            [f.test, f.what, f.value, *f.interval, f.control, f.control_name, f.n, f.unit, json_text(f.extra)]
            for f in self.findings
        ]
        return csv_text(COLUMNS, rows)

    def to_dict(self) -> dict[str, Any]:
        return {
            "verdict": self.verdict,
            "conclusion": self.conclusion,
            "statements": to_jsonable(self.statements),
            "texts": self.texts,
            "table": self.table,
            "model": to_jsonable(self.model),
            "settings": to_jsonable(self.settings),
            "details": to_jsonable(self.details),
            "skipped": to_jsonable(self.skipped),
            "notes": list(self.notes),
            "charts": {test: to_jsonable(asdict(chart)) for test, chart in self.charts.items()},
        }

    def run_title(self) -> str:
        return f"{self.model.get('name', 'a model')}: {self.conclusion}"


def by_unit(rows: Sequence[TrialRow]) -> dict[str, list[TrialRow]]:
    """What can share an axis."""
    grouped: dict[str, list[TrialRow]] = {}
    for row in rows:
        grouped.setdefault(row.unit, []).append(row)
    return grouped
