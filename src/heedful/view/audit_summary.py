"""An audit in plain words and cells, for the terminal and the page alike."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from heedful.auditing.result import Audit
from heedful.evidence import moved
from heedful.evidence.verdict import Verdict
from heedful.types import Evidence
from heedful.view.summary import signed

LEADS, DULL, CIRCULAR = "★", "○", "↻"
MARKS = {
    LEADS: "leads, alone or tied",
    DULL: "not shown to be better than a random order",
    CIRCULAR: "chosen or fitted by what the metric measures: it takes no part in the verdict",
}
SINGLE = "An interval is that of one number; the marks are corrected for all pairs of methods."


@dataclass(frozen=True)
class Block:
    """Skills under one operator: methods by metrics."""

    operator: str  # "" where nothing is removed
    metrics: list[str]
    methods: list[str]  # highest mean skill first
    cells: dict[tuple[str, str], Evidence]  # (metric, method)
    verdicts: dict[str, Verdict]  # by metric

    @property
    def title(self) -> str:
        return f"Words removed by: {self.operator}" if self.operator else "Nothing removed"

    def mark(self, metric: str, method: str) -> str:
        found = self.cells.get((metric, method))
        if found is not None and found.circular:
            return CIRCULAR
        verdict = self.verdicts.get(metric)
        if verdict is None:
            return ""
        return LEADS if method in verdict.lead else DULL if method in verdict.no_better_than_random else ""

    def shown(self, metric: str, method: str) -> str:
        found = self.cells.get((metric, method))
        return "–" if found is None else signed(found.skill)

    def interval(self, metric: str, method: str) -> str:
        """[0.72, 0.95], or nothing."""
        found = self.cells.get((metric, method))
        if found is None or math.isnan(found.interval[0]):
            return ""
        return f" [{', '.join(map(signed, found.interval))}]"


def blocks(audit: Audit) -> list[Block]:
    """One an operator, those that remove something first."""
    operators = dict.fromkeys(e.operator for e in audit.table)
    return [_block(audit, operator) for operator in sorted(operators, key=lambda name: not name)]


def _block(audit: Audit, operator: str) -> Block:
    here = [e for e in audit.table if e.operator == operator]
    cells = {(e.metric, e.method): e for e in here}
    metrics = list(dict.fromkeys(e.metric for e in here))

    def mean(method: str) -> float:
        skills = [e.skill for e in here if e.method == method and math.isfinite(e.skill)]
        return sum(skills) / len(skills) if skills else -math.inf

    methods = sorted(dict.fromkeys(e.method for e in here), key=lambda method: -mean(method))
    found = {v.metric: v for v in audit.verdict if v.operator == operator}
    return Block(operator, metrics, methods, cells, found)


def share(audit: Audit) -> str:
    """Rows asked for, and run."""
    asked, run, naive = (audit.cost[name] for name in ("asked", "run", "naive"))
    if not asked:
        return "No model input was asked for."
    of_naive = (
        f"; without any sharing it would be {naive:,}, of which this is {run / naive:.0%}" if naive else ""
    )
    return f"{asked:,} model inputs were asked for and {run:,} run, {run / asked:.0%}{of_naive}."


def skipped(audit: Audit) -> list[str]:
    """What was left out, in sentences."""
    lines = []
    if gone := audit.rows - audit.texts:
        lines.append(f"{gone:,} of {audit.rows:,} rows were skipped: see the errors.")
    for method, count in audit.failed.items():
        lines.append(
            f"{method} failed on {count:,} {'text' if count == 1 else 'texts'}, which its verdicts leave out."
        )
    lines += [f"{metric} had no value on any text: nothing was measured by it." for metric in audit.silent]
    return lines


def labels(audit: Audit) -> str:
    said = []
    if audit.labelled:
        said.append(f"The prediction is the label on {audit.right:,} of {audit.labelled:,} labelled texts.")
    if audit.unknown:
        what = "1 label names" if audit.unknown == 1 else f"{audit.unknown:,} labels name"
        said.append(f"{what} no label of the model.")
    return " ".join(said)


def little(audit: Audit) -> str:
    """A sentence where the model hardly reads the texts."""
    return moved.of_many(audit.table, str(dict(audit.made.get("model", {})).get("kind")))


def wide_spread(audit: Audit, least: float = 0.25) -> Sequence[tuple[str, str, float]]:
    """(metric, method, spread) where the skill depends much on how words are removed, the widest first."""
    pairs = dict.fromkeys((e.metric, e.method) for e in audit.table)
    found = [(metric, method, audit.spread(metric, method)) for metric, method in pairs]
    return sorted((each for each in found if each[2] >= least), key=lambda each: -each[2])
