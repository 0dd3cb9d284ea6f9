"""What a trial measured: one table, the details of each test, and a paragraph that claims no more.

Needs neither torch, nor the model, nor the tests: a saved trial opens anywhere.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from heedful.core.errors import HeedfulError
from heedful.core.result import TextResult
from heedful.io.json_codec import to_jsonable
from heedful.trials.rows import INTERRUPTED, ChartSeries, Statement, TrialChart, TrialRow

FILE = "trial.json"
COLUMNS = ("test", "what", "value", "low", "high", "control", "control_name", "n", "unit", "extra")


@dataclass(frozen=True, repr=False, eq=False)
class Trial(TextResult):
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
        """One line per row."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(COLUMNS)
        for row in self.findings:
            numbers = (row.value, *row.interval, row.control)
            shown = ["" if math.isnan(number) else repr(number) for number in numbers]
            extra = json.dumps(to_jsonable(row.extra), ensure_ascii=False)
            writer.writerow([row.test, row.what, *shown, row.control_name, row.n, row.unit, extra])
        return out.getvalue()

    def to_dict(self) -> dict[str, Any]:
        return {
            "verdict": self.verdict,
            "conclusion": self.conclusion,
            "statements": [to_jsonable(asdict(statement)) for statement in self.statements],
            "texts": self.texts,
            "table": self.table,
            "model": dict(self.model),
            "settings": dict(self.settings),
            "details": {test: dict(numbers) for test, numbers in self.details.items()},
            "skipped": dict(self.skipped),
            "notes": list(self.notes),
            "charts": {test: to_jsonable(asdict(chart)) for test, chart in self.charts.items()},
        }

    def save(self, folder: str | Path) -> Path:
        """Write trial.json into a folder, which `Trial.load` and `heedful report` open."""
        target = Path(folder)
        target.mkdir(parents=True, exist_ok=True)
        (target / FILE).write_text(self.to_json(), encoding="utf-8")
        return target

    @classmethod
    def load(cls, folder: str | Path) -> Trial:
        """Read what `save` wrote."""
        path = Path(folder) / FILE
        try:
            return from_dict(json.loads(path.read_text(encoding="utf-8")))
        except OSError as error:
            raise HeedfulError(f"cannot read {path}", error.strerror or str(error)) from None
        except (KeyError, TypeError, ValueError) as error:
            raise HeedfulError(f"{path} is not a saved trial", str(error)) from None


def from_dict(data: Mapping[str, Any]) -> Trial:
    """A trial from what `Trial.to_dict` gave."""
    return Trial(
        findings=tuple(map(_row, data["table"])),
        texts=data["texts"],
        model=data["model"],
        settings=data["settings"],
        details=data["details"],
        skipped=data["skipped"],
        notes=tuple(data["notes"]),
        statements=tuple(map(_statement, data["statements"])),
        conclusion=str(data["conclusion"]),
        charts={test: _chart(chart) for test, chart in dict(data["charts"]).items()},
    )


def _row(row: Mapping[str, Any]) -> TrialRow:
    low, high = map(_number, row["interval"])
    extra = {name: _number(value) for name, value in row["extra"].items()}
    numbers: dict[str, Any] = {"value": _number(row["value"]), "control": _number(row["control"])}
    return TrialRow(**{**row, **numbers, "interval": (low, high), "extra": extra})


def _statement(data: Mapping[str, Any]) -> Statement:
    name, heading = map(str, data["column"])
    words = {key: str(data[key]) for key in ("test", "title", "showed", "not_shown")}
    return Statement(**words, column=(name, heading))


def _chart(data: Mapping[str, Any]) -> TrialChart:
    series = [
        ChartSeries(one["name"], tuple((_number(x), _number(y)) for x, y in one["points"]), one["joined"])
        for one in data["series"]
    ]
    return TrialChart(**{**data, "series": tuple(series)})


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


def by_unit(rows: Sequence[TrialRow]) -> dict[str, list[TrialRow]]:
    """What can share an axis."""
    grouped: dict[str, list[TrialRow]] = {}
    for row in rows:
        grouped.setdefault(row.unit, []).append(row)
    return grouped
