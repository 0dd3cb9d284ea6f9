"""Put the numbers of a run folder into docs/worked-audit.md: python docs/examples/tables.py NAME RUN.

NAME is reviews or prompts. Writes NAME-table.csv beside this file, and the tables, verdicts and counts
between the marks `<!-- NAME -->` and `<!-- end of NAME -->` of the page. A run that is not finished gives
what is done.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from heedful.auditing.folder import RunFolder
from heedful.auditing.result import Audit, collect
from heedful.evidence.verdict import PROMISE
from heedful.types import Evidence

HERE = Path(__file__).parent
PAGE = HERE.parent / "worked-audit.md"
OPERATORS = ("mask", "delete")
PAIRS = (("comprehensiveness", "sufficiency"), ("monotonicity", "infidelity"))
METRICS = ("comprehensiveness", "sufficiency", "aopc", "insertion", "monotonicity", "infidelity")


def shown(number: float) -> str:
    text = f"{number:.2f}".replace("-", "−")
    return "0.00" if text == "−0.00" else text


def sign(audit: Audit, one: Evidence) -> str:
    """The marks of the audit's own table."""
    if one.circular:
        return " ↻"
    verdict = next(v for v in audit.verdict if (v.metric, v.operator) == (one.metric, one.operator))
    if one.method in verdict.lead:
        return " ★"
    return " ○" if one.method in verdict.no_better_than_random else ""


def skills(audit: Audit, methods: list[str], metrics: tuple[str, ...]) -> list[str]:
    """Skill and interval, a column a metric and operator."""
    at = {(e.metric, e.operator, e.method): e for e in audit.table}
    columns = [(metric, operator) for metric in metrics for operator in OPERATORS]
    lines = [
        "| method | " + " | ".join(f"{m}, {o}" for m, o in columns) + " |",
        "|---|" + "---|" * len(columns),
    ]
    for method in methods:
        cells = []
        for column in columns:
            one = at[(*column, method)]
            low, high = map(shown, one.interval)
            cells.append(f"{shown(one.skill)} ({low} to {high}){sign(audit, one)}")
        lines.append(f"| `{method}` | " + " | ".join(cells) + " |")
    return [*lines, ""]


def spreads(audit: Audit, methods: list[str]) -> list[str]:
    lines = ["| method | " + " | ".join(METRICS) + " |", "|---|" + "---|" * len(METRICS)]
    rows = [[f"`{method}`", *(shown(audit.spread(m, method)) for m in METRICS)] for method in methods]
    return [*lines, *("| " + " | ".join(row) + " |" for row in rows), ""]


def section(name: str, audit: Audit) -> str:
    total: dict[str, float] = {}
    for one in audit.table:
        if one.metric == METRICS[0]:
            total[one.method] = total.get(one.method, 0.0) + one.skill
    methods = sorted(total, key=total.__getitem__, reverse=True)
    cost = audit.cost
    lines = [f"![Skill by method, metric and operator](examples/{name}.svg)", ""]
    for metrics in PAIRS:
        lines += skills(audit, methods, metrics)
    lines += [
        f"All numbers: [{name}-table.csv](examples/{name}-table.csv). Spread, largest less smallest skill:",
        "",
    ]
    lines += spreads(audit, methods)
    lines += ["The verdicts, word by word:", "", f"> {audit.verdict.headline}", ""]
    lines += [*(f"- {verdict.words}" for verdict in audit.verdict), "", PROMISE]
    lines += [
        "",
        f"{audit.texts} texts. Model inputs: {cost['asked']:,} asked for, {cost['run']:,} run;"
        f" {cost['naive']:,} if nothing were shared.\n"
        f"The prediction is the label on {audit.right} of {audit.labelled}.",
    ]
    return "\n".join(lines)


def main(name: str, run: Path) -> None:
    audit = collect(RunFolder(run))
    (HERE / f"{name}-table.csv").write_text(audit.to_csv(), encoding="utf-8")
    first, last = f"<!-- {name} -->", f"<!-- end of {name} -->"
    page = PAGE.read_text(encoding="utf-8")
    body = f"{first}\n\n{section(name, audit)}\n\n{last}"
    PAGE.write_text(re.sub(f"{first}.*?{last}", lambda _: body, page, flags=re.DOTALL), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
