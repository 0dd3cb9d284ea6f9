"""Scores from elsewhere beside those of our own methods: looked up row by row, then laid on the text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from heedful.auditing.given import Given, read_scores_file, unit_scores
from heedful.auditing.source import Row
from heedful.errors import HeedfulError
from heedful.rows import spread
from heedful.types import Attribution, Comparison, Target


@dataclass(frozen=True)
class Outside:
    """Where the scores of a row are found; a reason stands in place of scores that cannot be read."""

    methods: tuple[str, ...]
    of: Callable[[int, Any], Mapping[str, Any]]  # (row number, text) -> method -> Given, or why not
    digest: str = ""  # of the file they came from

    def beside(self, row: Row) -> Row:
        if row.broken or row.copy_of is not None:
            return row
        found = self.of(row.number, row.text)
        none = f"there are no scores for row {row.number}"
        return replace(row, given={name: found.get(name, none) for name in self.methods})

    def facts(self) -> dict[str, Any]:
        return {"scores": self.digest} if self.digest else {}


def from_file(path: Path) -> Outside:
    """Of `heedful audit --scores`."""
    found = read_scores_file(path)
    return Outside(found.methods, found.of, found.digest)


def aligned(
    given: Mapping[str, Any], comparison: Comparison, unit: str, labels: Sequence[str]
) -> tuple[list[Attribution], dict[str, str]]:
    """(attributions, method -> why its scores cannot be used)."""
    found: list[Attribution] = []
    refused: dict[str, str] = {}
    for method, scores in given.items():
        if isinstance(scores, str):
            refused[method] = scores
            continue
        try:
            found.append(_attribution(method, scores, comparison, unit, labels))
        except HeedfulError as error:
            refused[method] = str(error)
    return found, refused


def _attribution(
    method: str, given: Given, comparison: Comparison, unit: str, labels: Sequence[str]
) -> Attribution:
    x, target = comparison.x, comparison.target
    values = unit_scores(given, x, unit, _column(given, target, labels))
    return Attribution(
        x,
        target,
        spread(values, x.units(unit), len(x)),
        method=method,
        output=comparison.attributions[0].output,
        fitted_by=given.fitted_by,
    )


def _column(given: Given, target: Target, labels: Sequence[str]) -> int | str | None:
    """Of scores with a column per output: that of the target."""
    if given.outputs:
        return target.label
    return target.index if labels and len(given.scores[0]) == len(labels) else None
