"""Why each of 16 generated tokens: one shared forward against a pass per token.

inseq needs an old typeguard, so the comparison runs in an environment of its own (`make bench` makes it):
heedful, inseq and captum in one process there, interleaved.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from bench.results import RIVALS, ratios
from bench.timing import Ratio

TITLE = "Saliency of 16 generated tokens after a prompt of 64 tokens, GPT-2 small's size"
ROOT = Path(__file__).parents[1]


def run() -> list[Ratio]:
    python = RIVALS / "inseq" / "bin" / "python"
    if not python.is_file():
        sys.exit("inseq has no environment yet; type: make bench")
    done = subprocess.run(
        [python, "-W", "ignore", "-m", "bench.rivals.inseq_worker"],
        cwd=ROOT,
        env=os.environ | {"HF_HUB_OFFLINE": "1"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return ratios(json.loads(done.stdout.splitlines()[-1]))
