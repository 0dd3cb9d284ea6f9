"""Runs every lab with --fast under seeds that nobody chose, and appends what held to docs/labs/seeds.csv.

    python docs/run_lab_seeds.py                             until every lab has 20 seeds
    python docs/run_lab_seeds.py --seeds 3                   until every lab has 3 of them
    python docs/run_lab_seeds.py --lab dyck --lab solu       these labs
    python docs/run_lab_seeds.py --count                     what the file says; runs nothing

Every lab gets its first seed before any gets its second, the shortest lab first. Each run is a process of
its own with one thread, --workers of them at a time. Its rows are appended when it ends: the script may be
stopped at any time, and goes on where it stopped. In the background: nohup make lab-seeds SEEDS=3 &

A lab's seeds are drawn from the SHA-256 of its code: its module and every module of heedful that this
imports, directly or not, inside functions too. Seeds are known once the code is frozen, and other code draws
others. Rows of older code stay in the file and are counted apart. Weights and texts are data, not code.

Exit code 1: more than 1 % of the claims failed, or a lab has fewer seeds of the present code than --seeds.
A run that raises an error or whose process dies is one failed claim, "the run stopped".

`make lab-seeds` runs this and writes the list of labs.
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
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import astuple, dataclass, fields
from functools import cache
from pathlib import Path

import heedful
from heedful.labs import labs, run_lab
from heedful.stats.intervals import Interval, share_of

FILE = Path(__file__).parent / "labs" / "seeds.csv"
ROOT = Path(heedful.__file__).parent
SEEDS = 20
WORKERS = 2
MOST = 0.01  # share of claims that may fail
FRAME = "heedful.labs.base.registry"  # starts every lab; its text counts, what it imports does not
STOPPED = "the run stopped: "
NAMED = ("heedful.explainers", "heedful.metrics")  # packages that the registry imports by name


@dataclass(frozen=True)
class Row:
    """One claim of one run."""

    lab: str
    source: str  # 12 digits of the SHA-256 of the code that ran
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
    """12 digits of the SHA-256 of a module and of all modules of heedful that it imports."""
    parts = [f"{name}\0".encode() + _path(name).read_bytes() for name in sorted(needed(module))]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:12]


def sources() -> dict[str, str]:
    """The present code of every lab."""
    return {each.name: source_of(each.module) for each in labs().values()}


def needed(module: str) -> set[str]:
    """A module, what it imports from heedful, what those import, and so on."""
    waiting, seen = [module], {module, FRAME}
    while waiting:
        new = imports(waiting.pop()) - seen
        seen |= new
        waiting += new
    return seen


@cache
def imports(module: str) -> frozenset[str]:
    """Modules of heedful that a source imports, wherever in it; read, not run.

    A package that is imported as a whole brings all of its modules: registries import them by name.
    """
    names: set[str] = set()
    whole: set[str] = set()
    for node in _run_nodes(ast.parse(_path(module).read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
            whole |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            names.add(f"{node.value.id}.{node.attr}")  # heedful.load
        elif isinstance(node, ast.Constant) and node.value in NAMED:
            whole.add(node.value)
    ours = {_home(name) for name in names | whole if name.startswith("heedful.")}
    inside = {each for name in whole if name.startswith("heedful.") for each in _modules(name)}
    return frozenset(each for name in ours | inside if _path(name).is_file() for each in _around(name))


def _run_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Every node below this one, without blocks for type checkers."""
    for child in ast.iter_child_nodes(node):
        if (
            isinstance(child, ast.If)
            and isinstance(child.test, ast.Name)
            and child.test.id == "TYPE_CHECKING"
        ):
            continue
        yield child
        yield from _run_nodes(child)


def _home(name: str) -> str:
    """heedful.load is kept in heedful.models."""
    return heedful._HOME.get(name.removeprefix("heedful."), name)


def _around(name: str) -> Iterator[str]:
    """A module and the packages it is in, which are imported before it."""
    parts = name.split(".")
    yield from (".".join(parts[:k]) for k in range(2, len(parts) + 1))


def _modules(package: str) -> Iterator[str]:
    """The modules of a package; none of what is not a package."""
    if _path(package).name == "__init__.py":
        yield from (f"{package}.{file.stem}" for file in _path(package).parent.glob("[!_]*.py"))


def _path(module: str) -> Path:
    """The file of a module of heedful, which need not exist; nothing is imported to find out."""
    place = ROOT.joinpath(*module.split(".")[1:])
    package = place / "__init__.py"
    return package if package.is_file() else place.with_name(f"{place.name}.py")


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


def current(rows: Iterable[Row], now: Mapping[str, str]) -> list[Row]:
    """Rows of this code, by lab."""
    return [row for row in rows if now.get(row.lab) == row.source]


def count_of(rows: Iterable[Row]) -> Count:
    some = list(rows)
    failed = [not row.held for row in some]
    share, interval = share_of(failed)
    runs = len({(row.lab, row.source, row.seed) for row in some})
    return Count(runs, len(some), sum(failed), share, interval)


