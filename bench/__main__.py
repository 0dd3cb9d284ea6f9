"""`make bench`: every workload, one after the other; `python -m bench NAME ...`: those named.

Prints ratios, puts them into bench/results/latest.json and writes docs/benchmarks.md from it.
"""

from __future__ import annotations

import logging
import sys
import time
import warnings
from importlib import import_module

from rich.console import Console
from rich.table import Table

from bench import WORKLOADS, page, results
from bench.timing import Ratio


def main(names: list[str]) -> None:
    if unknown := set(names) - set(WORKLOADS):
        sys.exit(f"no workload {', '.join(sorted(unknown))}; there are: {', '.join(WORKLOADS)}")
    _quiet()
    found: list[Ratio] = []
    for name in names or WORKLOADS:
        print(f"timing {name} ...", file=sys.stderr)
        workload, started = import_module(f"bench.{name}"), time.perf_counter()
        ratios = workload.run()
        results.record(name, workload.TITLE, time.perf_counter() - started, ratios)
        found += ratios
    show(found)
    page.write()


def _quiet() -> None:
    """What rivals say of themselves, each by name."""
    logging.getLogger("shap").setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", message=".*nonlinear_modules.*", module="captum")


def show(ratios: list[Ratio], console: Console | None = None) -> None:
    table = Table("work", "rival", "heedful / rival", "quartiles", "should be", title="lower is better")
    for r in ratios:
        wish = "" if r.at_most is None else f"≤ {r.at_most:g}" + ("  MISSED" if r.missed else "")
        table.add_row(r.work, r.rival, f"{r.ratio:.2f}", f"{r.low:.2f} to {r.high:.2f}", wish)
    (console or Console()).print(table)


if __name__ == "__main__":
    main(sys.argv[1:])
