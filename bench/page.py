"""`python -m bench.page` writes docs/benchmarks.md from bench/results/latest.json; a test checks it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench import WORKLOADS, results, threads
from bench.results import Result
from bench.timing import Ratio

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"
HEAD = """# Benchmarks

Generated from `bench/results/latest.json` by `python -m bench.page`. `make bench` runs everything again
(about a quarter of an hour on two quiet cores); `python -m bench NAME` runs one workload, and keeps the
results of the others.

Every number is **ours / rival**: lower is better, 1 is a tie. Both run in the same process on the same
model and text, one after the other in turn (A, B, A, B, ...), so that both meet the same noise; the ratio
is the median of the pairs, with its quartiles. *F* is one forward of 128 tokens. *Limit* is what we set
out to reach; what was not reached says **MISSED**.

"""
ERRORS = """## How "to equal standard error" is computed

Both are run with the same number of rows *n* over several seeds. *V* is the variance of a word's score
over the seeds, summed over the *d* words. Least squares on *n* independent rows has an error variance
proportional to 1 / (n − d − 1), so the rows the rival needs to reach our error are

```text
n' = d + 1 + (n − d − 1) · V_rival / V_ours
```

and the ratio is our seconds over the rival's seconds times n' / n. (The usual 1 / n would flatter us.)
The quartiles are of a bootstrap over the seeds. The rivals answer the same question as we do: the same
logit, the same words, no selection of words; what was changed in their settings for that is told in
`bench/lime_error.py` and `bench/shap_error.py`.

## What is not measured here

ferret runs only on transformers < 5: its 4,600 F were recorded on two cores with an older one and are
not measured again. inseq pins a package that others need newer: it runs in an environment of its own,
which `make bench` makes, and there heedful runs beside it in one process.
"""


def markdown(found: dict[str, Result]) -> str:
    every = [result for name in WORKLOADS if (result := found.get(name))]
    ratios = [ratio for result in every for ratio in result.ratios]
    limited = [ratio for ratio in ratios if ratio.at_most is not None]
    missed = sum(ratio.missed for ratio in limited)
    count = f"{len(limited) - missed} of {len(limited)} limits are met"
    count += f", {missed} MISSED" if missed else ""
    absent = [f"- Not measured yet: `python -m bench {name}`" for name in WORKLOADS if name not in found]
    lines = [HEAD + count + ".", "", *absent, ""]
    lines += ["| work | rival | ours / rival | quartiles | limit | |", "|---|---|---|---|---|---|"]
    lines += [_row(result.title, ratio) for result in every for ratio in result.ratios]
    lines += ["", "## In detail", ""]
    for name in WORKLOADS:
        if name in found:
            lines += _section(name, found[name])
    return "\n".join([*lines, *threads.section()]) + "\n" + ERRORS


def _row(title: str, r: Ratio) -> str:
    limit = "" if r.at_most is None else f"≤ {r.at_most:g}"
    verdict = "" if r.at_most is None else "**MISSED**" if r.missed else "met"
    work = title if r.work in title else f"{title}: {r.work}"
    return f"| {work} | {r.rival} | {r.ratio:.2f} | {r.low:.2f} to {r.high:.2f} | {limit} | {verdict} |"


def _section(name: str, result: Result) -> list[str]:
    lines = [f"### {result.title}", "", f"`python -m bench {name}`, {result.date}. {_machine(result)}", ""]
    for r in result.ratios:
        rows = _rows(r)
        amounts = f"ours {_amount(r.ours, r.unit)}, rival {_amount(r.theirs, r.unit)}; {r.pairs} pairs"
        told = f" {r.note[0].upper() + r.note[1:]}." if r.note else ""
        lines += [f"- **{r.work}** against **{r.rival}**: {amounts}{rows}.{told}"]
    return [*lines, ""]


def _rows(r: Ratio) -> str:
    ours, theirs = ("—" if rows is None else f"{rows:,}" for rows in r.rows)
    return "" if r.rows == (None, None) else f"; rows {ours} and {theirs}"


def _amount(value: float, unit: str) -> str:
    if unit == "s":
        return f"{value:.1f} s" if value >= 1 else f"{value * 1e3:.0f} ms"
    return f"{value:,.0f} {unit}"


def _machine(result: Result) -> str:
    m: dict[str, Any] = result.machine
    names = ", ".join(f"{name} {number}" for name, number in result.versions.items())
    return f"{m['cores']} cores of {m['cpu']}, {m['threads']} threads, {m['memory']}; {names}."


def write() -> None:
    PAGE.write_text(markdown(results.read()), encoding="utf-8")


if __name__ == "__main__":
    write()
