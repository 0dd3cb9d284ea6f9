"""An audit in plain words and cells, for the terminal and the page alike."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from heedful.audits.result import Audit
from heedful.core.evidence import Evidence
from heedful.core.numbers import at_most, fixed, percent
from heedful.io.labels import SHOWN_LABELS
from heedful.metrics import sensitivity_warning
from heedful.metrics.verdict import MethodVerdict
from heedful.reports.visible import visible

BETTER, NOT_SHOWN, CIRCULAR = "●", "○", "↻"
MARKS = {
    BETTER: "better than random orders",
    NOT_SHOWN: "not shown to be",
    CIRCULAR: "fitted by the operator that removes words here",
}
SINGLE = "An interval is that of one number by itself: the verdict above is what was tested."
HEADS = ("method", "won", "beaten", "z", "gap", "inputs")
LEGEND = (
    "won: texts on which it beat most random orders. beaten: share of random orders, mean over texts. "
    "z: distance from random orders, in their standard deviations. gap: no method is better by more. "
    "inputs: what the model reads for one explanation."
)


def verdict_rows(audit: Audit) -> list[tuple[str, ...]]:
    """One row per method of the verdict, under HEADS; the recommended method first."""
    ordered = sorted(audit.verdict.methods, key=lambda one: one.method != audit.verdict.use)
    return [_verdict_row(one) for one in ordered]


def _verdict_row(one: MethodVerdict) -> tuple[str, ...]:
    gap = "–" if math.isnan(one.gap) else "0" if one.gap <= 0 else at_most(one.gap)
    return (
        f"{BETTER if one.better else NOT_SHOWN} {one.method}",
        f"{one.won:,} of {one.texts:,}",
        percent(one.share),
        fixed(one.z),
        gap,
        "–" if math.isnan(one.inputs) else f"{one.inputs:,.0f}",
    )


def judged_apart(audit: Audit) -> list[tuple[str, ...]]:
    """Shares by family and by operator, under the names that `apart_heads` gives."""
    rows = []
    for one in audit.verdict.methods:
        shares = [*one.by_family.values(), *one.by_operator.values()]
        spread = (
            max(one.by_operator.values()) - min(one.by_operator.values()) if one.by_operator else math.nan
        )
        cells = [percent(share) for share in (*shares, spread)]
        rows.append((one.method, *cells))
    return rows


def apart_heads(audit: Audit) -> tuple[str, ...]:
    if not audit.verdict.methods:
        return ()
    one = audit.verdict.methods[0]
    families = [name.replace("-", " the ") for name in one.by_family]
    return ("method", *families, *one.by_operator, "spread over operators")


@dataclass(frozen=True)
class SkillTable:
    """Skills under one operator: methods by metrics."""

    operator: str  # "" where nothing is removed
    metrics: list[str]
    methods: list[str]  # highest mean skill first
    cells: dict[tuple[str, str], Evidence]  # (metric, method)

    @property
    def title(self) -> str:
        return f"Words removed by: {self.operator}" if self.operator else "Nothing removed"

    def mark(self, metric: str, method: str) -> str:
        result = self.cells.get((metric, method))
        return CIRCULAR if result is not None and result.circular else ""

    def shown(self, metric: str, method: str) -> str:
        result = self.cells.get((metric, method))
        return "–" if result is None else fixed(result.skill)

    def interval(self, metric: str, method: str) -> str:
        """[0.72, 0.95], or nothing."""
        result = self.cells.get((metric, method))
        if result is None or math.isnan(result.interval[0]):
            return ""
        return f" [{', '.join(map(fixed, result.interval))}]"


def blocks(audit: Audit) -> list[SkillTable]:
    """One an operator, those that remove something first."""
    operators = dict.fromkeys(e.operator for e in audit.table)
    return [_block(audit, operator) for operator in sorted(operators, key=lambda name: not name)]


def _block(audit: Audit, operator: str) -> SkillTable:
    here = [e for e in audit.table if e.operator == operator]
    cells = {(e.metric, e.method): e for e in here}
    metrics = list(dict.fromkeys(e.metric for e in here))

    def mean(method: str) -> float:
        skills = [e.skill for e in here if e.method == method and math.isfinite(e.skill)]
        return sum(skills) / len(skills) if skills else -math.inf

    methods = sorted(dict.fromkeys(e.method for e in here), key=lambda method: -mean(method))
    return SkillTable(operator, metrics, methods, cells)


def share(audit: Audit) -> str:
    """Rows asked for, and run."""
    requested, run, naive = (audit.cost[name] for name in ("asked", "run", "naive"))
    if not requested:
        return "No model input was asked for."
    of_naive = (
        f"; without any sharing it would be {naive:,}, of which this is {run / naive:.0%}" if naive else ""
    )
    return f"{requested:,} model inputs were asked for and {run:,} run, {run / requested:.0%}{of_naive}."


def skipped(audit: Audit) -> list[str]:
    """What was left out, in sentences."""
    lines = []
    if audit.copies:
        rows = "1 row has" if audit.copies == 1 else f"{audit.copies:,} rows have"
        lines.append(f"{rows} the text of another: copies count once.")
    if gone := audit.rows - audit.texts - audit.copies:
        lines.append(f"{gone:,} of {audit.rows:,} rows were skipped: see the errors.")
    for method, count in audit.failed.items():
        lines.append(
            f"{method} has no scores on {count:,} {'text' if count == 1 else 'texts'}: see the errors."
        )
    lines += [f"{metric} had no value on any text: nothing was measured by it." for metric in audit.silent]
    return lines


def labels(audit: Audit) -> str:
    results = []
    if audit.labelled:
        results.append(
            f"The prediction is the label on {audit.right:,} of {audit.labelled:,} labelled texts."
        )
    if audit.unknown:
        what = "1 label names" if audit.unknown == 1 else f"{audit.unknown:,} labels name"
        results += [f"{what} no label of the model.", *_unknown_labels(audit)]
    return " ".join(results)


def _unknown_labels(audit: Audit) -> list[str]:
    """Which labels these are, of the first rows, and what they might have been."""
    names = list(dict(audit.made.get("model", {})).get("labels") or ())
    if len(names) < 2:  # a value, not a choice
        return []
    known = ", ".join(f"{visible(name)} ({place})" for place, name in enumerate(names[:SHOWN_LABELS]))
    known += ", …" if len(names) > SHOWN_LABELS else ""
    return [
        f'Row {each["row"]}: the label "{visible(each["label"][:60])}" is none of {known}; '
        "its text counts as unlabelled."
        for each in audit.unknown_labels
    ]


def little(audit: Audit) -> str:
    """A sentence where the model hardly reads the texts."""
    return sensitivity_warning.of_many(audit.table, str(dict(audit.made.get("model", {})).get("kind")))


def wide_spread(audit: Audit, least: float = 0.25) -> Sequence[tuple[str, str, float]]:
    """(metric, method, spread) where the skill depends much on how words are removed, the widest first."""
    pairs = dict.fromkeys((e.metric, e.method) for e in audit.table)
    results = [(metric, method, audit.spread(metric, method)) for metric, method in pairs]
    return sorted((each for each in results if each[2] >= least), key=lambda each: -each[2])
