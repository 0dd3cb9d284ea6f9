"""Planted dictionaries, found by `train_sae` with no argument but the kind: the table of docs/sae.md.

    python -m bench.sae_defaults SEED SEED SEED

48 dimensions, 96 features, 6 active on average, 120,000 rows; one seed for each kind of magnitudes. A feature
is recovered where a decoder row has cosine >= 0.9 with it. Half a minute to a minute per row, on one core.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import torch

import heedful

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from features.test_pilot import KINDS, MAGNITUDES, SHAPES, planted, recovered

torch.set_num_threads(1)


def main(seeds: list[int]) -> None:
    for seed, magnitudes in zip(seeds, MAGNITUDES, strict=True):
        x, directions = planted(seed, *SHAPES["48"], magnitudes)
        for kind in KINDS:
            start = time.process_time()
            sae = heedful.train_sae(x, kind=kind)
            seconds = time.process_time() - start
            k, share = sae.config.source["pilot"]["k"], recovered(sae, directions)
            print(f"| {magnitudes} | {seed} | {kind} | {k} | {share:.3f} | {seconds:.0f} s |", flush=True)


if __name__ == "__main__":
    print("| magnitudes | seed | kind | k | recovered | processor time |\n|---|---|---|---|---|---|")
    main([int(seed) for seed in sys.argv[1:]])
