"""What a trial measured: one table, the details of each test, and a paragraph that claims no more.

Needs neither torch, nor the model, nor the tests: a saved trial opens anywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from heedful.core.charts import Chart
from heedful.core.exports import frame_of, plot_of
from heedful.core.result import StoredResult
from heedful.core.result_kinds import result_kind
from heedful.io.chart_codec import chart_from_dict, chart_to_dict
from heedful.io.csv_text import csv_text
from heedful.io.json_codec import from_jsonable, json_text, to_jsonable
from heedful.trials.rows import INTERRUPTED, TrialRow, TrialStatement

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

COLUMNS = ("test", "what", "value", "low", "high", "control", "control_name", "n", "unit", "extra")


@result_kind("trial", version=1)
@dataclass(frozen=True, repr=False, eq=False)
class Trial(StoredResult):
    """The result of `heedful.trial`: findings, each with its interval and its control.

    Parameters
    ----------
    findings
        One row per finding.
    texts
        Number of texts.
    model
        Facts about the model.
    settings
        How the trial was made: seed, options, versions.
    details
        For each test: the numbers of every text.
    skipped
        Tests that did not run, and the reasons.
    notes
        Remarks.
    statements
        What each test showed and did not show.
    conclusion
        What the tests show together.
    charts
        For each test: the data of its chart.
    answer
        The conclusion in a few words: the headline.

    Examples
    --------
    >>> import heedful
    >>> texts = ["The food was great", "The service was bad", "a nice bar in the old town"]
    >>> trial = heedful.trial("zoo:one-layer", texts, tests=["correlation"])
    >>> trial.findings[0].unit
    'Kendall tau-b'
    >>> len(trial.to_frame())
    3
    """

    kind: ClassVar[str] = "trial"

    findings: tuple[TrialRow, ...]
    texts: int
    model: Mapping[str, Any] = field(default_factory=dict)  # name, kind, fingerprint
    settings: Mapping[str, Any] = field(default_factory=dict)  # seed, options, versions
    details: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # test -> numbers, text by text
    skipped: Mapping[str, str] = field(default_factory=dict)  # test -> why it did not run
    notes: tuple[str, ...] = ()
    statements: tuple[TrialStatement, ...] = ()  # what each test did and did not show
    conclusion: str = ""  # what the tests come to
    charts: Mapping[str, Chart] = field(default_factory=dict)  # by test
    answer: str = ""  # the conclusion in a few words

    @property
    def table(self) -> list[dict[str, Any]]:
        """One dictionary per finding, ready for JSON."""
        return [row.to_dict() for row in self.findings]

    def of(self, test: str) -> list[TrialRow]:
        """The findings of one test."""
        return [row for row in self.findings if row.test == test]

    @property
    def verdict(self) -> str:
        """One paragraph: what each test showed, what it did not show, and the conclusion."""
        each = (f"{test.showed} {test.more} Not shown: {test.not_shown}" for test in self.statements)
        said = " ".join([*each, self.conclusion])
        return " ".join(said.split())  # without the spaces of what is empty

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C stopped the trial before all tests had run."""
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

    def to_frame(self) -> DataFrame:
        """A pandas table, one row per finding."""
        return frame_of(self)

    def plot(self, tests: Sequence[str] | None = None) -> Figure:
        """A matplotlib figure: every finding with its 95 % interval and its control, one panel per test."""
        return plot_of(self, tests=tests)

    def to_dict(self) -> dict[str, Any]:
        """Everything as a dictionary, ready for JSON."""
        return {
            "answer": self.answer,
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
            "charts": {test: chart_to_dict(chart) for test, chart in self.charts.items()},
        }

    def stored(self) -> dict[str, Any]:
        charts = {test: chart_to_dict(chart) for test, chart in self.charts.items()}
        return dict(to_jsonable(self)) | {"charts": charts}

    @classmethod
    def from_stored(cls, data: dict[str, Any], run: Any) -> Trial:
        """Make a trial from the data of `stored`."""
        charts = {test: chart_from_dict(chart) for test, chart in dict(data.get("charts", {})).items()}
        return from_jsonable(cls, {**data, "charts": charts})

    def run_title(self) -> str:
        return f"{self.model.get('name', 'a model')}: {self.answer or self.conclusion}"


def by_unit(rows: Sequence[TrialRow]) -> dict[str, list[TrialRow]]:
    """What can share an axis."""
    grouped: dict[str, list[TrialRow]] = {}
    for row in rows:
        grouped.setdefault(row.unit, []).append(row)
    return grouped
