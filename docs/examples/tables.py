"""Put the numbers of a run folder into docs/worked-audit.md: python docs/examples/tables.py NAME RUN.

NAME is reviews. Writes NAME-table.csv beside this file, and the verdict, its table, skills and
counts between the marks `<!-- NAME -->` and `<!-- end of NAME -->` of the page.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import heedful
from heedful.reports.audit_tables import HEADS, apart_heads, judged_apart, verdict_rows

HERE = Path(__file__).parent
PAGE = HERE.parent / "worked-audit.md"
METRICS = ("comprehensiveness", "sufficiency", "monotonicity", "infidelity")


def shown(number: float) -> str:
    text = f"{number:.2f}".replace("-", "−")
    return "0.00" if text == "−0.00" else text


def rows(heads: tuple[str, ...], body: list[tuple[str, ...]]) -> list[str]:
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    return [*lines, *("| " + " | ".join(row) + " |" for row in body), ""]


def skills(audit: heedful.Audit) -> list[str]:
    """Skill and interval, one column per metric and operator."""
    at = {(e.metric, e.operator, e.method): e for e in audit.table}
    columns = [(metric, operator) for metric in METRICS for operator in audit.verdict.operators]
    body = []
    for one in audit.verdict.methods:
        cells = [at[(*column, one.method)] for column in columns]
        numbers = [f"{shown(e.skill)} ({' to '.join(map(shown, e.interval))})" for e in cells]
        body.append((f"`{one.method}`", *numbers))
    return rows(("method", *(f"{metric}, {operator}" for metric, operator in columns)), body)


def section(name: str, audit: heedful.Audit) -> str:
    cost = audit.cost
    lines = [f"> {line}" for line in audit.verdict.sentences]
    lines = [line for pair in lines for line in (pair, ">")][:-1]
    lines += ["", *rows(HEADS, verdict_rows(audit))]
    lines += [
        "The next table shows the share of random orders beaten, per metric family and per operator. In the",
        "last column, the smallest share of an operator is subtracted from the largest share.",
        "",
    ]
    lines += rows(apart_heads(audit), judged_apart(audit))
    lines += [f"![Skill by method, metric and operator](examples/{name}.svg)", "", *skills(audit)]
    lines += [f"All numbers: [{name}-table.csv](examples/{name}-table.csv).", ""]
    lines += [
        f"The methods and metrics asked for {cost['asked']:,} model inputs. Many of these inputs are equal.",
        f"So heedful ran only {cost['run']:,} model inputs. If nothing were shared, {cost['naive']:,}",
        f"model inputs would be necessary. The prediction equals the label on {audit.right} of",
        f"{audit.labelled} texts.",
    ]
    return "\n".join(lines)


def main(name: str, run: Path) -> None:
    audit = heedful.Audit.load(run)
    (HERE / f"{name}-table.csv").write_text(audit.to_csv(), encoding="utf-8")
    first, last = f"<!-- {name} -->", f"<!-- end of {name} -->"
    page = PAGE.read_text(encoding="utf-8")
    body = f"{first}\n\n{section(name, audit)}\n\n{last}"
    PAGE.write_text(re.sub(f"{first}.*?{last}", lambda _: body, page, flags=re.DOTALL), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
