"""`python -m bench.page` writes docs/benchmarks.md from bench/results/latest.json; a test checks it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench import WORKLOADS, results, threads
from bench.results import Result
from bench.timing import Ratio

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"
HEAD = """# Benchmarks

This page compares heedful with other libraries (*rivals*). The column *heedful / rival* is the time (or the
memory) of heedful divided by that of the rival. Lower is better, and 1 means that both are equal. Both run in
the same process on the same model and text, in alternation (A, B, A, B, ...). Each pair of runs gives one
ratio; the table shows the median of these ratios and their quartiles. The column *limit* is the goal that we
set. If heedful does not reach a goal, the table says **MISSED**. *F* is the time of one forward pass of 128
tokens.

`make bench` runs everything (about a quarter of an hour on two quiet cores). `python -m bench NAME` runs one
workload and keeps the results of the others. `python -m bench.page` writes this page from
`bench/results/latest.json`.

"""
ERRORS = """## How "to equal standard error" is computed

heedful and the rival run with the same number of model inputs *n* and several seeds. *V* is the variance of a
word's score over the seeds, summed over the *d* words. The error variance of least squares on *n* independent
inputs is proportional to 1 / (n − d − 1). So the rival needs this many inputs to reach heedful's error:

```text
n' = d + 1 + (n − d − 1) · V_rival / V_heedful
```

The ratio is the time of heedful divided by the time that the rival would need for n' inputs: its measured
time multiplied by n' / n. (If we made the usual assumption, an error variance proportional to 1 / n, the
ratio would be better for heedful.) The quartiles come from a bootstrap over the seeds. The rivals explain the
same logit and give scores to the same words, to all of them. `bench/lime_error.py` and `bench/shap_error.py`
say which settings of the rivals were changed for this comparison.

## Limitations

- ferret needs a version of the `transformers` library below 5. So its time, 4,600 F, was measured only once,
  on two cores, with an older version of `transformers`.
- inseq needs an older version of a package than the other libraries. So `make bench` makes a separate
  environment for inseq. In this environment, heedful and inseq run in one process.
"""
DETAILS = ("command", "work", "rival", "heedful", "the rival", "pairs", "model inputs", "notes")


def markdown(found: dict[str, Result]) -> str:
    every = [result for name in WORKLOADS if (result := found.get(name))]
    ratios = [ratio for result in every for ratio in result.ratios]
    limited = [ratio for ratio in ratios if ratio.at_most is not None]
    missed = sum(ratio.missed for ratio in limited)
    count = f"{len(limited) - missed} of {len(limited)} limits are met"
    count += f", {missed} MISSED" if missed else ""
    absent = [f"- Not measured yet: `python -m bench {name}`" for name in WORKLOADS if name not in found]
    lines = [HEAD + count + ".", "", *absent, ""]
    lines += ["| work | rival | heedful / rival | quartiles | limit | |", "|---|---|---|---|---|---|"]
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
