"""Runs every lab with --fast under seeds that nobody chose, and appends what held to docs/labs/seeds.csv.

    python docs/run_lab_seeds.py                             until every lab has 20 seeds
    python docs/run_lab_seeds.py --seeds 3                   until every lab has 3 of them
    python docs/run_lab_seeds.py --lab dyck --lab solu       these labs
    python docs/run_lab_seeds.py --count                     what the file says; runs nothing

A lab's seeds are drawn from the SHA-256 of its sources: its module and the modules of heedful.labs that it
imports (not frame and report, which only write down). They are known once the sources are frozen, and other
sources draw others. What is in the file for these sources is not run again, so a stopped run goes on. Rows of
earlier sources stay in the file and are counted apart. Exit code 1: more than 1 % of the claims failed.

One process per lab, one thread. `make lab-seeds` runs this and writes the list of labs.
"""

from __future__ import annotations

import argparse
import ast
import csv
import hashlib
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass, fields
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import heedful.labs
from heedful.intervals import Interval, share_of
from heedful.labs import labs, run_lab

FILE = Path(__file__).parent / "labs" / "seeds.csv"
SEEDS = 20
MOST = 0.01  # share of claims that may fail
PACKAGE = "heedful.labs"
WRITERS = {PACKAGE, f"{PACKAGE}.frame", f"{PACKAGE}.report"}
STOPPED = "the run stopped: "


@dataclass(frozen=True)
class Row:
    """One claim of one run."""

    lab: str
    source: str  # of the lab, 12 digits of its SHA-256
    seed: int
    claim: str
    held: bool
    seconds: float  # of the processor, for the whole run: what one free core takes


@dataclass(frozen=True)
class Count:
    """What some rows say."""

    runs: int
    claims: int
    failed: int
    share: float
    interval: Interval  # 95 %, as if claims were independent


# --- which seeds -----------------------------------------------------------------------------------


@cache
def source_of(module: str) -> str:
    """12 digits of the SHA-256 of a lab's module and of what it imports from heedful.labs."""
    texts = {name: _path(name).read_bytes() for name in sorted(_needed(module))}
    return hashlib.sha256(b"\0".join(texts.values())).hexdigest()[:12]


def _path(module: str) -> Path:
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        raise SystemExit(f"the source of {module} is not to be found")
    return Path(spec.origin)


def _needed(module: str) -> set[str]:
    waiting, seen = [module], {module}
    while waiting:
        new = set(_imports(_path(waiting.pop()).read_text("utf-8"))) - seen - WRITERS
        seen |= new
        waiting += new
    return seen


def _imports(text: str) -> Iterator[str]:
    """Modules of heedful.labs that a source imports, wherever in it."""
    for node in ast.walk(ast.parse(text)):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        yield from (name for name in names if name.startswith(f"{PACKAGE}.") and _is_module(name))


def _is_module(name: str) -> bool:
    """A file of heedful.labs, not a function in one; nothing is imported to find out."""
    return (Path(heedful.labs.__file__).parent / f"{name.removeprefix(f'{PACKAGE}.')}.py").is_file()


def drawn(source: str, count: int) -> list[int]:
    """The first seeds of a source, five digits each."""
    digests = (hashlib.sha256(f"{source}:{k}".encode()).digest() for k in range(count))
    return [int.from_bytes(digest[:8], "big") % 100_000 for digest in digests]


# --- the file --------------------------------------------------------------------------------------


def read(path: Path = FILE) -> list[Row]:
    if not path.is_file():
        return []
    with path.open(newline="", encoding="utf-8") as lines:
        return [
            Row(r["lab"], r["source"], int(r["seed"]), r["claim"], r["held"] == "True", float(r["seconds"]))
            for r in csv.DictReader(lines)
        ]


def append(rows: Iterable[Row], path: Path) -> None:
    """The rows of a run are written at once: a run that was stopped leaves none."""
    new = not path.is_file()
    with path.open("a", newline="", encoding="utf-8") as lines:
        writer = csv.writer(lines, lineterminator="\n")
        if new:
            writer.writerow([field.name for field in fields(Row)])
        writer.writerows(map(astuple, rows))


