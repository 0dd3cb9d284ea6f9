"""How torch's threads wait and how many there are, for commands only: in Python nothing global is touched.

Between two operations torch's OpenMP threads spin, each on its core. On a quiet machine that saves a little;
where something else runs, spinning threads take the cores from each other, and a command takes several times
as long (the table in docs/benchmarks.md, made by `python -m bench.threads`). So commands let threads sleep,
unless the user chose how they wait. A small model gets one thread: more cost it as much as they gain. Audits
of a small model use the other cores by processes, one text each (heedful.engine.processes).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from heedful.core.model import Model

import os
import sys

WAITING = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")  # how a user chooses it
# parameters; by size and not by a clock, so that a resumed run counts the same
SMALL_MODEL_PARAMETERS = 10_000_000
as_program = False  # main was called by a shell


def wait_passively() -> None:
    """Threads sleep while they wait. OpenMP reads the environment once, when torch is imported."""
    if "torch" not in sys.modules and not any(name in os.environ for name in WAITING):
        os.environ["OMP_WAIT_POLICY"] = "PASSIVE"


def fit_threads(model: Model) -> None:
    """One thread for a small model, unless the user chose a number or the command was called from Python."""
    if _one_thread(model):
        import torch

        torch.set_num_threads(1)


def process_count(model: Model) -> int:
    """How many processes share the texts of an audit: one per core where the model gets one thread."""
    from heedful.engine.processes import core_count

    return core_count() if _one_thread(model) else 1


def _one_thread(model: Model) -> bool:
    module = getattr(model, "module", None)
    if not as_program or "OMP_NUM_THREADS" in os.environ or module is None:
        return False
    return bool(model.size < SMALL_MODEL_PARAMETERS)
