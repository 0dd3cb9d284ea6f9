"""`make bench`: every workload in this one process; prints ratios and writes bench/results/latest.json."""

from __future__ import annotations

import json
import os
import platform
import sys
from importlib import import_module
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.timing import Ratio
from heedful.run import versions

WORKLOADS = ("trace", "rows", "reference")
RESULTS = Path(__file__).parent / "results"


def main(names: list[str]) -> None:
    found: list[Ratio] = []
    for name in names or WORKLOADS:
        print(f"timing {name} ...", file=sys.stderr)
        found += import_module(f"bench.{name}").run()
    show(found)
    facts = {"machine": platform.machine(), "cores": os.cpu_count(), "system": platform.system()}
    document = {"versions": versions(), "machine": facts, "ratios": [ratio.as_dict() for ratio in found]}
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "latest.json").write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


def show(ratios: list[Ratio]) -> None:
    table = Table("work", "rival", "ours / rival", "quartiles", "should be", title="lower is better")
    for r in ratios:
        wish = "" if r.at_most is None else f"≤ {r.at_most:g}" + ("" if r.ratio <= r.at_most else "  MISSED")
        table.add_row(r.work, r.rival, f"{r.ratio:.2f}", f"{r.low:.2f} to {r.high:.2f}", wish)
    Console().print(table)


main(sys.argv[1:])
