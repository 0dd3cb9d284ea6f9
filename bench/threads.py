"""`python -m bench.threads`: how long commands take with other ways of waiting, quiet and beside a busy core.

Runs README's audit on four texts as a command, once per setting and round, and writes the medians to
bench/results/threads.json and into docs/benchmarks.md. Quiet means that nothing else runs: look at `uptime`
first. Busy means one endless loop beside it. (Not part of `make bench`: there is no rival, and it takes about
ten minutes.)
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from bench import results

ROOT = Path(__file__).parents[1]
FILE = ROOT / "bench" / "results" / "threads.json"
AUDIT = ("docs/examples/reviews.csv", "--label-column", "label", "--limit", "4", "--quiet", "--full")
ROUNDS = 2
SETTINGS = {
    "one thread": {"OMP_NUM_THREADS": "1"},
    "one thread and one process per core, heedful's choice for a small model": {},
    "two threads that sleep": {"OMP_NUM_THREADS": "2"},
    "two threads that spin, torch's default": {
        "OMP_NUM_THREADS": "2",
        "GOMP_SPINCOUNT": "300000",  # libgomp's own
    },
}
HEAD = """## Threads on a quiet and on a busy machine

By default, torch's threads spin (use the processor) while they wait. On a busy machine, spinning costs more
time than it saves. So heedful's commands let the threads sleep: they set `OMP_WAIT_POLICY=PASSIVE` before
torch is imported, unless you set it yourself. `explain` and `audit` use one thread for models below ten
million parameters, unless `OMP_NUM_THREADS` is set. `audit` then starts one process per core, and each
process explains one text at a time.

In Python, heedful changes nothing. If several processes share the machine, export `OMP_WAIT_POLICY=PASSIVE`
before you start Python, or call `torch.set_num_threads(1)`.

The table shows the time of README's audit, with all methods, on four texts. Processor time is in brackets. On
the busy machine, another program uses one core.
"""
TABLE = ("| threads | quiet machine | one core busy |", "|---|---|---|")
OURS = ("OMP_", "GOMP_", "KMP_", "MKL_")


def once(more: dict[str, str]) -> tuple[float, float]:
    """(seconds, seconds of processor time) of one audit."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(OURS)}
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime, time.perf_counter()
    with TemporaryDirectory() as folder:
        subprocess.run(
            [sys.executable, "-m", "heedful", "audit", *AUDIT, "--out", f"{folder}/run"],
            cwd=ROOT,
            env=kept | more,
            check=True,
            capture_output=True,
        )
    return (
        time.perf_counter() - start,
        resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before,
    )


@contextmanager
def busy_core() -> Iterator[None]:
    other = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        other.kill()
        other.wait()


def measure(rounds: int = ROUNDS) -> dict[str, list[list[float]]]:
    """Setting -> (seconds, processor seconds) of each round; settings take turns."""
    taken: dict[str, list[list[float]]] = {name: [] for name in SETTINGS}
    for _ in range(rounds):
        for name, more in SETTINGS.items():
            taken[name].append(list(once(more)))
            print(name, *(f"{value:.1f}" for value in taken[name][-1]), file=sys.stderr, flush=True)
    return taken


def section() -> list[str]:
    """Lines of docs/benchmarks.md: medians, processor time in brackets."""
    if not FILE.is_file():
        return ["- Not measured yet: `python -m bench.threads`", ""]
    measured = json.loads(FILE.read_text(encoding="utf-8"))
    machine = measured["machine"]
    rows = [
        f"| {name} | {_median(measured['quiet'][name])} | {_median(measured['busy'][name])} |"
        for name in measured["quiet"]
    ]
    made = f"`python -m bench.threads`, {measured['date']}, median of {ROUNDS} runs"
    return [
        HEAD,
        f"{made}; {machine['cores']} cores of {machine['cpu']}. {measured.get('note', '')}",
        "",
        *TABLE,
        *rows,
        "",
    ]


def _median(runs: list[list[float]]) -> str:
    wall, processor = (statistics.median(column) for column in zip(*runs, strict=True))
    return f"{wall:.1f} s ({processor:.1f} s)"


def main() -> None:
    quiet = measure()
    with busy_core():
        busy = measure()
    when = {"date": datetime.now(UTC).date().isoformat(), "machine": results.machine()}
    FILE.write_text(json.dumps({**when, "quiet": quiet, "busy": busy}, indent=1) + "\n", encoding="utf-8")
    from bench import page

    page.write()


if __name__ == "__main__":
    main()