def current(rows: Iterable[Row]) -> list[Row]:
    """Rows of the labs as they are now."""
    now = {each.name: source_of(each.module) for each in labs().values()}
    return [row for row in rows if now.get(row.lab) == row.source]


def count_of(rows: Iterable[Row]) -> Count:
    some = list(rows)
    failed = [not row.held for row in some]
    share, interval = share_of(failed)
    runs = len({(row.lab, row.source, row.seed) for row in some})
    return Count(runs, len(some), sum(failed), share, interval)


# --- runs ------------------------------------------------------------------------------------------


def run(names: Iterable[str], seeds: int, path: Path) -> None:
    """Until each lab has so many seeds in the file."""
    there = {(row.lab, row.source, row.seed) for row in read(path)}
    for name in names:
        source = source_of(labs()[name].module)
        wanted = [seed for seed in drawn(source, seeds) if (name, source, seed) not in there]
        for seed, rows in results(name, source, wanted) if wanted else ():
            append(rows, path)
            failed = [row.claim for row in rows if not row.held]
            print(f"{name} {seed}: {len(rows) - len(failed)} of {len(rows)} claims, {rows[0].seconds:.0f} s")
            for claim in failed:
                print(f"  failed: {claim}")
            sys.stdout.flush()


def results(name: str, source: str, seeds: list[int]) -> Iterator[tuple[int, list[Row]]]:
    """The runs of a lab, in a process of their own. An error is a claim that failed."""
    command = [sys.executable, __file__, "--worker", name, *map(str, seeds)]
    settings = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | settings) as process:
        assert process.stdout is not None
        for line in process.stdout:
            seed, claims, seconds = json.loads(line)
            yield seed, [Row(name, source, seed, *claim, seconds) for claim in claims]
    if process.returncode:
        raise SystemExit(f"{name} ended with code {process.returncode}; start again to go on")


def work(name: str, seeds: list[int]) -> None:
    """One line per run: seed, claims, seconds of the processor."""
    for seed in seeds:
        began = time.process_time()
        try:
            report = run_lab(name, fast=True, seed=seed)
            claims = [(claim.sentence, claim.holds) for claim in report.claims]
        except Exception as error:
            claims = [(f"{STOPPED}{type(error).__name__}: {error}", False)]
        print(json.dumps([seed, claims, round(time.process_time() - began, 1)]), flush=True)


def told(rows: list[Row]) -> str:
    """What the file says of the labs as they are, in a few sentences."""
    now = current(rows)
    if not now:
        return "No seeds were run for the labs as they are."
    of = count_of(now)
    low, high = (f"{100 * end:.2f}" for end in of.interval)
    seeds = Counter(lab for lab, _ in {(row.lab, row.seed) for row in now})
    fewest = min(seeds.get(name, 0) for name in labs())
    text = (
        f"{of.runs} runs of {len(seeds)} labs, {fewest} to {max(seeds.values())} seeds per lab:"
        f" {of.failed} of {of.claims:,} claims failed"
        f" ({100 * of.share:.2f} %; 95 % interval {low} to {high} %)."
    )
    seconds = sorted({(row.lab, row.seed): row.seconds for row in now}.values())
    middle, longest = seconds[len(seconds) // 2], seconds[-1]
    text += f" A run takes {middle:.0f} seconds of one core (median; the longest {longest:.0f})."
    if before := len(rows) - len(now):
        failed = sum(not row.held for row in rows) - of.failed
        text += f" Under earlier sources of the labs, {failed} of {before:,} failed."
    return text


def main() -> None:
    if sys.argv[1:2] == ["--worker"]:
        work(sys.argv[2], list(map(int, sys.argv[3:])))
        return
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"per lab (default {SEEDS})")
    parser.add_argument("--lab", action="append", choices=sorted(labs()), help="this one; may be repeated")
    parser.add_argument("--file", type=Path, default=FILE, help="default docs/labs/seeds.csv")
    parser.add_argument("--count", action="store_true", help="only say what the file says")
    given = parser.parse_args()
    if not given.count:
        run(given.lab or labs(), given.seeds, given.file)
    rows = read(given.file)
    print(told(rows))
    sys.exit(count_of(current(rows)).share > MOST)


if __name__ == "__main__":
    main()