# --- runs ------------------------------------------------------------------------------------------


def missing(names: Iterable[str], seeds: int, path: Path) -> list[tuple[str, str, int]]:
    """(lab, source, seed) that the file lacks: first seeds before second ones, short labs first."""
    there = {(row.lab, row.source, row.seed) for row in read(path)}
    now = sources()
    order = sorted(names, key=lambda name: labs()[name].minutes)
    draws = {name: drawn(now[name], seeds) for name in order}
    wanted = dict.fromkeys((name, now[name], draws[name][k]) for k in range(seeds) for name in order)
    return [each for each in wanted if each not in there]


def run(names: Iterable[str], seeds: int, path: Path, workers: int = WORKERS) -> None:
    """Until each lab has so many seeds in the file."""
    pool = ThreadPoolExecutor(workers)
    try:
        for done in as_completed([pool.submit(result, *each) for each in missing(names, seeds, path)]):
            rows = done.result()
            append(rows, path)
            failed = [row.claim for row in rows if not row.held]
            first, held = rows[0], len(rows) - len(failed)
            print(f"{first.lab} {first.seed}: {held} of {len(rows)} claims, {first.seconds:.0f} s")
            for claim in failed:
                print(f"  failed: {claim}")
            sys.stdout.flush()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def result(name: str, source: str, seed: int) -> list[Row]:
    """One run of a lab, in a process of its own. A process that dies is a claim that failed."""
    command = [sys.executable, __file__, "--worker", name, str(seed)]
    settings = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=os.environ | settings, check=False)
    if ended.returncode:
        return [Row(name, source, seed, f"{STOPPED}exit code {ended.returncode}", False, 0.0)]
    ran, claims, seconds = json.loads(ended.stdout.splitlines()[-1])
    return [Row(name, ran, seed, *claim, seconds) for claim in claims]


def work(name: str, seed: int) -> None:
    """One line: the code that ran, claims, seconds of the processor."""
    source, began = source_of(labs()[name].module), time.process_time()
    try:
        report = run_lab(name, fast=True, seed=seed)
        claims = [(claim.sentence, claim.holds) for claim in report.claims]
    except Exception as error:
        claims = [(f"{STOPPED}{type(error).__name__}: {error}", False)]
    print(json.dumps([source, claims, round(time.process_time() - began, 1)]))


def told(rows: list[Row], now: Mapping[str, str]) -> str:
    """What the file says of this code, by lab, and of all code, in a few sentences."""
    whole, of_now = count_of(rows), current(rows, now)
    beside = f"All runs of the file, older code included: {_failures(whole)}, in {whole.runs} runs."
    if not of_now:
        return f"No seeds were run for this code. {beside}"
    of = count_of(of_now)
    low, high = (f"{100 * end:.2f}" for end in of.interval)
    seeds = Counter(lab for lab, _ in {(row.lab, row.seed) for row in of_now})
    fewest = min(seeds.get(name, 0) for name in now)
    seconds = sorted({(row.lab, row.seed): row.seconds for row in of_now}.values())
    middle, longest = seconds[len(seconds) // 2], seconds[-1]
    return (
        f"{of.runs} runs of {len(seeds)} of {len(now)} labs, {fewest} to {max(seeds.values())} seeds per lab:"
        f" {_failures(of)} ({100 * of.share:.2f} %; 95 % interval {low} to {high} %)."
        f" A run takes {middle:.0f} seconds of one core (median; the longest {longest:.0f}). {beside}"
    )


def _failures(count: Count) -> str:
    return f"{count.failed} of {count.claims:,} claims failed"


def main() -> None:
    if sys.argv[1:2] == ["--worker"]:
        work(sys.argv[2], int(sys.argv[3]))
        return
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").split("\n")[0],
        epilog="In the background: nohup make lab-seeds SEEDS=3 &  It may be stopped and started again.",
    )
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"per lab (default {SEEDS})")
    parser.add_argument("--lab", action="append", choices=sorted(labs()), help="this one; may be repeated")
    parser.add_argument("--workers", type=int, default=WORKERS, help=f"runs at a time (default {WORKERS})")
    parser.add_argument("--file", type=Path, default=FILE, help="default docs/labs/seeds.csv")
    parser.add_argument("--count", action="store_true", help="only say what the file says")
    given = parser.parse_args()
    names = given.lab or list(labs())
    if not given.count:
        run(names, given.seeds, given.file, given.workers)
    now = {name: source for name, source in sources().items() if name in names}
    rows = [row for row in read(given.file) if row.lab in names]
    print(told(rows, now))
    lacking = missing(names, given.seeds, given.file)
    if lacking:
        print(f"{len(lacking)} runs are missing of {given.seeds} seeds per lab.")
    sys.exit(bool(lacking) or count_of(current(rows, now)).share > MOST)


if __name__ == "__main__":
    main()
