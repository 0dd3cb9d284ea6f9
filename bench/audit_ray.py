"""An audit on two Ray workers against two local processes: python -m bench.audit_ray [TEXTS [PAIRS]].

Not among the workloads of `make bench`: it times this machine's cores, not a rival. Both sides share the same
two cores, one thread per process, runs in turn. What it costs to start (a cluster, and workers that import
torch and load the model; or two forks) is paid once, so it matters less the longer the run. It is left out by
an audit of FEW texts: the ratio beyond the start is that of the time for the other texts.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import heedful
from bench.audit_texts import sentences

METHODS = ("grad-l2", "grad-x-input", "integrated-gradients", "occlusion", "lime")
ENGINES = ("ray", "local")
AT_MOST = 1.15
SHARD = 25  # texts
FEW = 2 * SHARD  # texts: a shard for each worker


def audit(engine: str, texts: list[str], out: Path) -> float:
    """Seconds of one audit."""
    shutil.rmtree(out, ignore_errors=True)
    started = time.perf_counter()
    heedful.audit("zoo:sentiment", texts, methods=METHODS, out=out, engine=engine, shard=SHARD, workers=2)
    return time.perf_counter() - started


def same_files(one: Path, other: Path) -> bool:
    tables = list(one.rglob("*.parquet"))
    return bool(tables) and all((other / p.relative_to(one)).read_bytes() == p.read_bytes() for p in tables)


def main(count: int, pairs: int) -> None:
    import torch

    torch.set_num_threads(1)
    texts, ratios = sentences(count), []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for engine in ENGINES:  # files are read from disk once, and compiled
            audit(engine, texts[:FEW], folder / "warm")
        few = {engine: audit(engine, texts[:FEW], folder / "few") for engine in ENGINES}
        print(
            f"{FEW} texts: two Ray workers {few['ray']:.1f} s, two processes {few['local']:.1f} s", flush=True
        )
        for pair in range(pairs):
            spent = {engine: audit(engine, texts, folder / engine) for engine in ENGINES}
            beyond = {engine: spent[engine] - few[engine] for engine in ENGINES}
            ratios.append(beyond["ray"] / beyond["local"])
            print(
                f"pair {pair + 1}: {count} texts, two Ray workers {spent['ray']:.1f} s, two processes "
                f"{spent['local']:.1f} s, ratio {spent['ray'] / spent['local']:.2f}, beyond the start "
                f"{ratios[-1]:.2f}, same bytes {same_files(folder / 'local', folder / 'ray')}, "
                f"load {os.getloadavg()[0]:.1f}",
                flush=True,
            )
    ratio = sorted(ratios)[len(ratios) // 2]
    print(f"median ratio {ratio:.2f}, should be at most {AT_MOST}{'' if ratio <= AT_MOST else '  MISSED'}")


if __name__ == "__main__":
    given = [int(word) for word in sys.argv[1:]]
    main(*given, *(900, 1)[len(given) :])
