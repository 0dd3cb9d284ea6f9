"""An audit on two Ray workers against one process: python -m bench.audit_ray [TEXTS [PAIRS]].

Not among the workloads of `make bench`: it times this machine's cores, not a rival. Starting and ending the
cluster is counted. One thread a process on both sides, runs in turn, so both meet the same noise; where other
programs want the cores too, two workers get a larger share of them than one process, which the ratio of the
processors' seconds (all processes of ours) does not see.
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
AT_MOST = 1.15


def audit(engine: str, texts: list[str], out: Path) -> float:
    """Seconds of one audit."""
    started = time.perf_counter()
    heedful.audit(
        "zoo:sentiment",
        texts,
        methods=METHODS,
        out=out,
        engine=engine,
        shard=4,
        workers=2 if engine == "ray" else None,
    )
    return time.perf_counter() - started


def main(count: int, pairs: int) -> None:
    import torch

    torch.set_num_threads(1)
    texts, ratios = sentences(count), []
    with tempfile.TemporaryDirectory() as folder:
        audit("local", texts[:2], Path(folder) / "warm")
        for pair in range(pairs):
            spent = {}
            for engine in ("ray", "local"):
                out = Path(folder) / engine
                shutil.rmtree(out, ignore_errors=True)
                spent[engine] = audit(engine, texts, out)
            same = all(
                (Path(folder) / "ray" / p.relative_to(Path(folder) / "local")).read_bytes() == p.read_bytes()
                for p in (Path(folder) / "local").rglob("*.parquet")
            )
            ratios.append(spent["ray"] / spent["local"])
            print(
                f"pair {pair + 1}: {count} texts, two workers {spent['ray']:.1f} s, "
                f"one process {spent['local']:.1f} s, ratio {ratios[-1]:.2f}, same bytes {same}, "
                f"load {os.getloadavg()[0]:.1f}",
                flush=True,
            )
    ratio = sorted(ratios)[len(ratios) // 2]
    print(f"median ratio {ratio:.2f}, should be at most {AT_MOST}{'' if ratio <= AT_MOST else '  MISSED'}")


if __name__ == "__main__":
    given = [int(word) for word in sys.argv[1:]]
    main(*given, *(60, 3)[len(given) :])
