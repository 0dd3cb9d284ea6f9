"""How torch's threads wait, for commands only: in Python nothing global is touched.

Between two operations torch's OpenMP threads spin, each on its core. On a quiet machine that saves a little;
where something else runs, spinning threads take the cores from each other, and a command takes several times
as long (the table in docs/benchmarks.md, made by `python -m bench.threads`). So commands let threads sleep,
unless the user chose how they wait.
"""

from __future__ import annotations

import os
import sys

WAITING = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")  # how a user chooses it


def wait_passively() -> None:
    """Threads sleep while they wait. OpenMP reads the environment once, when torch is imported."""
    if "torch" not in sys.modules and not any(name in os.environ for name in WAITING):
        os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
