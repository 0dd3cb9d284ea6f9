"""A TopK autoencoder's training step: only active latents are decoded and get gradients.

sae-lens pins an older transformer-lens, so the comparison runs in an environment of its own (`make bench`
makes it): heedful, SAELens, dictionary-learning and a dense loop by hand in one process there, interleaved.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from bench.results import RIVALS, ratios
from bench.timing import Ratio

TITLE = "Training a TopK autoencoder: width 384 to 12,288, batch 4,096"
ROOT = Path(__file__).parents[1]


def run() -> list[Ratio]:
    python = RIVALS / "saelens" / "bin" / "python"
    if not python.is_file():
        sys.exit("SAELens has no environment yet; type: make bench")
    done = subprocess.run(
        [python, "-W", "ignore", "-m", "bench.rivals.sae_worker"],
        cwd=ROOT,
        env=os.environ | {"HF_HUB_OFFLINE": "1"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return ratios(json.loads(done.stdout.splitlines()[-1]))
