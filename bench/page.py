"""`python -m bench.page` writes docs/benchmarks.md from bench/results/latest.json; a test checks it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench import WORKLOADS, results, threads
from bench.results import Result
from bench.timing import Ratio

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"
HEAD = """# Benchmarks

Every number is **ours / rival**, so lower is better and 1 is a tie. Both run in the same process on the same
model and text, in alternation (A, B, A, B, ...). The ratio is the median over the pairs, with its quartiles.
*F* is one forward pass of 128 tokens. *Limit* is the goal we set; a goal we do not reach says **MISSED**.

`make bench` runs everything (about a quarter of an hour on two quiet cores). `python -m bench NAME` runs one
workload and keeps the results of the others. `python -m bench.page` writes this page from
`bench/results/latest.json`.

"""
ERRORS = """## How "to equal standard error" is computed

Both run with the same number of model inputs *n* and several seeds. *V* is the variance of a word's score
over the seeds, summed over the *d* words. The error variance of least squares on *n* independent inputs is
proportional to 1 / (n − d − 1). So the rival needs this many inputs to reach our error:

```text
n' = d + 1 + (n − d − 1) · V_rival / V_ours
```

The ratio is our seconds divided by (the rival's seconds times n' / n). (The usual 1 / n would favour us.) The
quartiles come from a bootstrap over the seeds. The rivals answer the same question: the same logit, the same
words, no selection of words. `bench/lime_error.py` and `bench/shap_error.py` say which of their settings were
changed for that.

## Limitations

- ferret needs transformers < 5. Its 4,600 F were recorded once on two cores with an older version.
- inseq requires an older version of a package that others need newer. `make bench` makes an environment for
  it; there heedful and inseq run in one process.
"""
DETAILS = ("command", "work", "rival", "ours", "rival's", "pairs", "model inputs", "notes")


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
    lines += ["", "## Details", "", *_machines(found), ""]
    lines += ["| " + " | ".join(DETAILS) + " |", "|---" * len(DETAILS) + "|"]
    lines += [_details(name, ratio) for name in WORKLOADS if name in found for ratio in found[name].ratios]
    lines.append("")
    return "\n".join([*lines, *threads.section()]) + "\n" + ERRORS


def _row(title: str, r: Ratio) -> str:
    limit = "" if r.at_most is None else f"≤ {r.at_most:g}"
    verdict = "" if r.at_most is None else "**MISSED**" if r.missed else "met"
    work = title if r.work in title else f"{title}: {r.work}"
    return f"| {work} | {r.rival} | {r.ratio:.2f} | {r.low:.2f} to {r.high:.2f} | {limit} | {verdict} |"


def _details(name: str, r: Ratio) -> str:
    amounts = f"{_amount(r.ours, r.unit)} | {_amount(r.theirs, r.unit)}"
    work = f"`python -m bench {name}` | {r.work} | {r.rival}"
    return f"| {work} | {amounts} | {r.pairs} | {_inputs(r)} | {r.note} |"


def _inputs(r: Ratio) -> str:
    ours, theirs = ("—" if rows is None else f"{rows:,}" for rows in r.rows)
    return "" if r.rows == (None, None) else f"{ours} and {theirs}"


def _machines(found: dict[str, Result]) -> list[str]:
    """One line per machine and set of versions: most workloads share them."""
    named: dict[str, list[str]] = {}
    for name in WORKLOADS:
        if name in found:
            named.setdefault(f"{found[name].date}, {_machine(found[name])}", []).append(f"`{name}`")
    many = max(named, key=lambda facts: len(named[facts]), default="")
    others = [f"- {', '.join(names)}: {facts}" for facts, names in named.items() if facts != many]
    return [f"- Measured {many}", *others] if many else []


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
