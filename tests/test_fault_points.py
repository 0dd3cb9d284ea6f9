"""Stopped at a named place and started again, a work ends with the bytes of one that was never stopped."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("fault_points.py")
QUIET = os.environ | {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}


PLACES = {"harvest": 16, "train": 10, "audit": 10}


@pytest.mark.parametrize("work", PLACES)
def test_stopped_at_a_named_place(work: str, tmp_path: Path) -> None:
    """Killed, and with the power; a place that is never reached is a failure."""
    command = [sys.executable, str(SCRIPT), work, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, env=QUIET, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert len(found) == 2 * PLACES[work]
    assert {place: why for place, why in found.items() if why} == {}
